// Ctrl K: pages, objects, ids and verbs. Nothing is remembered, and a pasted token never leaves the browser whole.
(function () {
  "use strict";
  const palette = document.getElementById("gh-palette");
  if (!palette) return;
  const input = palette.querySelector("input");
  const results = document.getElementById("gh-palette-results");
  const count = document.getElementById("gh-palette-count");
  let timer = 0;
  let turn = 0;

  function open() {
    if (document.querySelector("dialog[open]")) return;
    input.value = "";
    draw("");
    palette.showModal();
    input.focus();
    ask();
  }

  // nhi_agt_<public id>_<secret>: only the public id is of use, and only that is sent.
  function withoutSecret(text) {
    if (!text.includes("nhi_")) return text;
    const token = /nhi_(?:agt|svc|usr)_([0-9A-Za-z]{16})/.exec(text);
    return token ? token[1] : "";
  }

  async function ask() {
    const mine = (turn += 1);
    const cut = withoutSecret(input.value.trim());
    if (cut !== input.value.trim()) input.value = cut;
    const answer = await fetch(`${palette.dataset.url}?${new URLSearchParams({ s: cut })}`, { credentials: "same-origin" });
    if (mine !== turn || !answer.ok) return;
    draw(await answer.text());
  }

  function draw(html) {
    results.innerHTML = html;
    const hits = options();
    input.setAttribute("aria-expanded", String(hits.length > 0));
    input.removeAttribute("aria-activedescendant");
    count.textContent = input.value.trim() ? (hits.length ? `${hits.length} found` : "Nothing found that you can see") : "Type a name, paste an id, or begin with a verb: stop, give, add";
    choose(0);
  }

  const options = () => [...results.querySelectorAll("[role=option]")];

  function choose(index) {
    const hits = options();
    hits.forEach((hit, at) => hit.setAttribute("aria-selected", String(at === index)));
    if (!hits[index]) return;
    input.setAttribute("aria-activedescendant", hits[index].id);
    hits[index].scrollIntoView({ block: "nearest" });
  }

  const chosen = () => options().findIndex((hit) => hit.getAttribute("aria-selected") === "true");

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 200);
  });
  input.addEventListener("paste", () => setTimeout(() => { input.value = withoutSecret(input.value.trim()); }, 0));
  palette.addEventListener("keydown", (event) => {
    const hits = options();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen() + step + hits.length) % Math.max(hits.length, 1));
    } else if (event.key === "Enter" && event.target === input) {
      event.preventDefault();
      hits[Math.max(chosen(), 0)]?.click();
    }
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (palette.open) palette.close();
      else open();
    }
  });
  document.querySelectorAll("[data-palette]").forEach((button) => button.addEventListener("click", open));
})();
