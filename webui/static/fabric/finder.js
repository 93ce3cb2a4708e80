// The search for a host, a switch or an address in a large fabric: the server finds, the list below the field shows.

import { $, h } from "../lib/dom.js";
import { count } from "../lib/format.js";

const TYPED_MS = 150;
const COUNT = 8;

export class Finder {
  constructor(element, chosen) {
    this.chosen = chosen;
    this.input = $("fabric-search");
    this.list = $("found");
    this.asked = 0;
    this.typed = 0;
    this.input.addEventListener("input", () => {
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.look(COUNT), TYPED_MS);
    });
    element.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => !element.contains(event.target) && this.close());
  }

  async look(most) {
    const search = this.input.value.trim();
    const asked = (this.asked += 1);
    if (!search) return this.close();
    try {
      const answer = await fetch(`/api/search?${new URLSearchParams({ search, count: most })}`);
      if (!answer.ok || asked !== this.asked) return undefined;
      this.show(await answer.json());
    } catch {
      // the banner says that the server does not answer
    }
    return undefined;
  }

  show({ rows, total, matching }) {
    const more = matching > rows.length ? h("button", { class: "small", onclick: () => this.look(Math.min(matching, rows.length + 50)) }, "Show more") : null;
    this.list.replaceChildren(
      h("p", { class: "dim", role: "status" }, matching ? `Showing ${count(rows.length)} of ${count(matching)} that match, among ${count(total)} hosts and switches` : `No host or switch of ${count(total)} has this name or address`),
      ...rows.map((row) => h("button", { class: "hit-row", "data-id": row.id, onclick: () => this.take(row.id) },
        h("b", {}, row.id), h("span", { class: "dim" }, row.kind), h("span", { class: "mono dim" }, row.addresses.slice(0, 2).join(" ")))),
      more ?? "",
    );
    this.list.hidden = false;
  }

  take(id) {
    this.close();
    this.chosen(id);
  }

  close() {
    this.asked += 1;
    this.list.hidden = true;
  }

  key(event) {
    const rows = [...this.list.querySelectorAll("button")];
    if (event.key === "Escape") {
      this.close();
      this.input.focus();
    } else if (event.key === "Enter" && event.target === this.input) {
      clearTimeout(this.typed);
      this.look(COUNT).then(() => this.list.querySelector("[data-id]")?.click());
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const at = rows.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      (rows[at] ?? this.input).focus();
    } else return;
    event.stopPropagation();
    event.preventDefault();
  }
}
