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
    if (!field.matches?.("[data-names]")) return;
    clearTimeout(timer);
    timer = setTimeout(() => offer(field), event.type === "focusin" ? 0 : 150);
  }

  document.addEventListener("focusin", later);
  document.addEventListener("input", later);
})();
