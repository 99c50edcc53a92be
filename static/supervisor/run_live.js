// What a run writes, as it writes it: by one stream that ends with it and is taken up where it broke.
(function () {
  "use strict";
  const MOST_LINES = 5000;
  const LONGEST_LINE = 4000;
  const QUIET = 5000; // Between two sentences of the status line.
  const SLOWEST = 30000;
  const ANSI = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]/g;
  const UNSEEN = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0]/gu;
  const one = (query, root = document) => root.querySelector(query);
  const strip = () => one('[data-fresh="strip"]');
  const output = one("[data-output]");
  if (!strip()) return;

  // ── Lines ─────────────────────────────────────────────────────────────────────────────────────────────────────
  const box = output && one("[data-lines]", output);
  const said = output && one("[data-said]", output);
  const more = output && one("[data-more]", output);
  const amount = output && one("[data-amount]", output);
  const encoder = new TextEncoder();
  const unfinished = { out: null, err: null };
  let waiting = []; // Events that came while it is paused.
  let lines = 0;
  let errors = 0;
  let dropped = 0;
  const bytes = { out: 0, err: 0 };
  let unread = 0;
  let paused = false;
  let following = true;

  function write(stream, piece) {
    bytes[stream] += encoder.encode(piece.text).length;
    const parts = piece.text.split("\n");
    parts.forEach((text, number) => {
      const goesOn = number === parts.length - 1;
      if (goesOn && !text) return; // A piece that ends with its line opens no other one.
      const line = unfinished[stream] || start(stream, piece.at);
      line.raw += text;
      show(line);
      unfinished[stream] = goesOn ? line : null;
    });
  }

  function start(stream, at) {
    const row = document.createElement("div");
    row.className = "gh-line";
    row.dataset.of = stream;
    const time = document.createElement("span");
    time.className = "gh-line-at";
    time.textContent = new Date(at).toLocaleTimeString("en-GB", { timeZone: output.dataset.zone });
    const of = document.createElement("span");
    of.className = "gh-line-of";
    of.textContent = stream;
    const text = document.createElement("span");
    text.className = "gh-line-text";
    row.append(time, of, text);
    box.append(row);
    lines += 1;
    unread += 1;
    if (stream === "err") errors += 1;
    if (box.children.length > MOST_LINES) {
      box.firstElementChild.remove();
      dropped += 1;
    }
    return { text, raw: "" };
  }

  // What a terminal would obey is left out, what hides is shown, and of a line that was written over the last is kept.
  function show(line) {
    const plain = line.raw.replace(ANSI, "").replace(/\r+$/, "").split("\r").pop();
    const shown = plain.slice(0, LONGEST_LINE);
    const marked = document.createDocumentFragment();
    let from = 0;
    for (const hit of shown.matchAll(UNSEEN)) {
      if (hit[0] === "\t") continue;
      const mark = document.createElement("span");
      mark.className = "gh-mark";
      mark.textContent = `U+${hit[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
      marked.append(shown.slice(from, hit.index), mark);
      from = hit.index + hit[0].length;
    }
    marked.append(shown.slice(from));
    if (plain.length > LONGEST_LINE) marked.append(` (cut, ${plain.length - LONGEST_LINE} more)`);
    line.text.replaceChildren(marked);
  }

  function settle() {
    if (!box) return;
    if (following && !paused) {
      box.scrollTop = box.scrollHeight;
      unread = 0;
    }
    const behind = unread + waiting.length;
    more.hidden = following && !paused ? true : !behind;
    one("[data-jump]", more).textContent = paused ? `${waiting.length} pieces came meanwhile, go on` : `${unread} more lines, jump to the end`;
    box.toggleAttribute("data-over", ended);
    amount.textContent = lines ? weighed() : "";
  }

  // How much of what is kept of each stream there is.
  function weighed() {
    const most = Number(amount.dataset.amount);
    const size = (number) => (number < 1024 ? `${number} B` : number < 1048576 ? `${(number / 1024).toFixed(1)} KiB` : `${(number / 1048576).toFixed(1)} MiB`);
    const said = [["Output", bytes.out], ["Errors", bytes.err]].filter(([, held]) => held);
    return said.map(([name, held]) => `${name}: ${size(held)} of ${size(most)}`).join(", ");
  }

  // ── Saying ────────────────────────────────────────────────────────────────────────────────────────────────────
  let saidAt = 0;
  let brokenAt = "";
  const now = () => new Date().toLocaleTimeString("en-GB", { timeZone: output?.dataset.zone });

  function sentence() {
    if (!lines && output?.dataset.nothing) return output.dataset.nothing;
    if (ended && !lines) return "It wrote nothing.";
    const counted = `${lines} ${lines === 1 ? "line" : "lines"}${errors ? `, ${errors} of errors` : ""}`;
    const cut = dropped ? ` The first ${dropped} are in the download alone.` : "";
    if (!lines) return "Nothing written yet.";
    return `${counted}${ended ? "" : " so far"}.${cut}`;
  }

  function tell(words, atOnce) {
    if (!said || said.textContent === words || (!atOnce && Date.now() - saidAt < QUIET)) return;
    said.textContent = words;
    saidAt = Date.now();
  }

  // ── The stream ────────────────────────────────────────────────────────────────────────────────────────────────
  let last = output ? 0 : 999999999;
  let ended = "over" in strip().dataset && !output;
  let wait = 1000;

  function take(block) {
    const fields = Object.fromEntries(block.split("\n").map((row) => [row.slice(0, row.indexOf(":")), row.slice(row.indexOf(":") + 2)]));
    if (!fields.event) return;
    const data = JSON.parse(fields.data);
    if (fields.id) last = Number(fields.id);
    if (fields.event === "state" || fields.event === "end") moved(data);
    if (fields.event === "end") end();
    else if (fields.event === "output" && paused) waiting.push(data);
    else if (fields.event === "output" && output) write(data.stream, data);
  }

  function end() {
    ended = true;
    document.dispatchEvent(new Event("gh-ended"));
  }

  function moved(data) {
    if (strip().dataset.state !== data.state) document.dispatchEvent(new Event("gh-moved"));
  }

  async function read() {
    const headers = { "X-Console-Poll": "1" };
    const answer = await fetch(`${strip().dataset.stream}?after=${last}`, { headers, credentials: "same-origin" });
    if (!answer.ok || !answer.headers.get("Content-Type")?.startsWith("text/event-stream")) return answer.status >= 500 || answer.status === 429 ? "broke" : "over";
    mended();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "";
      const blocks = (held + value).split("\n\n");
      held = blocks.pop();
      blocks.forEach(take);
      settle();
      tell(sentence(), ended);
    }
  }

  async function follow() {
    while (!ended) {
      let how = "";
      try {
        how = await read();
      } catch {
        how = "broke";
      }
      if (how === "over") {
        tell(`Stopped ${now()}: this page is no longer open to you. Load it again to sign in.`, true);
        return;
      }
      if (how === "broke") broke();
      if (!ended) await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
    settle();
    tell(sentence(), true);
  }

  function broke() {
    wait = Math.min(SLOWEST, wait * 2);
    if (!brokenAt) brokenAt = now();
    output?.toggleAttribute("data-stale", true);
    tell(`Paused ${brokenAt}, reconnecting`, true);
  }

  function mended() {
    wait = 1000;
    if (!brokenAt) return;
    brokenAt = "";
    output?.toggleAttribute("data-stale", false);
    tell(`Live again since ${now()}.`, true);
  }

  // ── Its tools ─────────────────────────────────────────────────────────────────────────────────────────────────
  function press(name, on) {
    one(`[data-${name}]`, output).setAttribute("aria-pressed", String(on));
  }

  function catchUp() {
    paused = false;
    following = true;
    waiting.splice(0).forEach((piece) => write(piece.stream, piece));
    press("pause", false);
    press("follow", true);
    settle();
  }

  const tools = {
    follow: () => { following = !following; press("follow", following); settle(); },
    pause: () => { if (paused) catchUp(); else { paused = true; press("pause", true); settle(); } },
    wrap: () => press("wrap", box.toggleAttribute("data-wrapped")),
    announce: () => {
      const on = box.getAttribute("aria-live") === "off";
      box.setAttribute("aria-live", on ? "polite" : "off");
      press("announce", on);
    },
  };

  let hits = [];
  let at = -1;

  function find(text) {
    const term = text.toLowerCase();
    hits.forEach((row) => row.classList.remove("gh-line--hit", "gh-line--at"));
    hits = term ? [...box.children].filter((row) => row.lastElementChild.textContent.toLowerCase().includes(term)) : [];
    hits.forEach((row) => row.classList.add("gh-line--hit"));
    at = -1;
    if (term) goOn();
    else tell(sentence(), true);
  }

  function goOn() {
    hits[at]?.classList.remove("gh-line--at");
    if (!hits.length) {
      tell("No line holds it.", true);
      return;
    }
    at = (at + 1) % hits.length;
    hits[at].classList.add("gh-line--at");
    following = false;
    press("follow", false);
    hits[at].scrollIntoView({ block: "nearest" });
    tell(`Line ${at + 1} of ${hits.length} that hold it.`, true);
  }

  if (output) {
    box.toggleAttribute("data-wrapped", true);
    output.querySelectorAll(".gh-output-tools [hidden]").forEach((tool) => { tool.hidden = false; });
    Object.entries(tools).forEach(([name, does]) => one(`[data-${name}]`, output).addEventListener("click", does));
    one("[data-jump]", more).addEventListener("click", () => { catchUp(); box.focus(); });
    one("[data-which]", output).addEventListener("change", (event) => { box.dataset.which = event.target.value; settle(); });
    const search = one("[data-find]", output);
    search.addEventListener("input", () => find(search.value));
    search.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); goOn(); } });
    // Whoever scrolls back reads there; whoever comes to the end again follows again.
    box.addEventListener("scroll", () => {
      const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
      if (atEnd === following) return;
      following = atEnd;
      press("follow", following);
      if (atEnd) unread = 0;
      settle();
    });
  }
  follow();
})();
