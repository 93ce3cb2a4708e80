// A table of thousands of rows that makes elements only for the visible ones; it sorts by columns, filters, and updates in place.

import { attribute, empty, h, text, visible } from "./dom.js";
import { natural } from "./format.js";

const SPARE = 4;

/**
 * Columns: {key, title, hint, kind: "text" | "num", wide (a CSS grid size), value(row) for sorting, write(cell, row, extent),
 * narrow: false to leave it out on narrow screens}. `nothing()` is the empty state: [title, remedy].
 * With `remote`, a function that asks the server for other rows, the rows are a page that the server has searched and sorted.
 */
export class VirtualTable {
  constructor(parent, { columns, sort, down = true, rowHeight = 32, label, nothing, picked = null }) {
    Object.assign(this, { columns, sortKey: sort, down, rowHeight, nothing, picked });
    this.rows = [];
    this.all = [];
    this.remote = null;
    this.searched = false;
    this.test = () => true;
    this.pool = [];
    this.heads = columns.map((column) => h("button", { class: `th ${column.kind ?? "text"} ${column.plotted ? "plotted" : ""} ${column.narrow === false ? "wide-only" : ""}`, role: "columnheader", title: column.hint ?? null, "data-key": column.key, onclick: () => this.sortBy(column.key) },
      h("span", {}, column.title), h("i", { "aria-hidden": "true" })));
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.none = h("div", { hidden: true });
    this.scroller = h("div", { class: "table-scroll", tabindex: "0", "data-arrows": "" }, h("div", { class: "row head", role: "row" }, ...this.heads), this.body, this.none);
    this.element = h("div", { class: "table", role: "table", "aria-label": label }, this.scroller);
    const grid = (list) => list.map((column) => column.wide ?? "minmax(0, 1fr)").join(" ");
    this.element.style.setProperty("--columns", grid(columns));
    this.element.style.setProperty("--columns-narrow", grid(columns.filter((column) => column.narrow !== false)));
    this.element.style.setProperty("--row", `${rowHeight}px`);
    parent.append(this.element);
    this.scroller.addEventListener("scroll", () => this.paint());
    new ResizeObserver(() => this.paint()).observe(this.scroller);
    this.mark();
  }

  set(rows) {
    this.all = rows;
    if (visible(this.element)) this.refresh();
  }

  filter(test) {
    this.test = test;
    this.scroller.scrollTop = 0;
    this.refresh();
  }

  sortBy(key) {
    const column = this.columns.find((one) => one.key === key);
    if (this.sortKey === key) this.down = !this.down;
    else [this.sortKey, this.down] = [key, column.kind === "num"];
    this.scroller.scrollTop = 0;
    this.mark();
    if (this.remote) this.remote();
    else this.refresh();
  }

  mark() {
    this.heads.forEach((head, i) => {
      const here = this.columns[i].key === this.sortKey;
      attribute(head, "aria-sort", here ? (this.down ? "descending" : "ascending") : "none");
      text(head.lastElementChild, here ? (this.down ? "▾" : "▴") : "");
    });
  }

  refresh() {
    const column = this.columns.find((one) => one.key === this.sortKey);
    const sign = this.down ? -1 : 1;
    const compare = column.kind === "num" ? (a, b) => column.value(a) - column.value(b) : (a, b) => natural(String(column.value(a)), String(column.value(b)));
    const tie = this.columns[0];
    this.rows = this.remote ? this.all : this.all.filter(this.test).sort((a, b) => sign * compare(a, b) || natural(String(tie.value(a)), String(tie.value(b))));
    this.extent = Object.fromEntries(this.columns.filter((one) => one.kind === "num").map((one) => [one.key, this.rows.reduce((most, row) => Math.max(most, one.value(row) || 0), 0)]));
    this.body.style.height = `${this.rows.length * this.rowHeight}px`;
    this.none.hidden = this.rows.length > 0;
    if (!this.rows.length) this.none.replaceChildren(empty(...(this.all.length || this.searched ? ["Nothing matches the filter", "Clear it, or search for another name."] : this.nothing())));
    this.paint();
  }

  paint() {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - SPARE); // the head is above the rows: a spare row covers it
    const last = clientHeight ? Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + SPARE) : 0;
    const need = Math.max(0, last - first);
    while (this.pool.length < need) this.pool.push(this.make());
    this.pool.forEach((made, i) => {
      const row = i < need ? this.rows[first + i] : null;
      if (made.element.hidden !== !row) made.element.hidden = !row;
      if (!row) return;
      made.row = row;
      const y = `translateY(${(first + i) * this.rowHeight}px)`;
      if (made.y !== y) made.element.style.transform = made.y = y;
      attribute(made.element, "aria-rowindex", first + i + 1);
      made.cells.forEach((cell, n) => this.columns[n].write(cell, row, this.extent?.[this.columns[n].key] ?? 0, made.element));
    });
  }

  make() {
    const cells = this.columns.map((column) => h("span", { class: `td ${column.kind ?? "text"} ${column.narrow === false ? "wide-only" : ""}`, role: "cell" }));
    const element = h("div", { class: "row", role: "row", tabindex: this.picked ? "0" : null }, ...cells);
    const made = { element, cells, row: null, y: "" };
    if (this.picked) {
      element.addEventListener("click", () => this.picked(made.row));
      element.addEventListener("keydown", ({ key }) => key === "Enter" && this.picked(made.row));
    }
    this.body.append(element);
    return made;
  }
}

/** Writes a name, which a narrow column cuts, so that pointing at it shows all of it. */
export function named(cell, name) {
  text(cell, name);
  attribute(cell, "title", name);
}

/** Writes a number with a bar behind it, in proportion to the largest. */
export function barred(cell, written, part) {
  if (!cell.firstElementChild) cell.append(h("i", { class: "behind" }), h("span", {}));
  const width = `${Math.round(100 * Math.min(1, part))}%`;
  const bar = cell.firstElementChild;
  if (bar.style.width !== width) bar.style.width = width;
  text(cell.lastElementChild, written);
}
