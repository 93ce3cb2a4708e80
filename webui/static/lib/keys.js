// Keyboard commands: one table of keys defines both the actions and the help.

import { h } from "./dom.js";

export class Keys {
  constructor(dialog, { views, show, theme, timeline, fabric, filter }) {
    this.dialog = dialog;
    const go = (view, act) => () => {
      if (!["overview", view].includes(document.body.dataset.view)) show(view);
      act();
    };
    this.groups = [
      ["Views", [...views.map(([name, title], i) => [String(i + 1), title, () => show(name)])]],
      ["Schedule", [
        [" ", "pause, or continue", go("schedule", () => timeline.togglePause())],
        ["ArrowLeft", "earlier", go("schedule", () => timeline.pan(-0.25))],
        ["ArrowRight", "later", go("schedule", () => timeline.pan(0.25))],
        ["+", "a shorter window", go("schedule", () => timeline.zoom(0.5))],
        ["-", "a longer window", go("schedule", () => timeline.zoom(2))],
        ["f", "all rows at once", go("schedule", () => timeline.toggleFit())],
      ]],
      ["Everywhere", [
        ["s", "search or filter", filter],
        ["0", "the whole fabric", go("fabric", () => fabric.fit())],
        ["t", "dark or light", theme],
        ["Escape", "close, or clear the selection", () => fabric.select(null)],
        ["?", "this help, also with /", () => this.open()],
      ]],
    ];
    this.actions = new Map(this.groups.flatMap(([, keys]) => keys.map(([key, , act]) => [key, act])));
    this.actions.set("/", () => this.open()).set("=", this.actions.get("+"));
    addEventListener("keydown", (event) => this.press(event));
    addEventListener("baton-help", () => this.open());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (event.key === " " && target.matches("button, a, [role=button]")) return;
    if (event.key.startsWith("Arrow") && target.closest("[data-arrows]")) return;
    const act = this.actions.get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }

  open() {
    const names = { " ": "space", ArrowLeft: "←", ArrowRight: "→", Escape: "esc" };
    this.dialog.replaceChildren(
      h("h2", { id: "keys-title" }, "Keyboard"),
      h("div", { class: "keys" }, ...this.groups.map(([title, keys]) =>
        h("section", {}, h("h3", {}, title), h("dl", {}, ...keys.flatMap(([key, does]) =>
          [h("dt", {}, h("kbd", {}, names[key] ?? key)), h("dd", {}, does)]))))),
      h("p", { class: "dim" }, "In the fabric, arrow keys move between nodes once one has the focus; Enter shows its details."),
      h("form", { method: "dialog", class: "actions" }, h("button", { class: "primary" }, "Close")),
    );
    if (!this.dialog.open) this.dialog.showModal();
  }
}
