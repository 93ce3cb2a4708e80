// Dark or light: the system's preference until the user chooses. Views that paint on a canvas listen to "baton-theme".

import { isDark } from "./scale.js";

export function toggleTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("baton-theme", next);
  } catch {
    // storage may be forbidden: then the choice lasts as long as the page
  }
  dispatchEvent(new CustomEvent("baton-theme"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new CustomEvent("baton-theme")));

/** Calls `call` now and whenever the theme changes. */
export function onTheme(call) {
  addEventListener("baton-theme", call);
  call();
}
