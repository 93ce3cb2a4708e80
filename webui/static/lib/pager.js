// Pages of a list that the server searches and sorts: which part is shown, how much there is, and the buttons that lead to the rest.

import { attribute, h, text, visible } from "./dom.js";
import { count } from "./format.js";

const TYPED_MS = 200;
const COUNT = 50;

/** The line below a list: "Showing 51 to 100 of 20 000 flows", and the buttons. `turn(page)` shows another page. */
export class Pager {
  constructor(what, turn) {
    this.what = what;
    this.now = { page: 1, pages: 1 };
    const button = (says, label, page) => h("button", { class: "icon small", "aria-label": label, title: label, onclick: () => turn(page(this.now)) }, says);
    this.said = h("p", { role: "status" });
    this.buttons = [button("«", "First page", () => 1), button("‹", "Previous page", ({ page }) => page - 1),
      button("›", "Next page", ({ page }) => page + 1), button("»", "Last page", ({ pages }) => pages)];
    this.element = h("div", { class: "pager" }, this.said, h("div", { class: "group", role: "group", "aria-label": `Pages of ${what}` }, ...this.buttons));
  }

  /** Says why a request was refused, if its user can mend that. */
  async refused(answer) {
    if (answer.status !== 422) return;
    const told = await answer.json().catch(() => ({}));
    text(this.said, `Not searched. ${told.error ?? "The server refused this"}; ${told.remedy ?? "write another search"}`);
  }

  /** Takes the server's answer: {total, matching, page, pages, first, rows}. */
  say(told) {
    this.now = told;
    const { total, matching, page, pages, first, rows } = told;
    const found = matching === total ? `${count(total)} ${this.what}` : `${count(matching)} that match, of ${count(total)} ${this.what}`;
    text(this.said, rows.length ? `Showing ${count(first)} to ${count(first + rows.length - 1)} of ${found}${pages > 1 ? `; page ${count(page)} of ${count(pages)}` : ""}` : `Showing none of ${found}`);
    this.buttons.forEach((one, i) => (one.disabled = i < 2 ? page <= 1 : page >= pages));
  }
}

/** Fills a table from the server, page by page, while it is in use and seen. */
export class TablePager {
  constructor(parent, table, { path, what, everyMs = 2000 }) {
    Object.assign(this, { path, table, page: 1, words: "", used: false, asked: 0, typed: 0 });
    this.pager = new Pager(what, (page) => this.turn(page));
    this.pager.element.hidden = true;
    parent.append(this.pager.element);
    setInterval(() => this.used && visible(parent) && this.load(), everyMs);
  }

  use(used) {
    const begins = used && !this.used;
    this.used = used;
    this.pager.element.hidden = !used;
    this.table.remote = used ? () => this.turn(1) : null;
    attribute(this.table.element, "data-paged", used ? "" : null);
    if (begins) this.load();
  }

  search(words) {
    this.words = words;
    clearTimeout(this.typed);
    this.typed = setTimeout(() => this.turn(1), TYPED_MS);
  }

  turn(page) {
    this.page = page;
    this.table.scroller.scrollTop = 0;
    return this.load();
  }

  async load() {
    const { sortKey, down } = this.table;
    const asked = (this.asked += 1);
    const query = new URLSearchParams({ search: this.words, sort: sortKey, order: down ? "down" : "up", page: this.page, count: COUNT });
    try {
      const answer = await fetch(`${this.path}?${query}`);
      if (asked !== this.asked) return;
      if (!answer.ok) {
        await this.pager.refused(answer);
        return;
      }
      const told = await answer.json();
      if (asked !== this.asked) return;
      this.page = told.page;
      this.table.searched = told.total > 0;
      this.table.all = told.rows;
      this.table.refresh();
      this.pager.say(told);
    } catch {
      // the banner says that the server does not answer; the next turn tries again
    }
  }
}
