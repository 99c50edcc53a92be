// A task or a delivery as it goes on: its page is asked for again while somebody looks, and says when nothing is new.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const EVERY = 2000;
  const SLOWEST = 30000;
  const one = (query, root = document) => root.querySelector(query);
  const strip = () => one('[data-fresh="strip"]');
  if (!strip() || !strip().dataset.url) return;
  let pause = EVERY;
  let timer = 0;

  function tell(words) {
    const line = one("[data-said]");
    line.hidden = !words;
    if (line.textContent !== words) line.textContent = words;
  }

  async function ask() {
    const { url, seen } = strip().dataset;
    if (!url || document.hidden) return;
    let answer = null;
    try {
      const headers = { [PART]: "1", "X-Console-Poll": "1" };
      const options = { headers, credentials: "same-origin", signal: AbortSignal.timeout(10000) };
      answer = await fetch(`${url}?seen=${encodeURIComponent(seen)}`, options);
    } catch {
      // As an answer that is none.
    }
    if (answer?.ok && answer.headers.has(PART)) {
      pause = EVERY;
      tell("");
      if (answer.status !== 204) draw(await answer.text());
    } else if (answer && answer.status < 500 && answer.status !== 429) {
      tell("This is no longer open to you. Load the page again to sign in.");
      return;
    } else {
      pause = Math.min(SLOWEST, pause * 2);
      tell("This is as it was: Gatehouse does not answer. Asking again.");
    }
    timer = setTimeout(ask, pause);
  }

  function draw(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    fresh.querySelectorAll("[data-fresh]").forEach((part) => replace(document.adoptNode(part)));
  }

  function replace(fresh) {
    const old = one(`[data-fresh="${fresh.dataset.fresh}"]`);
    if (!old) return;
    const at = old.contains(document.activeElement) ? document.activeElement.textContent.trim() : "";
    // What is being read is not shut in somebody's face.
    old.querySelectorAll("details[open][id]").forEach(({ id }) => {
      const same = one(`#${CSS.escape(id)}`, fresh);
      if (same) same.open = true;
    });
    old.replaceWith(fresh);
    if (!at) return;
    const controls = [...fresh.querySelectorAll("a, button, summary, [tabindex]")];
    (controls.find((each) => each.textContent.trim() === at) || controls[0])?.focus();
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
  timer = setTimeout(ask, EVERY);
})();
