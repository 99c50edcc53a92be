// Where one is and what stands in the way: the current item of a long menu, and filters that take several lines.
(function () {
  "use strict";
  const nav = document.querySelector("#gh-nav");

  // Only the menu moves, never the page.
  function showCurrent() {
    const current = nav?.querySelector("[aria-current]");
    if (!current) return;
    const [seen, item] = [nav.getBoundingClientRect(), current.getBoundingClientRect()];
    const room = item.height;
    if (item.bottom + room > seen.bottom) nav.scrollTop += item.bottom + room - seen.bottom;
    else if (item.top - room < seen.top) nav.scrollTop += item.top - room - seen.top;
  }

  showCurrent();
  document.addEventListener("click", (event) => { if (event.target.closest("[data-nav]")) showCurrent(); });

  // One line of filters stays; more than one is a button that says how many are in force.
  const LINE = 72;
  if (matchMedia("(max-width: 1023px)").matches) {
    document.querySelectorAll("details.gh-filter-box[open]").forEach((box) => {
      if (box.querySelector(".gh-filter-fields").offsetHeight < LINE) return;
      box.classList.add("gh-filter-box--folded");
      box.open = false;
    });
  }
})();
