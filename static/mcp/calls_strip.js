// The strip is one stop of the Tab key: arrows go from bar to bar, with Shift they take in what lies between, and so
// does a drag. Its table has the same links for everyone.
(function () {
  "use strict";
  const strip = document.querySelector("[data-strip] svg");
  if (!strip) return;
  const bars = [...strip.querySelectorAll("a")];
  const href = (bar) => bar.getAttribute("href");
  const from = (bar) => bar.getAttribute("aria-label").split(":").slice(0, -1).join(":");
  let first = -1; // Where a choice of several began.
  let last = -1;

  function choose(begin, end) {
    [first, last] = [begin, end];
    const [low, high] = [Math.min(begin, end), Math.max(begin, end)];
    bars.forEach((bar, at) => bar.toggleAttribute("data-chosen", begin >= 0 && low < high && at >= low && at <= high));
  }

  // From the beginning of the first to the end of the last.
  function narrow() {
    const [low, high] = [Math.min(first, last), Math.max(first, last)];
    const query = new URLSearchParams(href(bars[low]));
    query.set("until", new URLSearchParams(href(bars[high])).get("until"));
    location.assign(`?${query}`);
  }

  function say() {
    const words = `${from(bars[Math.min(first, last)])} on, ${Math.abs(first - last) + 1} bars`;
    document.getElementById("gh-live").textContent = `${words}. Enter narrows the list to them.`;
  }

  function focus(at) {
    bars.forEach((bar, index) => bar.setAttribute("tabindex", index === at ? "0" : "-1"));
    bars[at].focus();
  }

  const indexOf = (target) => bars.indexOf(target?.closest?.("a"));
  const to = {
    ArrowLeft: (at) => at - 1,
    ArrowRight: (at) => at + 1,
    Home: () => 0,
    End: () => bars.length - 1,
  };

  strip.addEventListener("keydown", (event) => {
    const at = indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = to[event.key]?.(at);
    if (bars[next]) {
      event.preventDefault();
      choose(event.shiftKey ? (first < 0 ? at : first) : -1, event.shiftKey ? next : -1);
      focus(next);
      if (event.shiftKey) say();
    } else if (event.key === "Enter" && first >= 0 && first !== last) {
      event.preventDefault();
      narrow();
    } else if (event.key === "Escape") {
      choose(-1, -1);
    }
  });

  // ── Dragging over bars; a bar alone is the link that it is ────────────────────────────────────────────────────
  let dragging = false;
  strip.addEventListener("dragstart", (event) => event.preventDefault());
  strip.addEventListener("pointerdown", (event) => {
    const at = indexOf(event.target);
    if (at < 0 || event.button !== 0 || event.pointerType === "touch") return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    dragging = true;
    choose(at, at);
  });
  addEventListener("pointermove", (event) => {
    const at = dragging ? indexOf(document.elementFromPoint(event.clientX, event.clientY)) : -1;
    if (at >= 0) choose(first, at);
  });
  addEventListener("pointerup", () => {
    if (dragging && first !== last) narrow();
    dragging = false;
  });
  addEventListener("pointercancel", () => {
    dragging = false;
    choose(-1, -1);
  });
})();
