// One question, asked every two seconds while somebody looks, and more seldom while nobody answers.
const PART = "X-Console-Part";
const EVERY = 2000;
const SLOWEST = 30000;

// `url` says where to ask, or nothing when there is no more to ask; `line` is where it is told that nothing is new.
export function poll({ url, draw, line, over, away }) {
  let pause = EVERY;
  let timer = 0;

  function tell(words) {
    const said = line();
    said.hidden = !words;
    if (said.textContent !== words) said.textContent = words;
  }

  async function ask() {
    const place = url();
    if (!place || document.hidden) return;
    let answer = null;
    try {
      const headers = { [PART]: "1", "X-Console-Poll": "1" };
      const options = { headers, credentials: "same-origin", signal: AbortSignal.timeout(10000) };
      answer = await fetch(place, options);
    } catch {
      // As an answer that is none.
    }
    if (answer?.ok && answer.headers.has(PART)) {
      pause = EVERY;
      tell("");
      if (answer.status !== 204) draw(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } else if (answer && answer.status < 500 && answer.status !== 429) {
      tell(over);
      return;
    } else {
      pause = Math.min(SLOWEST, pause * 2);
      tell(away);
    }
    timer = setTimeout(ask, pause);
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) ask();
  });
  timer = setTimeout(ask, EVERY);
}
