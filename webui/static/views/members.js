// The members (hosts with an agent): versions, clocks, time of the last message, and refused frames.

import { $, attribute, h, s, text } from "../lib/dom.js";
import { count, ms, offset, percent } from "../lib/format.js";
import { TablePager } from "../lib/pager.js";
import { named, VirtualTable } from "../lib/table.js";

const SILENT_MS = 250;
const SILENT_REPORTS = 2;

const refusals = (member) => Object.values(member.refused ?? {}).reduce((sum, n) => sum + n, 0);
const odd = (member) => [...(member.suspect ?? []), ...(member.warnings ?? []), ...(member.drift ?? [])];

/** Draws a clock's offset as a dot with its uncertainty, on a common scale; a clock whose bar misses the middle line is off. */
function whisker(cell, member, most) {
  if (!cell.firstElementChild) {
    cell.append(h("span", {}), s("svg", { viewBox: "-50 -8 100 16", "aria-hidden": "true" }, s("line", { class: "zero", x1: 0, x2: 0, y1: -7, y2: 7 }), s("line", { class: "reach" }), s("circle", { r: 3 })));
  }
  const [label, plot] = cell.children;
  text(label, member.offset_us === null || member.offset_us === undefined ? "–" : `${offset(member.offset_us)}${member.uncertainty_us ? ` ± ${Math.round(member.uncertainty_us)}` : ""}`);
  const scale = 46 / Math.max(50, most);
  const x = Math.max(-46, Math.min(46, (member.offset_us ?? 0) * scale));
  const reach = (member.uncertainty_us ?? 0) * scale;
  const [, line, dot] = plot.children;
  attribute(line, "x1", Math.max(-50, x - reach).toFixed(1));
  attribute(line, "x2", Math.min(50, x + reach).toFixed(1));
  attribute(dot, "cx", x.toFixed(1));
}

export class MembersView {
  constructor(element, app) {
    this.feed = app.feed;
    this.app = app;
    const spread = () => this.table.all.reduce((most, m) => Math.max(most, Math.abs(m.offset_us ?? 0) + (m.uncertainty_us ?? 0)), 0);
    this.table = new VirtualTable(element, {
      label: "Members", sort: "name", down: false, rowHeight: 36,
      nothing: () => ["No host has registered", "Start an agent on a host: baton agent --interface eth1 --rate 10gbit --key /etc/baton/host. Until then every host sends freely."],
      columns: [
        { key: "name", title: "host", wide: "minmax(60px, .9fr)", value: (m) => m.name, write: (c, m) => named(c, m.enrolled && m.enrolled !== m.name ? `${m.enrolled} (${m.name})` : m.name) },
        { key: "node", title: "node", kind: "num", narrow: false, wide: "56px", value: (m) => m.node, write: (c, m) => text(c, m.node) },
        { key: "version", title: "version", narrow: false, wide: "minmax(64px, .7fr)", value: (m) => m.version, write: (c, m) => (text(c, m.version), attribute(c, "class", `td text wide-only ${m.version === this.usual ? "" : "warn"}`)) },
        { key: "gate", title: "gate", wide: "minmax(48px, .5fr)", value: (m) => m.gate, write: (c, m) => text(c, m.gate) },
        { key: "offset", plotted: true, title: "clock offset", hint: "Offset from the coordinator's clock, with its uncertainty", narrow: false, kind: "num", wide: "minmax(190px, 1.6fr)", value: (m) => Math.abs(m.offset_us ?? 0), write: (c, m) => (attribute(c, "class", "td clock wide-only"), whisker(c, m, spread())) },
        { key: "heard", title: "heard ago", kind: "num", wide: "minmax(76px, .8fr)", value: (m) => m.last_heard_ms, write: (c, m) => this.heard(c, m) },
        { key: "late", title: "late slots", kind: "num", narrow: false, wide: "minmax(150px, .8fr)", value: (m) => m.late_slots ?? 0, write: (c, m) => this.late(c, m) },
        { key: "refused", title: "refused", hint: "Control frames that the agent refused, by cause", kind: "num", wide: "minmax(64px, 1fr)", value: refusals, write: (c, m) => this.refused(c, m) },
        { key: "odd", title: "problems", wide: "minmax(70px, 1.7fr)", value: (m) => (odd(m).length ? `0${odd(m).join()}` : "1"), write: (c, m) => this.odd(c, m) },
      ],
      picked: (member) => {
        app.show("fabric");
        app.select(member.name);
      },
    });
    this.pager = new TablePager(element, this.table, { path: "/api/members", what: "members" });
    $("members-filter").addEventListener("input", ({ target }) => this.feed.last.state?.large ? this.pager.search(target.value) : this.table.filter(this.test(target.value.toLowerCase().split(/\s+/).filter(Boolean))));
    this.feed.on("state", (state) => this.state(state));
    app.onShow(() => this.feed.last.state && this.state(this.feed.last.state));
  }

  test(terms) {
    const text = (m) => [m.name, m.enrolled, m.gate, m.version, ...Object.keys(m.refused ?? {}), refusals(m) ? "refused" : "", m.suspect?.length ? "suspect" : "", m.drift?.length ? "drift" : "", ...odd(m)].join(" ").toLowerCase();
    return (member) => terms.every((term) => text(member).includes(term));
  }

  /** How long ago the leader heard it, which is bad if reports are missing; without a leader nobody hears it. */
  heard(cell, { last_heard_ms: heard }) {
    const { alive, report_ms: report } = this.feed.last.state.coordinator;
    text(cell, alive ? ms(heard) : "old");
    attribute(cell, "title", alive ? null : `${ms(heard)} when the last leader told it`);
    attribute(cell, "class", `td num ${!alive ? "dim" : heard > Math.max(SILENT_MS, SILENT_REPORTS * report) ? "bad" : ""}`);
  }

  late(cell, { slots, late_slots: late = 0 }) {
    text(cell, slots ? `${count(late)} (${percent(late / slots)})` : "–");
    attribute(cell, "title", slots ? `${count(late)} of ${count(slots)} slots` : null);
  }

  refused(cell, member) {
    const causes = Object.entries(member.refused ?? {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]);
    text(cell, causes.length ? causes.map(([cause, n]) => `${count(n)} ${cause.replaceAll("_", " ")}`).join(", ") : "–");
    attribute(cell, "title", causes.length ? cell.textContent : null);
    attribute(cell, "class", `td num ${causes.length ? "warn" : "dim"}`);
  }

  odd(cell, member) {
    const lines = odd(member);
    text(cell, lines.length ? `▲ ${lines[0]}${lines.length > 1 ? ` (+${lines.length - 1})` : ""}` : "–");
    attribute(cell, "title", lines.length ? lines.join("\n") : null);
    attribute(cell, "class", `td text ${member.suspect?.length ? "bad" : lines.length ? "warn" : "dim"}`);
  }

  state({ members, large, totals }) {
    this.pager.use(Boolean(large));
    if (large) {
      this.say(totals.members, new Map(Object.entries(totals.versions)), totals.odd);
      return;
    }
    const versions = new Map();
    for (const { version } of members) versions.set(version, (versions.get(version) ?? 0) + 1);
    this.say(members.length, versions, members.filter((member) => odd(member).length).length);
    this.table.set(members);
  }

  say(members, versions, looked) {
    this.usual = [...versions].sort((a, b) => b[1] - a[1])[0]?.[0];
    const others = versions.size > 1 ? `, ${versions.size} versions` : "";
    text($("members-hint"), `${count(members)} hosts with an agent${others}${looked ? `, ${looked} with problems` : ""}`);
    this.app.badge("members", looked, "bad");
  }
}
