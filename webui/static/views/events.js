// Events by severity, and the changes that users made.

import { $, attribute, empty, h, text } from "../lib/dom.js";
import { count, when } from "../lib/format.js";
import { mark } from "./health.js";

const KEPT = 1000;
const LISTED = 200;
const ASKED = 100; // changes by users that the server tells at once
const FEW = 6;
const LEVELS = ["debug", "info", "warning", "error"];
const KIND = { debug: "dim", info: "good", warning: "warn", error: "bad" };

export class EventsView {
  constructor(app) {
    this.app = app;
    this.list = $("events");
    this.events = new Map();
    this.audit = new Map();
    this.least = "info";
    this.query = "";
    this.unseen = { warning: 0, error: 0 };
    this.waiting = false;
    this.asked = false;
    this.chips = LEVELS.map((level) => h("button", { class: "small", "aria-pressed": level === this.least, onclick: () => this.atLeast(level) }, level === "debug" ? "all" : `${level}${level === "error" ? "" : " +"}`));
    $("events-severity").append(...this.chips);
    $("events-filter").addEventListener("input", ({ target }) => {
      this.query = target.value.toLowerCase();
      this.draw();
    });
    app.feed.on("event", (event) => this.take(this.events, event));
    app.feed.on("audit", (event) => this.take(this.audit, event));
    app.onShow((view) => {
      if (view === "events") this.unseen = { warning: 0, error: 0 };
      if (view === "events" || view === "controls") this.older();
      this.draw();
    });
  }

  /** Fetches older events than the stream sends at its start. */
  async older() {
    if (this.asked) return;
    this.asked = true;
    for (const [path, into] of [["/api/events?count=1000", this.events], ["/api/audit", this.audit]]) {
      try {
        const answer = await fetch(path);
        if (answer.ok) older(await answer.json(), into);
        else this.asked = false;
      } catch {
        this.asked = false; // new events still come by the stream; the banner says that the server does not answer
      }
    }
    this.soon();
  }

  take(into, event) {
    if (into.has(event.id)) return;
    into.set(event.id, event);
    while (into.size > KEPT) into.delete(into.keys().next().value);
    if (into === this.events && event.severity in this.unseen && document.body.dataset.view !== "events") this.unseen[event.severity] += 1;
    this.soon();
  }

  /** Many events at once are drawn once. */
  soon() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => {
      this.waiting = false;
      this.draw();
    }, 60);
  }

  atLeast(level) {
    this.least = level;
    this.chips.forEach((chip, i) => attribute(chip, "aria-pressed", LEVELS[i] === level));
    this.draw();
  }

  draw() {
    const { error, warning } = this.unseen;
    this.app.badge("events", error || warning, error ? "bad" : "warn");
    const few = document.body.dataset.view === "overview";
    const least = LEVELS.indexOf(this.least);
    // users' changes have a list of their own; the overview's few lines are for other events
    const chosen = sorted(this.events).filter((event) => !(few && event.kind === "audit") && LEVELS.indexOf(event.severity) >= least && (!this.query || `${event.kind ?? ""} ${event.text}`.toLowerCase().includes(this.query)));
    this.fill(this.list, chosen.slice(0, few ? FEW : LISTED), this.events.size ? ["No such event", "Choose a lower severity, or clear the search."] : ["No events", "Events of hosts, switches and operators appear here."]);
    text($("events-hint"), !few && chosen.length > LISTED ? `the latest ${LISTED} of ${count(chosen.length)}; search for older ones` : "");
    text($("audit-hint"), this.audit.size >= ASKED ? `the latest ${count(Math.min(LISTED, this.audit.size))}; /api/audit?count=1000 tells older ones` : "");
    this.fill($("audit"), sorted(this.audit).slice(0, LISTED), ["No changes yet", "Every login and every change appears here with its user."]);
  }

  fill(list, events, nothing) {
    const key = events.length ? events.map((event) => event.id).join() : nothing[0];
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    if (!events.length) list.replaceChildren(h("li", { class: "none" }, empty(...nothing)));
    else list.replaceChildren(...events.map((event) => this.line(event)));
  }

  line(event) {
    const level = KIND[event.severity] ?? "dim";
    const shape = mark(level === "dim" ? "good" : level);
    if (level === "dim") attribute(shape, "class", "dot dim");
    const kind = h("span", { class: "kind" });
    text(kind, event.who ?? (event.kind ?? "").replaceAll("_", " "));
    const said = event.who && event.text.startsWith(`${event.who}: `) ? event.text.slice(event.who.length + 2) : event.text;
    return h("li", { class: event.severity }, h("time", { datetime: new Date(event.time_ms).toISOString() }, when(event.time_ms)), shape,
      h("span", { class: "sr" }, event.severity), kind, h("span", { class: "said" }, said));
  }
}

/** Adds older events before those that are known: `take` drops the first ones. */
function older(found, into) {
  const later = [...into];
  into.clear();
  for (const event of found) into.set(event.id, event);
  for (const [id, event] of later) into.set(id, event);
}

const sorted = (events) => [...events.values()].reverse().sort((a, b) => b.time_ms - a.time_ms);
