// Runs before the first paint, so that a chosen theme does not flash. Everything else is a module.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("baton-theme");
  } catch {
    // storage may be forbidden; the system's preference is used then
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
