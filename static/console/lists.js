// Lists: keys for their rows, ticks with verbs for several, filters that leave out what is empty.
(function () {
  "use strict";
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // ── Keys of a list, only while it has the focus ───────────────────────────────────────────────────────────────
  let going = false;
  document.addEventListener("keydown", (event) => {
    const list = event.target.closest?.("[data-list]");
    const typing = event.target.matches?.("input:not([type=checkbox]), select, textarea");
    if (!list || typing || event.ctrlKey || event.metaKey || event.altKey || document.body.dataset.keys === "off") return;
    const rows = all("[data-row]", list);
    const at = rows.indexOf(event.target.closest("[data-row]"));
    const focus = (index) => {
      const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
      (one("[data-open]", row) || one("a, input", row))?.focus();
    };
    if (going) {
      going = false;
      const target = one(`[data-go="${CSS.escape(event.key)}"]`);
      if (target) location.assign(target.href);
    } else if (event.key === "j") focus(at + 1);
    else if (event.key === "k") focus(at - 1);
    else if (event.key === "x" && at >= 0) one("[data-tick]", rows[at])?.click();
    else if (event.key === "g") going = true;
    else if (event.key === "?") one("#gh-keys").showModal();
    else if (event.key === "/" && one("#gh-q")) { event.preventDefault(); one("#gh-q").focus(); }
  });

  // ── Ticks and bulk verbs ──────────────────────────────────────────────────────────────────────────────────────
  function ticked(list) {
    const count = all("[data-tick]:checked", list).length;
    const bar = one("[data-bulk-bar]", list);
    const every = one("[data-tick-filter]", bar)?.checked;
    bar.classList.toggle("gh-bulk--on", count > 0);
    const said = every ? "All ticked, on every page" : `${count} ticked`;
    one("[data-bulk-count]", bar).textContent = count ? said : "Tick rows to act on several";
  }

  all("[data-bulk]").forEach((list) => {
    list.addEventListener("change", (event) => {
      if (event.target.matches("[data-tick-all], [data-tick-filter]")) {
        all("[data-tick], [data-tick-all]", list).forEach((box) => { box.checked = event.target.checked; });
      }
      // One row less is not all of them any more.
      const every = one("[data-tick-filter]", list);
      if (every && !event.target.matches("[data-tick-filter]")) every.checked = false;
      ticked(list);
    });
    list.addEventListener("submit", (event) => {
      event.preventDefault();
      const ids = new URLSearchParams(new FormData(list));
      document.dispatchEvent(new CustomEvent("gh-dialog", { detail: `${event.submitter.formAction}?${ids}` }));
    });
    ticked(list);
  });

  // ── Filters: choosing applies ─────────────────────────────────────────────────────────────────────────────────
  all("[data-filters]").forEach((form) => {
    const box = one("details", form);
    if (box && matchMedia("(max-width: 639px)").matches) box.open = false;
    form.addEventListener("submit", () => {
      all("input, select", form).forEach((field) => { if (!field.value) field.disabled = true; });
    });
  });
})();
