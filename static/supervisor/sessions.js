// A conversation as it goes on: new messages by short questions, none while nobody looks; sending without leaving.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const EVERY = 1000;
  const SLOWEST = 15000;
  const talk = document.querySelector("[data-talk]");
  if (!talk) return;
  const list = talk.querySelector("[data-said]");
  const live = talk.querySelector("[data-link]");
  const form = talk.querySelector("[data-say]");
  let pause = EVERY;
  let timer = 0;
  let turn = 0;

  const rows = () => [...list.children];
  const atEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  const toEnd = () => { list.scrollTop = list.scrollHeight; };

  // ── Listening ─────────────────────────────────────────────────────────────────────────────────────────────────
  // What still waited for the agent is asked for again: by now it may have it.
  function after() {
    const waits = rows().find((row) => "waits" in row.dataset);
    return waits ? Number(waits.dataset.seq) - 1 : Number(rows().at(-1)?.dataset.seq || 0);
  }

  async function ask() {
    clearTimeout(timer);
    const mine = (turn += 1);
    let answer = null;
    try {
      const headers = { [PART]: "1", "X-Console-Poll": "1" };
      const url = `${talk.dataset.news}?after=${after()}`;
      answer = await fetch(url, { headers, credentials: "same-origin", signal: AbortSignal.timeout(10000) });
      const html = answer.ok && answer.headers.has(PART) ? await answer.text() : "";
      if (mine !== turn) return;
      if (html) heard(new DOMParser().parseFromString(html, "text/html").querySelector("[data-news-part]"));
      else if (answer.status < 500 && answer.status !== 429) return over();
      else broke();
    } catch {
      if (mine !== turn) return;
      broke();
    }
    if (!document.hidden && talk.dataset.state === "open") timer = setTimeout(ask, pause);
  }

  function heard(part) {
    pause = EVERY;
    live.textContent = "";
    const follow = atEnd();
    part.querySelectorAll("[data-seq]").forEach(put);
    talk.querySelector("[data-none]").hidden = rows().length > 0;
    document.querySelector("[data-standing]").replaceWith(part.querySelector("[data-standing]"));
    if (follow) toEnd();
    // Why it ended, and whether it can be spoken in, is the whole page's to say.
    if (part.dataset.state !== talk.dataset.state) location.reload();
  }

  function put(fresh) {
    const there = rows().find((row) => row.dataset.seq === fresh.dataset.seq);
    if (!there) list.append(fresh);
    else if ("waits" in there.dataset && !("waits" in fresh.dataset)) settle(there);
  }

  // Taken by the agent: a row that was read aloud is not said again.
  function settle(row) {
    delete row.dataset.waits;
    row.querySelector("[data-waits-word]")?.remove();
  }

  function broke() {
    pause = Math.min(SLOWEST, pause * 2);
    live.textContent = "The connection is gone; trying again.";
  }

  function over() {
    live.textContent = "This page is no longer open to you. Load it again to sign in.";
  }

  // ── Speaking ──────────────────────────────────────────────────────────────────────────────────────────────────
  async function send(event) {
    event.preventDefault();
    const field = form.querySelector("textarea");
    const button = form.querySelector("[type=submit]");
    if (!field.value || button.disabled) return;
    button.disabled = true;
    let problem = "It was not sent: the connection is gone.";
    try {
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch(form.action, { method: "POST", body, headers: { [PART]: "1" }, credentials: "same-origin" });
      problem = answer.headers.has("X-Console-Go") ? "" : complaint(await answer.text());
    } catch {
      // Said below.
    }
    button.disabled = false;
    tell(problem);
    if (problem) return;
    field.value = "";
    toEnd();
    ask();
  }

  function complaint(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const said = page.querySelector("[data-errors] p, [role=alert], .gh-lead");
    return said?.textContent.trim() || "It was not sent. Load this page again.";
  }

  function tell(problem) {
    const wrong = form.querySelector("[data-wrong]");
    wrong.textContent = problem;
    wrong.hidden = !problem;
    form.querySelector("textarea").focus();
  }

  form?.addEventListener("submit", send);
  form?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  document.addEventListener("visibilitychange", () => {
    turn += 1;
    clearTimeout(timer);
    if (!document.hidden && talk.dataset.news && talk.dataset.state === "open") ask();
  });

  toEnd();
  if (talk.dataset.news && talk.dataset.state === "open") timer = setTimeout(ask, EVERY);
})();
