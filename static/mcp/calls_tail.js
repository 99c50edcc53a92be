// The log as it grows: off until somebody asks for it, one question every two seconds, none while nobody looks.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const EVERY = 2000;
  const SLOWEST = 30000;
  const QUIET = 5000; // Between two sentences of the status line.
  const AWAY = 10 * 60000; // After so long, calls may have come that no answer holds any more.
  const MOST_ROWS = 400;
  const toggle = document.querySelector("[data-tail]");
  const bar = document.querySelector("[data-tail-bar]");
  if (!toggle || !bar) return;
  const said = bar.querySelector("[data-tail-said]");
  const button = bar.querySelector("[data-tail-show]");
  const list = document.querySelector("[data-list]");
  const body = list?.querySelector("tbody");
  const panel = document.querySelector("[data-panel]");

  let on = false;
  let timer = 0;
  let turn = 0;
  let seen = "";
  let pause = EVERY;
  let answeredAt = 0;
  let startedAt = "";
  let brokenAt = "";
  let came = 0;
  let saidAt = 0;
  let waiting = []; // Answers that are not shown yet, oldest first.
  let missed = false; // Calls came that only the page itself can show.

  const clock = () => new Date().toLocaleTimeString("en-GB", { timeZone: toggle.dataset.zone });

  // ── Which call a row is ───────────────────────────────────────────────────────────────────────────────────────
  function name(root) {
    const ids = (root.querySelector("[data-calls]")?.dataset.calls || "").trim().split(/\s+/);
    const rows = [...root.querySelectorAll("tbody [data-row]")];
    rows.forEach((row, at) => { row.dataset.call = ids[at]; });
    return rows;
  }

  const shown = () => new Map([...(body?.querySelectorAll("[data-row]") || [])].map((row) => [row.dataset.call, row]));
  // A call under way has a row that leads nowhere yet; its own row comes when it ends.
  const flying = (row) => row && !row.querySelector("[data-open]");
  const isNew = (known) => (row) => !known.has(row.dataset.call) || flying(known.get(row.dataset.call));

  function count() {
    const known = shown();
    return new Set(waiting.flat().filter(isNew(known)).map((row) => row.dataset.call)).size;
  }

  // ── Asking ────────────────────────────────────────────────────────────────────────────────────────────────────
  async function ask() {
    const mine = (turn += 1);
    let answer = null;
    try {
      const url = new URL(toggle.dataset.tail, location.href);
      url.searchParams.set("seen", seen);
      const headers = { [PART]: "1", "X-Console-Poll": "1" };
      answer = await fetch(url, { headers, credentials: "same-origin", signal: AbortSignal.timeout(10000) });
      const html = answer.ok && answer.headers.has(PART) && answer.status !== 204 ? await answer.text() : "";
      if (mine !== turn || !on) return;
      if (answer.ok && answer.headers.has(PART)) heard(html);
      else if (answer.status >= 500 || answer.status === 429) broke();
      else over();
    } catch {
      if (mine === turn && on) broke();
    }
    if (mine === turn && on) timer = setTimeout(ask, pause);
  }

  function heard(html) {
    if (answeredAt && Date.now() - answeredAt > AWAY) missed = true;
    answeredAt = Date.now();
    pause = EVERY;
    if (html) take(html);
    if (waiting.length && !held()) showAll();
    offer();
    if (brokenAt) {
      brokenAt = "";
      stale(false);
      tell(`Live again since ${clock()}.`);
    } else if (Date.now() - saidAt > QUIET) {
      tell(sentence());
    }
  }

  function take(html) {
    const part = new DOMParser().parseFromString(html, "text/html").querySelector("[data-tail-rows]");
    const rows = name(part);
    seen = part.dataset.seen;
    const queued = new Set(waiting.flat().map((row) => row.dataset.call));
    const fresh = rows.filter((row) => !queued.has(row.dataset.call)).filter(isNew(shown()));
    if (!fresh.length) return;
    came += fresh.length;
    // None of a full answer is known: there were more between it and the last one.
    if (!body || ("full" in part.dataset && fresh.length === rows.length)) missed = true;
    waiting.push(rows);
    if (waiting.length > 50 || shown().size > MOST_ROWS) missed = true;
    if (missed) waiting = waiting.slice(-1);
  }

  // ── Showing ───────────────────────────────────────────────────────────────────────────────────────────────────
  // Nothing moves under who reads, points with the keys, or has a call open beside the list.
  function held() {
    if (missed || !body) return true;
    return list.contains(document.activeElement) || (panel && !panel.hidden) || list.getBoundingClientRect().top < 56;
  }

  function showAll() {
    waiting.forEach(merge);
    waiting = [];
    const rows = document.querySelector(".gh-paging span");
    if (rows) rows.textContent = `${shown().size} rows`;
  }

  // What the table has and the answer has not is older than all that the answer has.
  function merge(rows) {
    const known = shown();
    const answered = new Set(rows.map((row) => row.dataset.call));
    let before = [...known.values()].find((row) => !flying(row) && !answered.has(row.dataset.call)) || null;
    [...rows].reverse().forEach((row) => {
      const there = known.get(row.dataset.call);
      if (there && !flying(there)) {
        before = there;
        return;
      }
      there?.remove();
      row.dataset.fresh = "";
      body.insertBefore(row, before);
      before = row;
    });
  }

  function offer() {
    const number = count();
    button.hidden = !(number || missed);
    button.textContent = missed && body ? "Many new, show the newest" : `${number} new, show`;
  }

  button.addEventListener("click", () => {
    if (missed || !body) {
      location.reload();
      return;
    }
    showAll();
    offer();
    toggle.focus({ preventScroll: true });
    if (list.getBoundingClientRect().top < 56) bar.scrollIntoView({ block: "start" });
    tell(sentence());
  });

  // ── Saying ────────────────────────────────────────────────────────────────────────────────────────────────────
  const sentence = () => `Live since ${startedAt}${came ? `: ${came === 1 ? "1 call" : `${came} calls`} came` : ""}.`;

  function tell(words) {
    if (said.textContent === words) return;
    said.textContent = words;
    saidAt = Date.now();
  }

  function stale(is) {
    list?.toggleAttribute("data-stale", is);
    bar.toggleAttribute("data-stale", is);
  }

  function broke() {
    pause = Math.min(SLOWEST, pause * 2);
    if (brokenAt) return;
    brokenAt = clock();
    stale(true);
    tell(`Paused ${brokenAt}, reconnecting`);
  }

  function over() {
    stop();
    bar.hidden = false;
    tell(`Stopped ${clock()}: this page is no longer open to you. Load it again to sign in.`);
  }

  // ── On and off ────────────────────────────────────────────────────────────────────────────────────────────────
  function start() {
    on = true;
    pause = EVERY;
    startedAt = clock();
    came = 0;
    bar.hidden = false;
    draw();
    tell(sentence());
    if (!document.hidden) ask();
  }

  function stop() {
    on = false;
    turn += 1;
    clearTimeout(timer);
    brokenAt = "";
    stale(false);
    bar.hidden = true;
    said.textContent = "";
    draw();
  }

  function draw() {
    toggle.querySelector("[data-tail-state]").textContent = on ? "on" : "off";
    const part = new URLSearchParams(location.hash.slice(1));
    part.delete("tail");
    if (on) part.set("tail", "on");
    history.replaceState(history.state, "", `${location.pathname}${location.search}${part.size ? `#${part}` : ""}`);
  }

  toggle.addEventListener("click", () => { if (on) stop(); else start(); });

  document.addEventListener("visibilitychange", () => {
    turn += 1;
    clearTimeout(timer);
    if (on && !document.hidden) ask();
  });

  name(document);
  list?.before(bar);
  toggle.hidden = false;
  if (new URLSearchParams(location.hash.slice(1)).get("tail") === "on") start();
})();
