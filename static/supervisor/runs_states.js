// Rows of runs that are not done yet: asked for by their ids, all in one question, while somebody looks.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const EVERY = 2000;
  const SLOWEST = 30000;
  const line = document.querySelector("[data-run-states]");
  if (!line) return;
  let pause = EVERY;
  let seen = "";
  let timer = 0;

  const open = () => [...document.querySelectorAll("[data-run-state]")].slice(0, 50);

  function tell(words) {
    line.hidden = !words;
    if (line.textContent !== words) line.textContent = words;
  }

  async function ask() {
    const shown = open();
    if (!shown.length || document.hidden) return;
    const ids = shown.map((one) => `id=${one.dataset.runState}`).join("&");
    let answer = null;
    try {
      const headers = { [PART]: "1", "X-Console-Poll": "1" };
      const options = { headers, credentials: "same-origin", signal: AbortSignal.timeout(10000) };
      answer = await fetch(`${line.dataset.runStates}?${ids}&seen=${seen}`, options);
    } catch {
      // As an answer that is none.
    }
    if (answer?.ok && answer.headers.has(PART)) {
      pause = EVERY;
      tell("");
      if (answer.status !== 204) draw(await answer.text());
    } else if (answer && answer.status < 500 && answer.status !== 429) {
      tell("These states are no longer open to you. Load the page again to sign in.");
      return;
    } else {
      pause = Math.min(SLOWEST, pause * 2);
      tell("These states are as they were: Gatehouse does not answer. Asking again.");
    }
    timer = setTimeout(ask, pause);
  }

  function draw(html) {
    const part = new DOMParser().parseFromString(html, "text/html").querySelector("[data-states]");
    seen = part.dataset.seen;
    part.querySelectorAll("[data-of]").forEach((fresh) => {
      const state = document.adoptNode(fresh.firstElementChild);
      const rows = document.querySelectorAll(`[data-run-state="${fresh.dataset.of}"]`);
      rows.forEach((row) => row.replaceWith(state.cloneNode(true)));
    });
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
  timer = setTimeout(ask, EVERY);
})();
