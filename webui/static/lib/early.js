// Runs before the first paint, so that a chosen theme does not flash, and fetches the first data while the script loads.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("baton-theme");
  } catch {
    // storage may be forbidden: then the system's preference applies
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  window.batonEarly = Object.fromEntries(["fabric", "state"].map((name) => [name, fetch(`/api/${name}`)]));
  for (const answer of Object.values(window.batonEarly)) answer.catch(() => {}); // feed.js handles the error
})();
