// The strip is one stop of the Tab key: arrows go from bar to bar. Its table has the same links for everyone.
(function () {
  "use strict";
  const strip = document.querySelector("[data-strip] svg");
  if (!strip) return;
  const bars = [...strip.querySelectorAll("a")];
  const to = {
    ArrowLeft: (at) => at - 1,
    ArrowRight: (at) => at + 1,
    Home: () => 0,
    End: () => bars.length - 1,
  };

  strip.addEventListener("keydown", (event) => {
    const at = bars.indexOf(event.target.closest("a"));
    const next = to[event.key] && bars[to[event.key](at)];
    if (at < 0 || !next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    bars[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
})();
