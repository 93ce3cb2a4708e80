// Runs before the first paint, so that a chosen theme does not flash; and asks for what is shown first while the modules come.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("baton-theme");
  } catch {
    // storage may be forbidden; the system's preference is used then
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  window.batonEarly = Object.fromEntries(["fabric", "state"].map((name) => [name, fetch(`/api/${name}`)]));
  for (const answer of Object.values(window.batonEarly)) answer.catch(() => {}); // feed.js meets it again
})();
