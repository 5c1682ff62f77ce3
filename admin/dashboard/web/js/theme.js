// Light or dark, before anything is painted. A classic script: a module would run too late.
(() => {
  "use strict";
  const root = document.documentElement;
  const read = () => {
    try { return localStorage.getItem("weir-theme"); } catch { return null; }
  };
  const keep = (theme) => {
    try { localStorage.setItem("weir-theme", theme); } catch { /* a browser that keeps nothing */ }
  };
  const wear = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.dispatchEvent(new Event("theme"));
  };
  wear(read());
  document.addEventListener("DOMContentLoaded", () => {
    for (const input of document.querySelectorAll('input[name="theme"]')) {
      input.checked = input.value === (root.dataset.theme ?? "auto");
      input.addEventListener("change", () => { keep(input.value); wear(input.value); });
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => root.dispatchEvent(new Event("theme")));
})();
