// The V2V flows: for each pair of hosts the rate, the backlog, the waiting time, and whether it needs permission.

import { $, attribute, text } from "../lib/dom.js";
import { bytes, count, ms, parseSize, rate } from "../lib/format.js";
import { TablePager } from "../lib/pager.js";
import { barred, named, VirtualTable } from "../lib/table.js";

const WORDS = { regulated: (flow) => flow.regulated, free: (flow) => !flow.regulated, waiting: (flow) => flow.backlog_bytes > 0 };
const SIZE = /^>=?\d+(?:\.\d+)?[kmgt]?$/;
// to a name, which may begin with a digit: what follows is no size
const ARROW = /\s*(?:->|→|>)\s*(?![\s>=]|\d+(?:\.\d+)?[kmgt]?(?:\s|$))/g;

/** A filter's test: words (all must hold): regulated, free, waiting, >10M (rate), h1, h1>h6 (or h1 > h6), >h6. */
export function flowTest(query) {
  const terms = query.toLowerCase().replace(ARROW, ">").split(/\s+/).filter(Boolean);
  const tests = terms.map((term) => {
    if (WORDS[term]) return WORDS[term];
    const least = SIZE.test(term) ? parseSize(term.replace(/^>=?/, "")) : null;
    if (least !== null) return term[1] === "=" ? (flow) => flow.rate_bps >= least : (flow) => flow.rate_bps > least;
    if (!term.includes(">")) return (flow) => flow.source.toLowerCase().includes(term) || flow.destination.toLowerCase().includes(term);
    const [from, to] = term.split(">");
    const is = (name, wanted) => !wanted || name.toLowerCase() === wanted;
    return (flow) => is(flow.source, from) && is(flow.destination, to);
  });
  return (flow) => tests.every((test) => test(flow));
}

export class FlowsView {
  constructor(element, app) {
    this.feed = app.feed;
    this.table = new VirtualTable(element, {
      label: "V2V flows", sort: "rate",
      nothing: () => ["No V2V flow is large enough to be listed", "Flows below the mice allowance never wait and are not reported. Start traffic, or make sure that agents are members."],
      columns: [
        { key: "source", title: "from", wide: "minmax(42px, 1fr)", value: (f) => f.source, write: (c, f) => named(c, f.source) },
        { key: "destination", title: "to", wide: "minmax(42px, 1fr)", value: (f) => f.destination, write: (c, f) => named(c, f.destination) },
        { key: "rate", title: "rate", kind: "num", wide: "minmax(78px, 1.3fr)", value: (f) => f.rate_bps, write: (c, f, most) => barred(c, rate(f.rate_bps), most && f.rate_bps / most) },
        { key: "backlog", title: "backlog", kind: "num", wide: "minmax(70px, 1.3fr)", value: (f) => f.backlog_bytes, write: (c, f, most) => barred(c, bytes(f.backlog_bytes), most && f.backlog_bytes / most) },
        { key: "waiting", title: "waits", hint: "How long the flow waits for a slot, smoothed", kind: "num", narrow: false, wide: "minmax(70px, .8fr)", value: (f) => f.waiting_ms ?? 0, write: (c, f) => text(c, f.waiting_ms ? ms(f.waiting_ms) : "–") },
        { key: "weight", title: "weight", hint: "Slices are so many times as long", kind: "num", narrow: false, wide: "minmax(58px, .6fr)", value: (f) => f.weight ?? 1, write: (c, f) => text(c, f.weight ?? 1) },
        {
          key: "gate", title: "gate", hint: "Free flows never wait; regulated ones need permission", wide: "minmax(80px, .9fr)", value: (f) => (f.regulated ? "regulated" : "free"),
          write: (c, f) => {
            text(c, f.regulated ? "◆ regulated" : "○ free");
            attribute(c, "class", `td text gate ${f.regulated ? "warn" : "dim"}`);
          },
        },
      ],
      picked: (flow) => {
        app.show("fabric");
        app.select(flow.source);
      },
    });
    this.pager = new TablePager(element, this.table, { path: "/api/flows", what: "flows" });
    $("flows-filter").addEventListener("input", ({ target }) => {
      if (this.feed.last.state?.large) return this.pager.search(target.value);
      return this.table.filter(flowTest(target.value)) ?? this.say();
    });
    this.feed.on("state", (state) => this.state(state));
    app.onShow(() => this.feed.last.state && this.state(this.feed.last.state));
  }

  state(state) {
    this.pager.use(Boolean(state.large));
    if (state.large) {
      text($("flows-hint"), `${count(state.totals.flows)} flows, ${rate(state.totals.rate_bps)}`);
      return;
    }
    this.table.set(state.flows);
    this.say();
  }

  say() {
    const { rows, all } = this.table;
    const total = rows.reduce((sum, flow) => sum + flow.rate_bps, 0);
    text($("flows-hint"), `${rows.length === all.length ? count(all.length) : `${count(rows.length)} of ${count(all.length)}`} flows, ${rate(total)}`);
  }
}
