// What stands around every page: its theme, its menus, and times that move on.
(function () {
  "use strict";
  const one = (query, root = document) => root.querySelector(query);
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const say = (text) => { one("#gh-live").textContent = text; };

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
  document.addEventListener("click", (event) => {
    const choice = event.target.closest("[data-theme]");
    if (!choice) return;
    chooseTheme(choice.dataset.theme);
    choice.closest("details").open = false;
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "e") {
      event.preventDefault();
      chooseTheme(document.documentElement.classList.contains("dark") ? "light" : "dark");
    }
  });

  // ── Menus: one at a time, Esc closes and gives the focus back ─────────────────────────────────────────────────
  document.addEventListener("click", (event) => {
    const burger = event.target.closest("[data-nav]");
    if (burger) turnNav(burger);
    else if (event.target.closest("[data-keysheet]")) one("#gh-keys").showModal();
    all("details.gh-menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
    const nav = one("#gh-nav.gh-nav--open");
    if (nav && !nav.contains(event.target) && !burger) closeNav();
  });

  function turnNav(burger) {
    const open = one("#gh-nav").classList.toggle("gh-nav--open");
    burger.setAttribute("aria-expanded", String(open));
    if (open) one("#gh-nav a").focus();
  }

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

  // Pressed, a time shows what it hid, and stays so.
  document.addEventListener("click", (event) => {
    const time = event.target.closest("a, button, summary, time");
    if (!time?.matches("time[title]")) return;
    const shown = time.textContent;
    time.textContent = time.title;
    time.title = shown;
    delete time.dataset.when;
  });
})();
