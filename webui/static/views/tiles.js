// The tiles of the overview: six figures, each with a remark and, if it varies, a line of its last minute.

import { totalsOf } from "../lib/totals.js";
import { attribute, h, s, text, visible } from "../lib/dom.js";
import { arrow, bytes, count, percent, rate } from "../lib/format.js";

const KEPT = 120; // samples of one minute
const LATELY_MS = 30_000;

export class Tiles {
  constructor(element, app) {
    this.element = element;
    this.tiles = new Map(
      [["load", "Busiest link", "fabric"], ["contended", "Contended links", "fabric"], ["regulated", "Regulated flows", "flows"],
        ["backlog", "Backlog", "flows"], ["late", "Late slots", "schedule"], ["members", "Members", "members"]]
        .map(([name, title, view]) => [name, new Tile(element, title, view)]),
    );
    this.before = null;
    app.feed.on("state", (state) => this.state(state));
  }

  state(state) {
    const links = Object.entries(state.links);
    const hot = links.filter(([, link]) => link.contended);
    const totals = totalsOf(state);
    const [busiest, most] = links.reduce((a, b) => (b[1].load > a[1].load ? b : a), ["", { load: 0, bps: 0 }]);
    this.set("load", percent(most.load), busiest ? `${arrow(busiest)}, ${rate(most.bps)}` : "no load measured yet", "", most.load);
    this.set("contended", count(totals.contended), hot.length ? hot.slice(0, 3).map(([name]) => arrow(name)).join(", ") : "no host waits", totals.contended ? "warn" : "", totals.contended);
    this.set("regulated", count(totals.regulated), `of ${count(totals.flows)} V2V flows`, "", totals.regulated);
    this.set("backlog", bytes(totals.backlog_bytes), totals.waiting_ms ? `waits up to ${totals.waiting_ms.toFixed(1)} ms` : "nothing waits", "", totals.backlog_bytes);
    this.late(state.coordinator);
    this.set("members", count(totals.members), totals.odd ? `${count(totals.odd)} with problems` : "no problems", totals.odd ? "bad" : "");
  }

  /** The late slots of the last half minute, since a total since the start would hide the present state. */
  late({ slots, late_slots: late, epoch, alive }) {
    if (!this.before || this.before[0].epoch !== epoch) this.before = [];
    const now = performance.now(); // states come twice a second, of a large fabric or without a stream more seldom
    this.before.push({ slots, late, epoch, at: now });
    while (now - this.before[0].at > LATELY_MS) this.before.shift();
    const [first] = this.before;
    const granted = slots - first.slots;
    const part = granted > 0 ? (late - first.late) / granted : 0;
    this.set("late", alive && granted > 0 ? percent(part) : "–", granted > 0 ? `of ${count(granted)} in ${Math.round((now - first.at) / 1000)} s` : "no slots lately", part > 0.02 ? "warn" : "", granted > 0 ? part : null);
  }

  set(name, value, note, kind, sample = null) {
    this.tiles.get(name).set(value, note, kind, sample, visible(this.element));
  }
}

class Tile {
  constructor(parent, title, view) {
    this.samples = [];
    this.value = h("span", { class: "value" }, "–");
    this.note = h("span", { class: "remark" }, " ");
    this.line = s("polyline", {});
    this.element = h("a", { class: "tile", href: `#${view}` }, h("h3", {}, title), this.value,
      s("svg", { viewBox: "0 0 119 26", preserveAspectRatio: "none", "aria-hidden": "true" }, this.line), this.note);
    parent.append(this.element);
  }

  set(value, note, kind, sample, seen) {
    if (sample !== null) {
      this.samples.push(sample);
      if (this.samples.length > KEPT) this.samples.shift();
    }
    if (!seen) return;
    text(this.value, value);
    text(this.note, note);
    attribute(this.note, "title", note);
    attribute(this.element, "class", `tile ${kind}`.trim());
    if (this.samples.length < 2) return;
    const top = Math.max(...this.samples) * 1.25 || 1;
    const step = 119 / (this.samples.length - 1);
    attribute(this.line, "points", this.samples.map((v, i) => `${(i * step).toFixed(1)},${(25 - (24 * v) / top).toFixed(1)}`).join(" "));
  }
}
