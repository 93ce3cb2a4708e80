// Draws a large fabric as groups: a band of tiles for each tier, from the highest down. A tile opens what is below its switch; its
// two bars show the load of the link to the tier above, up and down, and a closed group shows what is contended or wrong inside.

import { $, afterPress, attribute, empty, h, text, visible } from "../lib/dom.js";
import { count, natural, percent } from "../lib/format.js";
import { loadColour, loadGradient } from "../lib/scale.js";
import { onTheme } from "../lib/appearance.js";
import { Finder } from "./finder.js";

const MANY = 60;

export class GroupsView {
  /** `chosen(id or null)` is called with a switch's or a host's name when it is selected. */
  constructor(element, app, chosen) {
    Object.assign(this, { element, chosen, feed: app.feed, app, open: [], hosts: new Map(), whole: new Set(), tiles: new Map(), selected: null, groups: null });
    this.drawSoon = afterPress(element, () => this.groups && this.draw());
    new Finder($("finder"), (id) => this.select(id));
    app.feed.on("fabric", (fabric) => this.show(fabric));
    app.feed.on("state", () => this.refresh());
    app.onShow(() => this.refresh());
    onTheme(() => this.groups && (this.legend(), this.paint()));
    element.addEventListener("keydown", (event) => this.key(event));
  }

  show({ groups, counts }) {
    this.element.hidden = $("finder").hidden = !groups;
    this.groups = groups ? new Map(groups.map((group) => [group.id, group])) : null;
    if (!groups) return;
    this.below = new Map();
    for (const group of groups) this.below.set(group.above, [...(this.below.get(group.above) ?? []), group]);
    this.open = this.open.filter((id) => this.groups.has(id));
    text($("fabric-hint"), `${count(counts.switches)} switches, ${count(counts.hosts)} hosts, ${count(counts.links)} links${counts.blocked ? `, ${count(counts.blocked)} blocked` : ""}`);
    this.legend();
    this.drawSoon();
  }

  /** The bands: [title, tiles], from the highest tier down. */
  bands() {
    const tops = (this.below.get("") ?? []).slice().sort((a, b) => natural(a.id, b.id));
    const next = tops.flatMap((top) => this.below.get(top.id) ?? []).sort((a, b) => natural(a.id, b.id));
    const found = [["Highest tier", tops]];
    if (next.length) found.push([`Below ${tops.length > 1 ? `these ${tops.length}` : tops[0].id}: ${count(next.length)} groups`, next]);
    for (const id of this.open) {
      const below = this.groups.get(id).above === "" ? [] : this.below.get(id) ?? [];
      if (below.length) found.push([`Below ${id}: ${count(below.length)} groups`, below]);
      if (this.hosts.has(id)) found.push([`Hosts at ${id}: ${count(this.hosts.get(id).length)}`, this.hosts.get(id)]);
    }
    return found;
  }

  draw() {
    const focus = document.activeElement?.dataset?.id;
    this.tiles.clear();
    this.element.replaceChildren(...this.bands().map(([title, list]) => this.band(title, list)));
    this.paint();
    if (focus && this.tiles.has(focus)) this.tiles.get(focus).element.focus({ preventScroll: true });
  }

  band(title, list) {
    if (!list.length) return h("div", {}, empty("No switches yet", "Switches appear when they have connected to the controller."));
    const all = list.length <= MANY || this.whole.has(title);
    const shown = all ? list : [...list].sort((a, b) => this.most(b.id) - this.most(a.id)).slice(0, MANY);
    const more = list.length <= MANY ? null : h("p", { class: "dim" }, all ? `All ${count(list.length)}, by name. ` : `Showing ${MANY} of ${count(list.length)}, those with the highest load. `,
      h("button", { class: "small", onclick: () => (all ? this.whole.delete(title) : this.whole.add(title), this.draw()) }, all ? "Show the busiest" : `Show all ${count(list.length)}`));
    return h("section", { class: "band", role: "group", "aria-label": title }, h("h3", {}, title), more,
      h("div", { class: "band-tiles" }, ...shown.map((one) => this.tile(one))));
  }

  most(id) {
    return this.feed.last.state?.groups?.[id]?.most ?? 0;
  }

  tile(one) {
    const group = this.groups.get(one.id);
    const opens = group && (group.own > 0 || (group.above !== "" && this.below.has(one.id)));
    const bars = h("span", { class: "bars", "aria-hidden": "true" }, h("i", {}), h("i", {}));
    const made = { one, group, bars: [...bars.children], marks: h("span", { class: "marks", "aria-hidden": "true" }), says: "" };
    made.element = h("button", { class: `gtile ${group ? "switch" : "host"}`, "data-id": one.id, "aria-expanded": opens ? this.open.includes(one.id) : null, onclick: () => this.pick(one.id, opens) },
      h("span", { class: "gname" }, one.id), made.marks, h("span", { class: "holds" }, group ? `${count(group.hosts)} host${group.hosts === 1 ? "" : "s"}` : ""), bars);
    this.tiles.set(one.id, made);
    return made.element;
  }

  /** Writes loads and marks into the tiles. */
  paint() {
    const state = this.feed.last.state;
    if (!this.groups || !state?.groups) return;
    for (const [id, made] of this.tiles) {
      const { group, element } = made;
      const told = group ? state.groups[id] : made.one;
      if (!told) continue;
      [told.up, told.down].forEach((load, i) => {
        const bar = made.bars[i];
        const step = Math.round(Math.min(load, 1) * 50);
        if (bar.dataset.step === String(step)) return;
        bar.dataset.step = String(step);
        bar.style.setProperty("--load", `${2 * step}%`);
        bar.style.setProperty("--colour", loadColour(step / 50));
      });
      const marks = [told.contended ? `▲${told.contended > 999 ? "999+" : told.contended}` : "", told.odd ? `●${told.odd}` : ""].filter(Boolean).join(" ");
      if (made.marks.dataset.of !== marks) {
        made.marks.dataset.of = marks;
        made.marks.replaceChildren(told.contended ? h("b", { class: "hot" }, `▲${told.contended > 999 ? "999+" : told.contended}`) : "", told.odd ? h("b", { class: "bad" }, `●${told.odd}`) : "");
      }
      element.classList.toggle("stranger", told.member === false);
      element.classList.toggle("selected", id === this.selected);
      const says = `${group ? "switch" : told.member === false ? "host without an agent" : "host"} ${id}${group ? `, ${holds(group)}` : ""}${group?.above === "" ? "" : `, sends up ${percent(told.up)}, receives ${percent(told.down)}`}${told.contended ? `, ${told.contended} contended directions` : ""}${told.odd ? `, ${told.odd} ${group ? "hosts with problems" : "problems"}` : ""}`;
      if (made.says !== says) {
        made.says = says;
        attribute(element, "aria-label", says);
        attribute(element, "title", says);
      }
      if (element.hasAttribute("aria-expanded")) attribute(element, "aria-expanded", this.open.includes(id));
    }
  }

  async refresh() {
    if (!this.groups || !visible(this.element)) return;
    this.paint();
    await Promise.all(this.open.filter((id) => this.groups.get(id)?.own).map((id) => this.fetch(id)));
  }

  /** Fetches the hosts at a switch, with their loads. */
  async fetch(id) {
    try {
      const answer = await fetch(`/api/node/${encodeURIComponent(id)}`);
      if (!answer.ok || !this.open.includes(id)) return;
      const hosts = (await answer.json()).hosts.sort((a, b) => natural(a.id, b.id));
      const same = this.hosts.get(id)?.length === hosts.length && hosts.every((host, i) => host.id === this.hosts.get(id)[i].id);
      this.hosts.set(id, hosts);
      for (const host of hosts) if (this.tiles.has(host.id)) this.tiles.get(host.id).one = host;
      if (same) this.paint();
      else {
        this.drawSoon();
        this.seen();
      }
    } catch {
      // the banner says that the server does not answer; the next state asks again
    }
  }

  // -- acting ------------------------------------------------------------------------------------------------------

  /** Opens or closes a group, and shows the details of its switch, or of a host. */
  pick(id, opens) {
    if (opens) {
      const was = this.open.includes(id);
      const way = this.way(id);
      this.open = was ? way.slice(0, -1) : way;
      this.reopened();
      if (!was) this.seen();
    }
    this.mark(id);
  }

  /** The groups on the way to one, without those of the highest tier that hold no hosts of their own; it is the last. */
  way(id) {
    const found = [];
    for (let at = id; at; at = this.groups.get(at)?.above) if (this.groups.get(at).above !== "" || at === id) found.unshift(at);
    return found;
  }

  reopened() {
    for (const id of this.hosts.keys()) if (!this.open.includes(id)) this.hosts.delete(id);
    this.draw();
    this.refresh();
  }

  /** Scrolls to the band that was opened last, within the picture. */
  seen() {
    const last = this.element.lastElementChild;
    const below = last.offsetTop + last.offsetHeight - this.element.offsetTop - this.element.clientHeight + 8;
    if (below > this.element.scrollTop) this.element.scrollTop = Math.min(below, last.offsetTop - this.element.offsetTop - 90);
  }

  mark(id) {
    this.selected = id;
    this.paint();
    this.chosen(id);
  }

  /** Shows a host, a switch or a link by name: opens the groups that hold it. null clears the selection. */
  async select(id) {
    if (id === null || id === undefined) return this.mark(null);
    try {
      const answer = await fetch(`/api/node/${encodeURIComponent(id)}`);
      if (!answer.ok) return undefined;
      const found = await answer.json();
      const at = found.way.at(-1);
      const last = found.kind === "host" ? at : this.groups.get(id)?.above;
      if (last) this.open = this.way(last).filter((one) => this.groups.get(one).above !== "" || this.groups.get(one).own);
      for (const open of this.open) if (open === found.id && found.hosts) this.hosts.set(open, found.hosts);
      this.reopened();
      if (found.kind === "host") await this.fetch(at);
      this.mark(id);
      this.tiles.get(id)?.element.scrollIntoView({ block: "nearest" });
    } catch {
      // the banner says that the server does not answer
    }
    return undefined;
  }

  /** Closes all groups. */
  fit() {
    if (!this.groups) return;
    this.open = [];
    this.reopened();
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const from = event.target.closest(".gtile")?.getBoundingClientRect();
    if (!step || !from) return;
    event.preventDefault();
    const [sx, sy] = step;
    let [best, least] = [null, Infinity];
    for (const { element } of this.tiles.values()) {
      const to = element.getBoundingClientRect();
      const along = (to.left - from.left) * sx + (to.top - from.top) * sy;
      const aside = Math.abs((to.left - from.left) * sy) + Math.abs((to.top - from.top) * sx);
      if (along > 4 && along + 3 * aside < least) [best, least] = [element, along + 3 * aside];
    }
    best?.focus();
  }

  legend() {
    const ramp = h("span", { class: "ramp" });
    ramp.style.background = loadGradient();
    const bars = h("span", { class: "key-bars" }, h("i", {}), h("i", {}));
    $("fabric-legend").replaceChildren(
      h("span", {}, "load 0 ", ramp, " 100 %"),
      h("span", {}, bars, "link to the tier above: sent up, received"),
      h("span", {}, h("b", { class: "hot" }, "▲3"), "contended directions"),
      h("span", {}, h("b", { class: "bad" }, "●2"), "hosts with problems"),
      h("span", {}, h("i", { class: "key-dashed" }), "host without an agent"),
    );
  }
}

const holds = ({ hosts, switches }) => (switches > 1 ? `${count(hosts)} hosts, ${switches - 1} below` : `${count(hosts)} hosts`);
