// A row of the log opens beside it: once shows the call at a glance, once more goes to its page. Without room, or
// without this, a row is the link that it is.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const ROOM = matchMedia("(min-width: 1200px)");
  const panel = document.querySelector("[data-panel]");
  if (!panel) return;
  let opened = null; // The link of the row that is shown, until another is.
  let turn = 0;

  const links = () => [...document.querySelectorAll("[data-list] [data-open]")];
  const rowOf = (link) => link?.closest("[data-row]");
  const idOf = (link) => link.pathname.split("/").filter(Boolean).at(-1);
  const shortcuts = () => document.body.dataset.keys !== "off";

  async function show(link, { focus = true } = {}) {
    const mine = (turn += 1);
    mark(link);
    const answer = await ask(`${link.pathname}part/`);
    if (mine !== turn) return;
    if (!answer?.headers.has(PART)) {
      location.assign(link.href);
      return;
    }
    panel.innerHTML = await answer.text();
    if (mine !== turn) return;
    panel.hidden = false;
    panel.scrollTop = 0;
    rowOf(link)?.scrollIntoView({ block: "nearest" });
    remember(idOf(link));
    if (focus) panel.querySelector("[data-panel-title]")?.focus({ preventScroll: true });
  }

  async function ask(url) {
    try {
      return await fetch(url, { headers: { [PART]: "1" }, credentials: "same-origin" });
    } catch {
      return null;
    }
  }

  function mark(link) {
    rowOf(opened)?.removeAttribute("data-shown");
    opened?.removeAttribute("aria-current");
    opened = link;
    rowOf(opened)?.setAttribute("data-shown", "");
    opened?.setAttribute("aria-current", "true");
  }

  function close({ focus = true } = {}) {
    const link = opened;
    turn += 1;
    mark(null);
    panel.hidden = true;
    panel.replaceChildren();
    remember("");
    if (focus) link?.focus();
  }

  // The open row is part of the address, so that it can be passed on.
  function remember(id) {
    const part = new URLSearchParams(location.hash.slice(1));
    part.delete("call");
    if (id) part.set("call", id);
    history.replaceState(history.state, "", `${location.pathname}${location.search}${part.size ? `#${part}` : ""}`);
  }

  function step(by) {
    const all = links();
    const next = all[all.indexOf(opened) + by];
    if (next) show(next);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-list] [data-open]");
    if (link && ROOM.matches && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
      if (link === opened && !panel.hidden) return;
      event.preventDefault();
      show(link);
    } else if (event.target.closest?.("[data-panel-close]")) {
      close();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (panel.hidden || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const inside = panel.contains(event.target);
    if (event.key === "Escape" && (inside || event.target === document.body || event.target.closest("[data-list]"))) {
      close();
    } else if (inside && event.key === "Enter" && !event.target.closest("a, button, summary")) {
      location.assign(opened.href);
    } else if (inside && shortcuts() && (event.key === "j" || event.key === "k")) {
      step(event.key === "j" ? 1 : -1);
    }
  });

  ROOM.addEventListener("change", () => {
    if (!ROOM.matches && !panel.hidden) close({ focus: panel.contains(document.activeElement) });
  });

  // Opened with a row: it is shown, and the focus stays where a page begins.
  const wanted = new URLSearchParams(location.hash.slice(1)).get("call");
  const found = wanted && ROOM.matches ? links().find((link) => idOf(link) === wanted) : null;
  if (found) show(found, { focus: false });
})();
