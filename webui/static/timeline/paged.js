// The timeline of a large fabric: the server searches, sorts and pages the hosts, and sends the slots of those that are shown.

import { $, visible } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { Pager } from "../lib/pager.js";

const EVERY_MS = 1000;
const TYPED_MS = 200;
const COUNT = 40;
const FIRST_BATCHES = 417; // ten seconds
const BATCHES = 125;

export class Paged {
  constructor(panel, timeline) {
    Object.assign(this, { timeline, used: false, page: 1, asked: 0, typed: 0, fresh: true, says: "", dropped: null });
    this.pager = new Pager("hosts with slots in the last 10 s", (page) => this.turn(page));
    this.pager.element.hidden = true;
    timeline.element.after(this.pager.element);
    this.panel = panel;
    $("schedule-filter").addEventListener("input", () => {
      clearTimeout(this.typed);
      this.typed = setTimeout(() => this.turn(1), TYPED_MS);
    });
    $("schedule-sort").addEventListener("change", () => this.turn(1));
    setInterval(() => this.used && !timeline.paused && visible(timeline.element) && this.load(), EVERY_MS);
  }

  get searched() {
    return this.used && $("schedule-filter").value.trim() !== "";
  }

  use(used) {
    const begins = used && !this.used;
    this.used = used;
    this.pager.element.hidden = $("schedule-choose").hidden = !used;
    if (!used) this.says = "";
    if (begins && visible(this.timeline.element)) this.load();
  }

  turn(page) {
    this.page = page;
    this.fresh = true;
    this.timeline.scroller.scrollTop = 0;
    return this.load();
  }

  async load() {
    const asked = (this.asked += 1);
    const query = { search: $("schedule-filter").value, sort: $("schedule-sort").value, page: this.page, count: COUNT, batches: this.fresh ? FIRST_BATCHES : BATCHES };
    if (query.sort !== "name") query.order = "down";
    try {
      const answer = await fetch(`/api/timeline?${new URLSearchParams(query)}`);
      if (asked !== this.asked) return;
      if (!answer.ok) {
        await this.pager.refused(answer);
        return;
      }
      const told = await answer.json();
      if (asked !== this.asked) return;
      this.show(told);
    } catch {
      // the banner says that the server does not answer; the next turn asks again
    }
  }

  show(told) {
    const { timeline } = this;
    this.fresh = false;
    this.page = told.page;
    for (const [node, name] of Object.entries(told.names)) timeline.names.set(Number(node), name);
    const now = performance.now(); // a pause, and a search, ask sooner or later than after a second
    const missed = this.dropped === null ? 0 : (1000 * (told.dropped - this.dropped)) / Math.max(1, now - this.shownAt);
    Object.assign(this, { dropped: told.dropped, shownAt: now });
    this.says = missed > 0 ? `${count(Math.max(1, missed))} slots a second are not in the picture: more than the coordinator tells` : "which host held the permission, and when";
    timeline.rows = told.rows.map(({ node, name }) => ({ node, name }));
    timeline.slots.keep(new Set(told.rows.map(({ node }) => node)));
    timeline.add(told.slots, told.now_us);
    timeline.say();
    this.pager.say(told);
  }
}
