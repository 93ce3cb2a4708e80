// Draws the fabric (SVG): two lines for each link, one for each direction, whose colour and width show the load.

import { $, attribute, empty, h, s, text, visible } from "../lib/dom.js";
import { rate, shortener } from "../lib/format.js";
import { layOut } from "./layout.js";
import { loadColour, loadGradient } from "../lib/scale.js";
import { onTheme } from "../lib/appearance.js";
import { PanZoom } from "../lib/panzoom.js";

const LETTER_PX = 8.5;
const NAME_PX = 120;
const SPLIT = 2.6;
const ARROW = "M-8-7 9 0-8 7-4.2 0z";
const SMALL = "M-4.2-3.4H4.2L0 4.6z";

export class FabricView {
  /** `chosen(id or null)` is called with a node's or a link's id when it is selected. */
  constructor(stage, app, chosen) {
    this.stage = stage;
    this.feed = app.feed;
    this.chosen = chosen;
    this.selected = null;
    this.fabric = null;
    this.size = "";
    this.zoom = new PanZoom(stage);
    stage.dataset.arrows = "";
    stage.append(empty("No fabric yet", "Switches appear when they have connected to the controller: see baton status, and make sure that they have its address."));
    app.feed.on("fabric", (fabric) => this.show(fabric));
    app.feed.on("state", (state) => this.load(state));
    new ResizeObserver(() => this.draw()).observe(stage);
    onTheme(() => this.recolour());
    stage.addEventListener("click", (event) => this.pick(event));
    stage.addEventListener("keydown", (event) => this.key(event));
    for (const [id, by] of [["fabric-in", 1.4], ["fabric-out", 1 / 1.4]]) $(id).addEventListener("click", () => this.zoom.by(by));
    $("fabric-fit").addEventListener("click", () => this.fit());
  }

  fit() {
    this.zoom.reset();
  }

  show(fabric) {
    this.stage.hidden = Boolean(fabric.groups);
    $("fabric-zoom").hidden = Boolean(fabric.groups);
    this.fabric = fabric;
    this.size = "";
    if (fabric.groups) return; // fabric/groups.js draws a large fabric
    this.legend();
    this.draw();
    const of = (kind) => fabric.nodes.filter((node) => node.kind === kind).length;
    const blocked = fabric.links.filter((link) => !link.tree).length;
    text($("fabric-hint"), `${of("switch")} switches, ${of("host")} hosts, ${fabric.links.length} links${blocked ? `, ${blocked} blocked` : ""}`);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!this.fabric?.nodes.length || !width || !height || this.size === `${width}x${height}`) return;
    this.size = `${width}x${height}`;
    const plan = layOut(this.fabric, width, height);
    this.places = plan.places;
    if (this.packed !== plan.packed) {
      this.packed = plan.packed;
      this.legend();
    }
    this.lanes = new Map();
    this.marks = new Map();
    this.shapes = new Map();
    this.label = this.labels([...plan.places.values()].filter((place) => place.node.kind === "host" && !place.cell));
    const root = s("g", {});
    for (const block of plan.blocks) root.append(this.block(block));
    for (const one of plan.links) root.append(this.link(one));
    for (const place of plan.places.values()) root.append(place.cell ? this.cell(place) : this.node(place));
    const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "The fabric" }, root);
    this.stage.replaceChildren(svg);
    this.zoom.attach(svg, root);
    this.select(this.selected, false);
    if (this.feed.last.state) this.load(this.feed.last.state, true);
  }

  link({ link, a, b }) {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    const [nx, ny] = [(-dy / length) * SPLIT, (dx / length) * SPLIT];
    const group = s("g", { class: `link${link.tree ? "" : " blocked"}`, "data-id": link.id });
    const hit = s("line", { class: "hit", x1: a.x, y1: a.y, x2: b.x, y2: b.y });
    if (!link.tree) {
      group.append(s("line", { class: "off", x1: a.x, y1: a.y, x2: b.x, y2: b.y }), hit);
    } else {
      for (const [from, to, sign] of [[a, b, 1], [b, a, -1]]) {
        const [ox, oy] = [nx * sign, ny * sign];
        const lane = s("line", { class: "lane", x1: from.x + ox, y1: from.y + oy, x2: to.x + ox, y2: to.y + oy });
        group.append(lane);
        this.lanes.set(`${from.node.id}>${to.node.id}`, { shape: lane, kind: "stroke" });
        this.marks.set(`${from.node.id}>${to.node.id}`, { group, at: this.middle(from, to, ox, oy), shape: null });
      }
      group.append(hit);
    }
    group.append(s("title", {}, `${link.a} – ${link.b}, ${rate(link.rate_bps)}${link.tree ? "" : ", blocked by the spanning tree"}`));
    this.shapes.set(link.id, group);
    return group;
  }

  /** The position of a direction's mark (clear of the nodes), and its angle. */
  middle(from, to, ox, oy) {
    const angle = (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI;
    return `translate(${from.x + (to.x - from.x) * 0.6 + ox} ${from.y + (to.y - from.y) * 0.6 + oy}) rotate(${angle})`;
  }

  /** A function that gives the label of a host: its name, so short that it does not touch the next one's. */
  labels(hosts) {
    const short = shortener(hosts.map(({ node }) => node.id));
    return (node) => {
      const at = this.places.get(node.id);
      const room = hosts.reduce((least, { x, y }) => (x !== at.x && Math.abs(y - at.y) < 16 ? Math.min(least, Math.abs(x - at.x)) : least), 2 * NAME_PX);
      return short(node.id, Math.floor((room - 4) / LETTER_PX));
    };
  }

  node({ node, x, y, w, h: tall }) {
    const isHost = node.kind === "host";
    const shape = isHost ? s("circle", { r: 8 }) : s("rect", { x: -w / 2, y: -tall / 2, width: w, height: tall, rx: 5 });
    const group = s("g", { class: `node ${node.kind}`, transform: `translate(${x} ${y})`, "data-id": node.id, tabindex: "-1", role: "button", "aria-label": `${node.kind} ${node.id}` },
      shape, s("text", { "text-anchor": "middle", y: isHost ? 23 : 4.5 }, isHost ? this.label(node) : node.id), s("title", {}, node.id));
    this.shapes.set(node.id, group);
    return group;
  }

  /** Draws a host in a block: the left half shows what it sends, the right half what it receives. */
  cell({ node, x, y, w, h: tall }) {
    const home = this.fabric.links.find((link) => link.a === node.id || link.b === node.id);
    const other = home.a === node.id ? home.b : home.a;
    const group = s("g", { class: "node cell host", transform: `translate(${x - w / 2} ${y - tall / 2})`, "data-id": node.id, tabindex: "-1", role: "button", "aria-label": `host ${node.id}` });
    const half = w / 2;
    for (const [name, at] of [[`${node.id}>${other}`, 0], [`${other}>${node.id}`, half]]) {
      const shape = s("rect", { x: at, width: half - 0.5, height: tall, class: "lane" });
      group.append(shape);
      this.lanes.set(name, { shape, kind: "fill" });
      this.marks.set(name, { group, at: `translate(${at + half / 2} ${tall / 2}) rotate(${at ? 0 : 180})`, shape: null, small: true });
    }
    group.append(s("rect", { class: "frame", width: w, height: tall, rx: 1.5 }), s("title", {}, `${node.id} at ${other}, ${rate(home.rate_bps)}`));
    this.shapes.set(node.id, group);
    return group;
  }

  block({ home, x, y, w, h: tall }) {
    const at = this.places.get(home);
    return s("path", { class: "bracket", d: `M${at.x} ${at.y}V${y - 6}M${x} ${y - 6}H${x + w}` });
  }

  load(state, always = false) {
    if (!this.lanes || this.fabric.groups || (!always && !visible(this.stage))) return;
    for (const [name, lane] of this.lanes) {
      const found = state.links[name];
      const load = Math.min(found?.load ?? 0, 1);
      const step = found ? Math.round(load * 50) : -1;
      if (lane.step !== step) {
        lane.step = step;
        lane.shape.style[lane.kind] = step < 0 ? "" : loadColour(step / 50);
        if (lane.kind === "stroke") lane.shape.style.strokeWidth = String(2 + 2.6 * load);
      }
      this.contend(name, Boolean(found?.contended));
    }
    this.people(state);
  }

  /** Adds an arrow head to a contended direction, or removes it. */
  contend(name, contended) {
    const mark = this.marks.get(name);
    if (contended === Boolean(mark.shape)) return;
    if (contended) {
      mark.shape = s("path", { class: `contended${mark.small ? " small" : ""}`, d: mark.small ? SMALL : ARROW, transform: mark.at });
      mark.group.append(mark.shape);
    } else {
      mark.shape.remove();
      mark.shape = null;
    }
  }

  /** Draws hosts without an agent hollow, and marks hosts with problems. */
  people(state) {
    const members = new Map(state.members.map((member) => [member.name, member]));
    for (const node of this.fabric.nodes) {
      if (node.kind !== "host") continue;
      const member = members.get(node.id);
      const shape = this.shapes.get(node.id);
      shape.classList.toggle("stranger", !member);
      shape.classList.toggle("odd", Boolean(member?.suspect?.length || member?.warnings?.length || member?.drift?.length));
    }
  }

  recolour() {
    for (const lane of this.lanes?.values() ?? []) lane.step = undefined;
    if (this.feed.last.state) this.load(this.feed.last.state, true);
    this.legend();
  }

  legend() {
    if (this.fabric?.groups) return;
    const icon = (...parts) => s("svg", { width: 26, height: 12, viewBox: "0 0 26 12" }, ...parts);
    const ramp = h("span", { class: "ramp" });
    ramp.style.background = loadGradient();
    $("fabric-legend").replaceChildren(
      h("span", {}, "load 0 ", ramp, " 100 %"),
      h("span", {}, icon(s("line", { class: "key-lane", x1: 0, y1: 4, x2: 26, y2: 4 }), s("line", { class: "key-lane", x1: 0, y1: 9, x2: 26, y2: 9 })), "tree link, a line each way"),
      h("span", {}, icon(s("line", { class: "key-off", x1: 0, y1: 6, x2: 26, y2: 6 })), "blocked"),
      h("span", {}, icon(s("path", { class: "contended", d: ARROW, transform: "translate(12 6) scale(.85)" })), "contended, in the arrow's direction"),
      this.packed
        ? h("span", {}, icon(s("rect", { class: "key-cell", x: 4, width: 8, height: 12 }), s("rect", { class: "key-cell", x: 13, width: 8, height: 12 })), "a host: sent, received")
        : h("span", {}, icon(s("circle", { class: "key-member", cx: 6, cy: 6, r: 5 }), s("circle", { class: "key-stranger", cx: 20, cy: 6, r: 4.5 })), "host with, without an agent"),
      h("span", {}, icon(s("circle", { class: "key-odd", cx: 12, cy: 6, r: 4.5 })), "with problems"),
    );
  }

  // -- selection ---------------------------------------------------------------------------------------------------

  pick(event) {
    if (this.zoom.dragged) return;
    this.select(event.target.closest("[data-id]")?.dataset.id ?? null);
  }

  select(id, tell = true) {
    this.shapes?.get(this.selected)?.classList.remove("selected");
    this.selected = id;
    const shape = this.shapes?.get(id);
    shape?.classList.add("selected");
    for (const node of this.stage.querySelectorAll('[tabindex="0"]')) attribute(node, "tabindex", "-1");
    attribute(shape?.classList.contains("node") ? shape : this.stage.querySelector(".node") ?? this.stage, "tabindex", "0");
    if (tell) this.chosen(id);
  }

  key(event) {
    const id = event.target.closest(".node")?.dataset.id;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!id || (!step && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    const next = step ? this.neighbour(this.places.get(id), step) : id;
    if (!next) return;
    this.select(next);
    this.shapes.get(next).focus();
  }

  /** The nearest node in a direction; distance aside of the direction counts three times. */
  neighbour(from, [sx, sy]) {
    let best = null;
    let least = Infinity;
    for (const [id, place] of this.places) {
      const along = (place.x - from.x) * sx + (place.y - from.y) * sy;
      const aside = Math.abs((place.x - from.x) * sy) + Math.abs((place.y - from.y) * sx);
      if (along < 4 || along + 3 * aside >= least) continue;
      least = along + 3 * aside;
      best = id;
    }
    return best;
  }
}

