// The page of a run while it goes on: drawn anew by the server whenever its state has changed, with clocks that run.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const REDRAWN = 10000; // Its calls and what it uses, while it runs.
  const one = (query, root = document) => root.querySelector(query);
  const strip = () => one('[data-fresh="strip"]');
  if (!strip()) return;

  let drawnAt = 0;
  let drawing = false;
  let again = false;
  let ended = "over" in strip().dataset && !one("[data-output]");

  // One at a time: of two that are under way the older might come last.
  async function redraw() {
    again = true;
    if (drawing) return;
    drawing = true;
    while (again) {
      again = false;
      await drawOnce();
    }
    drawing = false;
  }

  async function drawOnce() {
    drawnAt = Date.now();
    let answer = null;
    try {
      answer = await fetch(location.href, { headers: { [PART]: "1", "X-Console-Poll": "1" }, credentials: "same-origin" });
    } catch {
      return; // The stream says that the connection is gone.
    }
    if (!answer.ok || !answer.headers.has(PART)) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    fresh.querySelectorAll("[data-fresh]").forEach((part) => replace(part));
    begin();
  }

  function replace(fresh) {
    const old = one(`[data-fresh="${fresh.dataset.fresh}"]`);
    if (!old || one("details[open]", old)) return;
    const named = (control) => control.getAttribute("href") || control.textContent.trim();
    const at = old.contains(document.activeElement) ? named(document.activeElement) : "";
    old.replaceWith(document.adoptNode(fresh));
    fresh.dispatchEvent(new CustomEvent("gh-fresh", { bubbles: true }));
    if (!at) return;
    const controls = [...fresh.querySelectorAll("a, button, summary")];
    (controls.find((each) => named(each) === at) || controls[0])?.focus();
  }

  // ── The clocks of a run ───────────────────────────────────────────────────────────────────────────────────────
  const began = new WeakMap();
  const timers = () => document.querySelectorAll("[data-timer]");

  function begin() {
    timers().forEach((timer) => {
      if (!began.has(timer)) began.set(timer, performance.now() - 1000 * Number(timer.dataset.timer));
    });
  }

  function clock(seconds) {
    const two = (number) => String(number).padStart(2, "0");
    if (seconds < 60) return `${seconds} s`;
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
    return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${two(minutes)}:${two(seconds % 60)}`;
  }

  setInterval(() => {
    timers().forEach((timer) => { timer.textContent = clock(Math.floor((performance.now() - began.get(timer)) / 1000)); });
    const due = "redrawn" in strip().dataset && Date.now() - drawnAt > REDRAWN;
    if (!ended && due && !document.hidden && one('[data-fresh="beside"]')) redraw();
  }, 1000);

  document.addEventListener("gh-moved", redraw);
  document.addEventListener("gh-ended", () => { ended = true; });
  begin();
})();
