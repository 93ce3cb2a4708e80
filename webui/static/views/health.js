// The state of the leader and the age of the data: the header's line, the banner, and a page that fades when its data are old.

import { $, h, s, text } from "../lib/dom.js";
import { count, ms, percent } from "../lib/format.js";
import { unread } from "../feed.js";

const OLD_MS = 1500;
const POLLED_MS = 4000;
const SHAPES = {
  good: "M5 0a5 5 0 1 1 0 10A5 5 0 0 1 5 0z",
  warn: "M5 0l5 9.4H0z",
  bad: "M0 2 2 0l3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z",
};

/** The symbol of a state: circle, triangle or cross, so that it does not depend on colour alone. */
export function mark(kind) {
  return s("svg", { class: `dot ${kind}`, viewBox: "0 0 10 10", "aria-hidden": "true" }, s("path", { d: SHAPES[kind] }));
}

export class Health {
  constructor(app) {
    this.feed = app.feed;
    this.aliveAt = null;
    this.shown = "";
    this.banner = "";
    this.feed.on("state", () => this.look());
    this.feed.on("link", () => this.look());
    setInterval(() => this.look(), 250);
  }

  look() {
    const feed = this.feed;
    const leader = feed.last.state?.coordinator;
    const now = performance.now();
    const polled = feed.polledAt !== null && now - feed.polledAt < POLLED_MS;
    const old = !feed.connected || feed.silentMs() > OLD_MS || (feed.stateAt !== null && now - feed.stateAt > OLD_MS);
    if (!old && leader?.alive) this.aliveAt = now;
    this.header(leader, old);
    this.say(...this.trouble(leader, old, now));
    document.documentElement.classList.toggle("stale", old && !polled && feed.stateAt !== null);
  }

  /** The banner's kind, title and remedy, and for how many milliseconds it is so, if known; empty if there is no trouble. */
  trouble(leader, old, now) {
    const feed = this.feed;
    if (old && feed.ended) return ["bad", "Your login has ended: the page shows old data.", "Reload the page, and log in."];
    if (feed.connected && feed.silentMs() <= OLD_MS && unread(feed.last.state)) {
      const why = feed.last.state.problem;
      return ["bad", `The store can't be read: ${why.error}.`, `${why.remedy}. Coordination continues from memory; the page shows what was known before.`];
    }
    if (old && feed.stateAt === null) {
      return feed.silentMs() > OLD_MS ? ["bad", "The dashboard's server has not answered yet.", "The page keeps trying. Make sure that `baton web` runs."] : [];
    }
    if (old && feed.polledAt !== null && now - feed.polledAt < POLLED_MS) {
      return ["warn", "No live stream: the page asks for the state every two seconds, and shows no new slots and events.",
        "The server has no place for another dashboard: log in, or close one."];
    }
    if (old) {
      return ["bad", "No news: the page shows old data.",
        "The dashboard's server does not answer; the page keeps trying. Coordination does not depend on it.", Math.max(feed.silentMs(), now - feed.stateAt)];
    }
    if (leader && !leader.alive) {
      return ["bad", "No leader: every gate is open, hosts send freely.",
        "The supervisor starts another coordinator; if none comes, see `baton status` and coordinator.log.", this.aliveAt === null ? null : now - this.aliveAt];
    }
    const problem = feed.last.state?.problem;
    if (problem) return ["warn", `${problem.error[0].toUpperCase()}${problem.error.slice(1)}.`, `${problem.remedy}.`];
    if (leader?.override === "free") {
      return ["warn", "Override: free. Every gate is open and no host waits.", "To coordinate again, use Controls or `baton coordinate`."];
    }
    const [first, ...more] = leader?.warnings ?? [];
    if (first) return ["warn", `${first}.`, more.length ? `There are ${more.length} more: see \`baton status\`.` : ""];
    return [];
  }

  say(kind, title, remedy, since = null) {
    const banner = $("banner");
    const [alert, seconds] = banner.children; // the seconds are no part of the alert, which would be read out again each second
    text(seconds, since === null ? "" : `for ${Math.max(1, Math.round(since / 1000))} s`);
    const written = kind ? `${kind}${title}` : "";
    if (written === this.banner) return;
    this.banner = written;
    banner.hidden = !kind;
    banner.className = kind ?? "";
    const code = (remedy ?? "").split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
    if (kind) alert.replaceChildren(mark(kind), h("span", {}, h("strong", {}, title), " ", ...code));
  }

  header(leader, old) {
    const parts = leader ? this.leading(leader) : [["warn", "waiting for the first data"]];
    if (leader && old) parts[0] = ["bad", "no news"];
    const written = JSON.stringify(parts);
    if (written === this.shown) return;
    this.shown = written;
    const [[kind, state], ...rest] = parts;
    $("facts").replaceChildren(
      h("span", { class: `state ${kind}` }, mark(kind), state),
      ...rest.map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value))),
    );
    text(document.querySelector("title"), `${kind === "good" ? "" : `${state} – `}Baton`);
  }

  leading(leader) {
    if (!leader.alive) return [["bad", "no leader"]];
    const free = leader.override === "free";
    const facts = [
      free ? ["warn", "free"] : ["good", "coordinating"],
      ["leader", leader.leader || "–"],
      ["epoch", leader.epoch],
      ["policy", leader.policy],
      ["slice", ms(leader.slice_ns / 1e6)],
    ];
    if (leader.slot_slices > 1) facts.push(["slots last", ms(leader.slot_slices * leader.slice_ns / 1e6)]);
    if (leader.slots) facts.push(["slots", count(leader.slots)], ["late", percent(leader.late_slots / leader.slots)]);
    return facts;
  }
}
