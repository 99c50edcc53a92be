// Before the first paint: the theme that was chosen, and the browser's time zone for who has set none.
(function () {
  const root = document.documentElement;
  root.classList.add("gh-js");
  const chosen = localStorage.getItem("theme") || "auto";
  const dark = chosen === "dark" || (chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.classList.toggle("dark", dark);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  if (zone) {
    document.cookie = `zone=${zone}; path=/admin/; max-age=31536000; samesite=lax`;
  }
})();
