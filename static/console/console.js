// The console's own behaviour. Every page works without it; it adds dialogs over the page, keys, ticks and live times.
(function () {
  "use strict";
  const PART = "X-Console-Part";
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const say = (text) => { one("#gh-live").textContent = text; };

  // ── Dialogs ───────────────────────────────────────────────────────────────────────────────────────────────────
  const dialog = one("#gh-dialog");
  let opener = null;

  async function openDialog(url) {
    opener = document.activeElement;
    const answer = await ask(url, {});
    // What is no part of a page, the sign-in form for one, is shown as the page that it is.
    if (answer?.headers.has(PART)) drawDialog(await answer.text());
    else location.assign(url);
  }

  async function ask(url, options) {
    try {
      return await fetch(url, { headers: { [PART]: "1" }, credentials: "same-origin", ...options });
    } catch {
      return null;
    }
  }

  function drawDialog(html) {
    dialog.innerHTML = html;
    if (!dialog.open) dialog.showModal();
    settle(dialog);
    (refusedIn(dialog) || one("[autofocus]", dialog) || one("#gh-dialog-title", dialog))?.focus();
    dialog.scrollTop = 0;
  }

  async function submitDialog(form, button) {
    const data = new FormData(form, button || undefined);
    const buttons = all("button[type=submit]", form);
    buttons.forEach((each) => { each.disabled = true; });
    const answer = await ask(form.action, { method: "POST", body: data });
    if (!answer) {
      buttons.forEach((each) => { each.disabled = false; });
      warn(form, "Gatehouse did not answer, so it is not known whether this was done. Look at the page before you try again.");
      return;
    }
    const next = answer.headers.get("X-Console-Go");
    if (next) {
      if (new URL(next, location.href).href === location.href) location.reload();
      else location.assign(next);
      return;
    }
    if (answer.headers.has(PART)) drawDialog(await answer.text());
    else location.assign(form.action);
  }

  function warn(form, words) {
    one("[data-unanswered]", form)?.remove();
    const told = document.createElement("p");
    told.className = "gh-message gh-message--error";
    told.setAttribute("role", "alert");
    told.dataset.unanswered = "";
    told.textContent = words;
    form.prepend(told);
  }

  if (dialog) {
    dialog.addEventListener("submit", (event) => {
      if (event.target.matches("[data-dialog-form]")) {
        event.preventDefault();
        submitDialog(event.target, event.submitter);
      }
    });
    dialog.addEventListener("close", () => {
      if (one("[data-reload-after]", dialog)) location.reload();
      dialog.replaceChildren();
      opener?.focus?.();
    });
    dialog.addEventListener("cancel", (event) => {
      if (one("[data-keep-open]", dialog)) event.preventDefault();
    });
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a, button, summary, time");
    if (!link) return;
    if (link.matches("[data-dialog]") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      openDialog(link.href);
    } else if (link.matches("[data-dialog-close]") && dialog?.contains(link)) {
      event.preventDefault();
      dialog.close();
    } else if (link.matches("[data-fill]")) {
      const field = document.getElementById(link.dataset.fill);
      field.value = link.textContent.trim();
      field.focus();
    } else if (link.matches("[data-copy]")) {
      const source = document.getElementById(link.dataset.copy);
      copy(link, source.dataset.text || source.textContent.trim());
    } else if (link.matches("[data-copy-from]")) {
      copyFrom(link);
    } else if (link.matches("[data-nav]")) {
      const open = one("#gh-nav").classList.toggle("gh-nav--open");
      link.setAttribute("aria-expanded", String(open));
      if (open) one("#gh-nav a").focus();
    } else if (link.matches("[data-theme]")) {
      chooseTheme(link.dataset.theme);
      link.closest("details").open = false;
    } else if (link.matches("[data-keysheet]")) {
      one("#gh-keys").showModal();
    } else if (link.matches("time[title]")) {
      const shown = link.textContent;
      link.textContent = link.title;
      link.title = shown;
      delete link.dataset.when;
    }
  });

  async function copy(button, text) {
    await navigator.clipboard.writeText(text);
    say("Copied.");
    const words = one("[data-words]", button) || button;
    words.textContent = "Copied";
  }

  // What is too long for the page, or stands in it with its marks made visible: one part of what the API says.
  async function copyFrom(button) {
    const answer = await ask(button.dataset.copyFrom, {});
    if (answer?.ok) await copy(button, (await answer.json())[button.dataset.copyPart]);
    else say("Gatehouse did not answer, so nothing was copied.");
  }

  // ── Theme: light, dark, or what the system has ────────────────────────────────────────────────────────────────
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chooseTheme(name) {
    localStorage.setItem("theme", name);
    document.documentElement.classList.toggle("dark", name === "dark" || (name === "auto" && system.matches));
    say(name === "auto" ? "Theme as the system" : `Theme: ${name}`);
  }

  system.addEventListener("change", () => {
    if ((localStorage.getItem("theme") || "auto") === "auto") chooseTheme("auto");
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "e") {
      event.preventDefault();
      chooseTheme(document.documentElement.classList.contains("dark") ? "light" : "dark");
    }
  });

  // ── Menus: one at a time, Esc closes and gives the focus back ─────────────────────────────────────────────────
  document.addEventListener("click", (event) => {
    all("details.gh-menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
    const nav = one("#gh-nav.gh-nav--open");
    if (nav && !nav.contains(event.target) && !event.target.closest("[data-nav]")) closeNav();
  });

  function closeNav() {
    one("#gh-nav").classList.remove("gh-nav--open");
    const burger = one("[data-nav]");
    burger.setAttribute("aria-expanded", "false");
    burger.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = event.target.closest?.("details.gh-menu[open]");
    if (menu) {
      menu.open = false;
      one("summary", menu).focus();
    } else if (one("#gh-nav.gh-nav--open")) {
      closeNav();
    }
  });

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
      openDialog(`${event.submitter.formAction}?${ids}`);
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

  // A reason that stands there from the start is nobody's words yet: what is typed takes its place.
  for (const kind of ["focusin", "click"]) {
    document.addEventListener(kind, ({ target }) => {
      if (target.matches?.("[data-preset]") && target.value === target.dataset.preset) target.select();
    });
  }

  // ── Fields that stand only for one answer, and lines that are worked out while one types ──────────────────────
  function settle(root) {
    all("[data-shown-for]", root).forEach((part) => {
      const [name, values] = part.dataset.shownFor.split("=");
      const form = part.closest("form");
      const show = () => {
        const chosen = form.elements[name]?.value;
        part.hidden = !values.split("|").includes(chosen);
        if (part.hidden) forget(part);
      };
      form.addEventListener("change", show);
      show();
    });
    all("[data-live]", root).forEach(liveLine);
  }

  function liveLine(part) {
    const form = part.closest("form");
    let timer = 0;
    let turn = 0;
    async function work() {
      const mine = (turn += 1);
      const answer = await ask(part.dataset.live, { method: "POST", body: new FormData(form) });
      if (mine === turn && answer?.ok && answer.headers.has(PART)) part.innerHTML = await answer.text();
    }
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(work, 200);
    });
    work();
  }

  settle(document);
  focusFirst(one("main"));

  // What was refused, else where a page that is one dialog begins: its first field, or its button.
  function focusFirst(main) {
    if (!main) return;
    const fields = "input:not([type=hidden], [type=radio]:not(:checked)), select, textarea, button[type=submit]";
    const first = all(`[data-dialog-form] :is(${fields})`, main).find((field) => field.checkVisibility());
    (refusedIn(main) || first)?.focus();
  }

  function refusedIn(root) {
    return one("[data-errors]", root) || one(".gh-field--wrong :is(input:not([type=hidden]), select, textarea)", root);
  }

  // What was said of a field goes once the field is mended, or another way was chosen.
  function forget(part) {
    part.classList.remove("gh-field--wrong");
    all(".gh-wrong", part).forEach((words) => words.remove());
    all("[aria-invalid]", part).forEach((field) => field.removeAttribute("aria-invalid"));
  }

  document.addEventListener("input", (event) => {
    const part = event.target.closest?.(".gh-field--wrong");
    if (part) forget(part);
  });

  // ── Times: the relative words move on, outside live regions ───────────────────────────────────────────────────
  function relative(moment) {
    const seconds = Math.round((moment - Date.now()) / 1000);
    const size = Math.abs(seconds);
    if (size < 5) return "now";
    const [unit, each] = size < 60 ? ["s", 1] : size < 3600 ? ["min", 60] : size < 86400 ? ["h", 3600] : ["d", 86400];
    const amount = `${Math.floor(size / each)} ${unit}`;
    return seconds > 0 ? `in ${amount}` : `${amount} ago`;
  }

  setInterval(() => {
    all("time[data-when]").forEach((time) => {
      if (!time.closest("[aria-live]")) time.textContent = relative(Date.parse(time.dateTime)) + time.dataset.when;
    });
  }, 30000);

  // A page may be asked to open with a dialog over it: the palette's verbs lead there.
  const after = one("[data-dialog-now]");
  if (after) openDialog(after.dataset.dialogNow);
})();
