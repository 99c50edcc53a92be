// Dialogs over the page, and the forms in them. Every page works without: a dialog is then a page of its own.
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
    const link = event.target.closest("a, button, summary");
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

  // Bulk verbs open theirs so, with the ids of what is ticked.
  document.addEventListener("gh-dialog", (event) => openDialog(event.detail));

  // A page may be asked to open with a dialog over it: the palette's verbs lead there.
  const after = one("[data-dialog-now]");
  if (after) openDialog(after.dataset.dialogNow);
})();
