// Two minutes before the session ends, say so; one key puts the end off, and what was typed stays where it is.
(function () {
  "use strict";
  const WARN = 120;
  const IDLE = 1800;
  const dialog = document.getElementById("gh-still-there");
  if (!dialog) return;
  const words = dialog.querySelector("p");
  const stay = dialog.querySelector("[data-stay]");
  let timer = 0;

  function again(seconds) {
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(1, seconds) * 1000);
  }

  function over() {
    words.textContent = "You are signed out. Sign in again in another tab, then go on here: what you typed is still there.";
    stay.hidden = true;
    addEventListener("focus", look, { once: true });
  }

  // Signing in again changes the token that forms are sent with.
  function renew(token) {
    for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = token;
  }

  function show(left) {
    const ends = left.seconds <= left.idle_seconds ? "You have been signed in for eight hours." : "Nothing was asked for lately.";
    words.textContent = `${ends} You are signed out in ${left.within > 90 ? "2 minutes" : "a minute"}.`;
    // Eight hours are eight hours: only idleness can be put off.
    stay.hidden = left.seconds <= left.idle_seconds;
    if (!dialog.open) dialog.showModal();
    (stay.hidden ? dialog.querySelector("[data-close]") : stay).focus();
    again(left.within > 60 ? left.within - 60 : left.within + 1);
  }

  // Another tab may have put the end off meanwhile, so the server is asked, and asking does not count as being there.
  async function look() {
    const answer = await fetch(dialog.dataset.session, { headers: { "X-Console-Poll": "1" }, credentials: "same-origin" });
    if (answer.status === 401) {
      if (!dialog.open) dialog.showModal();
      return over();
    }
    if (!answer.ok) return again(30);
    const left = await answer.json();
    renew(left.csrf_token);
    left.within = Math.min(left.idle_seconds, left.seconds);
    if (left.within <= WARN) return show(left);
    if (dialog.open) dialog.close();
    return again(left.within - WARN);
  }

  stay.addEventListener("click", async () => {
    const token = document.querySelector("[name=csrfmiddlewaretoken]");
    await fetch(dialog.dataset.session, {
      method: "POST", headers: { "X-CSRFToken": token ? token.value : "" }, credentials: "same-origin",
    });
    dialog.close();
    again(1);
  });
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  again(IDLE - WARN);
})();
