// Fields that take a name: what one may see is offered while one types, in the browser's own list.
(function () {
  "use strict";
  let timer = 0;
  let made = 0;

  function offersOf(field) {
    const known = field.list;
    if (known) return known;
    const offers = document.createElement("datalist");
    offers.id = `gh-names-${(made += 1)}`;
    field.after(offers);
    field.setAttribute("list", offers.id);
    return offers;
  }

  async function offer(field) {
    const url = new URL(field.dataset.names, location.href);
    url.searchParams.set("q", field.value.trim());
    const answer = await fetch(url, { credentials: "same-origin", headers: { "X-Console-Part": "1" } });
    if (!answer.ok) return;
    const { names } = await answer.json();
    offersOf(field).replaceChildren(...names.map(({ name, note }) => new Option(note, name)));
  }

  function later(event) {
    const field = event.target;
    if (!field.matches?.("input[data-names]")) return;
    clearTimeout(timer);
    timer = setTimeout(() => offer(field), event.type === "focusin" ? 0 : 150);
  }

  // A field for several names gets a line above it: what is chosen there becomes a line of the field.
  function lineFor(field) {
    const line = document.createElement("input");
    line.type = "text";
    line.className = "gh-add-line";
    line.autocomplete = "off";
    line.placeholder = "Type a name to add it";
    line.setAttribute("aria-label", `Add to ${field.labels[0].firstChild.textContent.trim().toLowerCase()}`);
    line.dataset.names = field.dataset.names;
    line.addEventListener("change", () => {
      const offered = [...(line.list?.options || [])].some((option) => option.value === line.value.trim());
      if (offered) add(field, line);
    });
    line.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        add(field, line);
      }
    });
    field.before(line);
  }

  function add(field, line) {
    const name = line.value.trim();
    if (!name) return;
    field.value = field.value.trim() ? `${field.value.trimEnd()}\n${name}` : name;
    line.value = "";
  }

  document.querySelectorAll("textarea[data-names]").forEach(lineFor);
  document.addEventListener("focusin", later);
  document.addEventListener("input", later);
})();
