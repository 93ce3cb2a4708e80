// Small helpers for the DOM: make elements, and write only what differs.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: h("p", {class: "x", onclick: f, dataset: {a: 1}}, "text", child, ...). null children are left out. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element, as `h`. */
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || (value === false && !key.startsWith("aria-"))) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "dataset") Object.assign(element.dataset, value);
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Writes a text only if it differs, so that the browser need not lay out what stays. */
export function text(element, value) {
  const written = String(value);
  if (element.textContent !== written) element.textContent = written;
}

/** Sets an attribute only if it differs; null removes it. */
export function attribute(element, name, value) {
  if (value === null || (value === false && !name.startsWith("aria-"))) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

export const $ = (id) => document.getElementById(id);

/** Whether an element is in the view that is shown. Reads classes instead of the layout, since it is called often. */
export const visible = (element) => !document.hidden && (element.closest("main > [data-views]")?.classList.contains("shown") ?? true);

/** `draw`, but not between a press and its release in the element: who replaces what is pressed loses the click. */
export function afterPress(element, draw) {
  let pressed = false;
  let owed = false;
  const end = () => {
    pressed = false;
    setTimeout(() => owed && !pressed && later()); // the click comes first
  };
  const later = () => {
    owed = pressed;
    if (!pressed) draw();
  };
  element.addEventListener("pointerdown", () => (pressed = true));
  for (const name of ["pointerup", "pointercancel", "blur"]) window.addEventListener(name, end);
  window.addEventListener("pointermove", (event) => pressed && !event.buttons && end()); // released outside of the window
  return later;
}

/** The message of a view without content: what is the case, and what to do. */
export function empty(title, remedy) {
  return h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, remedy));
}

/** The value of a CSS custom property. */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
