// The settings that an operator may change. Each control shows the value in force and the effect of a change; opening every
// gate needs a confirmation.

import { $, attribute, h, text, visible } from "../lib/dom.js";
import { bytes, clock, count, ms, percent } from "../lib/format.js";
import { totalsOf } from "../lib/totals.js";
import { control, user } from "./account.js";

const POLICIES = { auto: "turns or rates for each contended link, by what is measured there", timeslice: "hosts take turns, one slice each", hybrid: "slices; a fast host also gets the bottleneck's unused capacity", steps: "slices that begin together: for thousands of hosts", rate_limit: "all hosts at once, each with its share", weekly: "announced ahead, in the days of a week", free: "no host waits: the baseline" };
const SHOWN_MS = 60_000;
const NAMED = 4;

/** The figures that show the effect of a change. */
function figures(state) {
  const loads = Object.values(state.links).map((link) => link.load);
  const totals = totalsOf(state);
  return {
    "busiest link": percent(Math.max(0, ...loads)),
    backlog: bytes(totals.backlog_bytes),
    regulated: count(totals.regulated),
    "longest wait": ms(totals.waiting_ms),
  };
}

export class Controls {
  constructor(element, app) {
    this.element = element;
    this.app = app;
    this.feed = app.feed;
    this.touched = new Set();
    this.cards = {};
    const off = user ? null : true;
    this.policy = h("select", { id: "policy", disabled: off, onchange: () => this.touched.add("policy") }, ...Object.keys(POLICIES).map((name) => h("option", { value: name }, name.replace("_", " "))));
    this.slice = h("input", { id: "slice", type: "number", min: 0.2, max: 1000, step: 0.1, disabled: off, oninput: () => this.touched.add("slice") });
    this.source = h("input", { id: "weight-source", list: "hosts", placeholder: "h1", "aria-label": "Source", disabled: off, autocomplete: "off" });
    this.destination = h("input", { id: "weight-destination", list: "hosts", placeholder: "all", "aria-label": "Destination", disabled: off, autocomplete: "off" });
    this.weight = h("input", { id: "weight", type: "number", min: element.dataset.leastWeight, max: element.dataset.mostWeight, step: "any", value: 2, "aria-label": "Weight", disabled: off });
    this.hosts = h("datalist", { id: "hosts" });
    this.weights = h("ul", { class: "weights" });
    this.choices = h("ul", { class: "choices" });
    this.override = h("button", { class: "danger", id: "override", disabled: off, onclick: () => this.ask() }, "Open every gate…");
    const apply = (card, make) => h("button", { class: "primary", disabled: off, onclick: () => this.act(card, make()) }, "Apply");
    element.append(
      user ? "" : h("p", { class: "note warn login-first" }, "You may only look. ", h("a", { href: "/login?next=/%23controls" }, "Log in"), " to change settings."),
      h("div", { class: "cards" },
        this.card("override", "Coordination", "The global override: with every gate open, each host sends as if there were no Baton.", h("div", { class: "set" }, this.override)),
        this.card("policy", "Policy", "Decides which host may send while links are contended.", h("div", { class: "set" }, this.policy, apply("policy", () => ({ action: "policy", policy: this.policy.value }))), this.choices),
        this.card("slice", "Timeslice", "How long one permission lasts. Longer slices come closer to line rate, shorter ones reduce waiting.",
          h("div", { class: "set" }, h("span", { class: "unit" }, this.slice, "ms"), apply("slice", () => ({ action: "slice", slice_ns: Math.round(this.slice.value * 1e6) })))),
        this.card("weight", "Weights", "A factor for the length of a host's slices; 1 removes a weight.",
          h("div", { class: "set" }, h("span", { class: "pair" }, this.source, "→", this.destination, "×", this.weight), this.hosts,
            apply("weight", () => ({ action: "weight", source: this.source.value.trim(), destination: this.destination.value.trim(), weight: Number(this.weight.value) }))), this.weights)),
    );
    this.dialog = $("confirm");
    this.feed.on("state", (state) => this.state(state));
    this.feed.on("fabric", () => this.list());
    app.onShow(() => this.list());
    app.onShow((view) => view === "controls" && this.offered());
  }

  /** Lists the hosts to choose from, once the view is open. */
  list() {
    const { fabric } = this.feed.last;
    if (!fabric || fabric === this.listed || !visible(this.element)) return;
    this.listed = fabric;
    this.hosts.replaceChildren(...fabric.nodes.filter((node) => node.kind === "host").map((node) => h("option", { value: node.id })));
  }

  /** Offers the coordinator's own list of policies, if the server knows it. */
  async offered() {
    if (this.asked) return;
    this.asked = true;
    try {
      const answer = await fetch("/v1.0/policy");
      if (!answer.ok) return;
      const { policies } = await answer.json();
      const chosen = this.policy.value;
      this.policy.replaceChildren(...policies.map((name) => h("option", { value: name }, name.replace("_", " "))));
      this.policy.value = policies.includes(chosen) ? chosen : policies[0];
    } catch {
      // keep the built-in list
    }
  }

  card(name, title, says, ...inside) {
    const now = h("p", { class: "now" }, "–");
    const done = h("p", { class: "done", role: "status" });
    const effect = h("dl", { class: "effect", hidden: true });
    this.cards[name] = { now, done, effect, since: null };
    return h("section", { class: "card", id: `card-${name}` }, h("h3", {}, title), now, h("p", { class: "dim says" }, says), ...inside, done, effect);
  }

  state(state) {
    const told = state.coordinator;
    const free = told.override === "free";
    text(this.cards.override.now, !told.alive ? "no leader: every gate is open" : free ? "free: every gate is open" : "coordinating");
    attribute(this.cards.override.now, "class", `now ${told.alive && !free ? "good" : "warn"}`);
    text(this.override, free ? "Coordinate again" : "Open every gate…");
    attribute(this.override, "class", free ? "primary" : "danger");
    text(this.cards.policy.now, told.policy ? `${told.policy.replace("_", " ")}: ${POLICIES[told.policy] ?? "in force"}` : "not known");
    this.chosen(told.choices ?? []);
    const slice = told.slice_ns ? ms(told.slice_ns / 1e6) : "not known";
    text(this.cards.slice.now, told.slot_slices > 1 ? `${slice}; slots last ${ms(told.slot_slices * told.slice_ns / 1e6)}, since there are too many` : slice);
    const weights = told.weights ?? [];
    text(this.cards.weight.now, weights.length ? `${weights.length} set` : "all equal");
    const lines = weights.map(([from, to, weight]) => `${from} → ${to || "all"} × ${weight}`);
    if (this.weights.dataset.of !== lines.join()) {
      this.weights.dataset.of = lines.join();
      this.weights.replaceChildren(...weights.map(([from, to], i) => h("li", { class: "tag" }, lines[i],
        user ? h("button", { "aria-label": `Remove ${lines[i]}`, onclick: () => this.act("weight", { action: "weight", source: from, destination: to, weight: 1 }) }, "×") : null)));
    }
    if (!this.touched.has("policy") && told.policy) this.policy.value = told.policy;
    if (!this.touched.has("slice") && told.slice_ns) this.slice.value = told.slice_ns / 1e6;
    for (const card of Object.values(this.cards)) this.effect(card, state);
  }

  /** What the policy `auto` chose for contended links, and why: a line for each mode and reason. */
  chosen(choices) {
    const lines = choices.map((one) => {
      const names = one.links.slice(0, one.count > one.links.length ? 2 : NAMED).map((link) => link.join(" → "));
      const more = one.count - names.length;
      if (more) names.push(names.length ? `${count(more)} more` : `${count(more)} links`);
      return `${names.join(", ")}: ${one.mode || "turns or rates"}; ${one.why}`;
    });
    if (this.choices.dataset.of === lines.join("\n")) return;
    this.choices.dataset.of = lines.join("\n");
    this.choices.replaceChildren(...lines.map((line) => h("li", {}, line)));
  }

  ask() {
    const free = this.feed.last.state?.coordinator.override === "free";
    if (free) return this.act("override", { action: "override", override: "coordinate" });
    const state = this.feed.last.state;
    const contended = state ? totalsOf(state).contended : 0;
    this.dialog.replaceChildren(
      h("h2", { id: "confirm-title" }, "Open every gate?"),
      h("p", {}, `Every host sends freely at once, and no host is coordinated until you choose “Coordinate again”. ${contended ? `${contended} contended link${contended > 1 ? "s" : ""} may drop packets.` : "No link is contended now."}`),
      h("form", { method: "dialog", class: "actions" }, h("button", { value: "no", autofocus: true }, "Cancel"),
        h("button", { class: "danger", value: "yes", id: "confirm-yes" }, "Open every gate")),
    );
    this.dialog.onclose = () => this.dialog.returnValue === "yes" && this.act("override", { action: "override", override: "free" });
    this.dialog.returnValue = "";
    this.dialog.showModal();
    return undefined;
  }

  async act(name, body) {
    const card = this.cards[name];
    const began = performance.now();
    const before = this.feed.last.state ? figures(this.feed.last.state) : null;
    text(card.done, "sent…");
    attribute(card.done, "class", "done dim");
    const { ok, taken, message } = await control(body);
    const took = ms(performance.now() - began);
    text(card.done, `${ok ? (taken ? "✓" : "▲") : "✕"} ${message}${ok && taken ? `, after ${took}` : ""}`);
    attribute(card.done, "class", `done ${ok ? (taken ? "good" : "warn") : "bad"}`);
    this.touched.delete(name);
    card.since = ok && before ? { before, at: Date.now() } : null;
    card.effect.hidden = !card.since;
  }

  /** Shows, for a minute after a change, the figures before it and now. */
  effect(card, state) {
    if (!card.since) return;
    if (Date.now() - card.since.at > SHOWN_MS) {
      card.since = null;
      card.effect.hidden = true;
      return;
    }
    const now = figures(state);
    card.effect.replaceChildren(h("dt", { class: "dim" }, `since ${clock(card.since.at)}`), h("dd", { class: "dim" }, "before → now"),
      ...Object.entries(now).flatMap(([title, value]) => [h("dt", {}, title), h("dd", {}, `${card.since.before[title]} → `, h("b", {}, value))]));
  }
}
