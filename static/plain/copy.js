// Copies the lines of a list; without scripts, or where the browser keeps the clipboard shut, the button stays away.
(function () {
  "use strict";
  document.querySelectorAll("[data-copy]").forEach((button) => {
    if (!navigator.clipboard) return;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const lines = [...document.getElementById(button.dataset.copy).children].map((line) => line.textContent.trim());
      await navigator.clipboard.writeText(lines.join("\n"));
      button.textContent = "Copied";
    });
  });
})();
