// The schedule as a timeline: live with a small delay (slots arrive four times a second); the user can pause, zoom and drag it.

import { $, attribute, h, s, text, visible } from "../lib/dom.js";
import { bytes, ms, natural } from "../lib/format.js";
import { Slots } from "./slots.js";
import { AXIS, Painter, STRIP } from "./painter.js";
import { onTheme } from "../lib/appearance.js";
import { Paged } from "./paged.js";

const KEPT_US = 10_000_000;
const BEHIND_US = 450_000;
const PAGED_BEHIND_US = 1_700_000;
const FRAME_MS = 30;
const SHORTEST_US = 4_000;
const ROW = 22;
const TALLEST = 32;

export class Timeline {
  constructor(element, app) {
    this.feed = app.feed;
    this.element = element;
    this.slots = new Slots();
    this.names = new Map();
    this.rows = [];
    this.lengthUs = 200_000;
    this.zoomed = false;
    this.endUs = 0;
    this.aheadUs = null;
    this.paused = false;
    this.fitted = false;
    this.dirty = true;
    this.hovered = null;
    this.paintedAt = 0;
    this.build();
    this.paged = new Paged(element.closest(".panel"), this);
    this.painter = new Painter();
    onTheme(() => {
      this.painter.theme();
      this.legend();
      this.dirty = true;
    });
    this.feed.on("schedule", (schedule) => this.take(schedule));
    this.feed.on("link", (connected) => connected && setTimeout(() => this.mend(), 700));
    this.feed.on("state", (state) => this.state(state));
    new ResizeObserver(() => (this.dirty = true)).observe(this.scroller);
    app.onShow(() => (this.dirty = true));
    this.say();
    requestAnimationFrame((at) => this.frame(at));
  }

  build() {
    this.canvas = h("canvas", { class: "slots" });
    this.strip = h("canvas", { class: "strip", title: "The last 10 s; drag to go back" });
    this.spacer = h("div", { class: "spacer" });
    this.tip = h("div", { class: "tip-box", hidden: true });
    this.none = h("div", { class: "quiet", hidden: true });
    this.scroller = h("div", { class: "scroller" }, this.canvas, this.spacer);
    this.element.append(this.scroller, this.strip, this.none, this.tip);
    this.element.dataset.arrows = "";
    this.scroller.addEventListener("scroll", () => (this.dirty = true));
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event, this.canvas, (dx) => this.moveBy((-dx * this.lengthUs) / this.plot())));
    this.strip.addEventListener("pointerdown", (event) => {
      this.seek(event);
      this.grab(event, this.strip, (_, now) => this.seek(now));
    });
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.hover(null));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.element.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -0.25, ArrowRight: 0.25 }[event.key];
      if (way) this.pan(way), event.preventDefault();
    });
    $("schedule-pause").addEventListener("click", () => this.togglePause());
    $("schedule-in").addEventListener("click", () => this.zoom(0.5));
    $("schedule-out").addEventListener("click", () => this.zoom(2));
    $("schedule-rows").addEventListener("click", () => this.toggleFit());
  }

  // -- receiving -------------------------------------------------------------------------------------------------------

  take({ now_us: nowUs, rows }) {
    this.heard(nowUs);
    if (this.paged.used) return;
    this.add(rows, nowUs);
  }

  /** Sets the clock by the coordinator's. */
  heard(nowUs) {
    const ahead = nowUs - performance.now() * 1000;
    if (this.aheadUs === null || Math.abs(ahead - this.aheadUs) > 2_000_000) {
      // Another coordinator leads, with a clock of its own.
      if (this.aheadUs !== null) this.slots.clear();
      this.aheadUs = ahead;
    }
    this.aheadUs = Math.max(this.aheadUs - 200, ahead);
  }

  add(rows, nowUs) {
    this.slots.add(rows);
    this.slots.prune(Math.min(this.paused ? this.endUs - this.lengthUs : Infinity, nowUs - KEPT_US - 1_000_000));
    this.order();
    this.dirty = true;
  }

  /** Fetches slots that were missed between the stream's history and its first message, or during a lost connection. */
  async mend() {
    if (this.paged.used) return;
    try {
      const answer = await fetch("/api/schedule?batches=80");
      if (!answer.ok) return;
      this.slots.add((await answer.json()).rows);
      this.order();
      this.dirty = true;
    } catch {
      // the next connection fetches them
    }
  }

  state(state) {
    this.paged.use(Boolean(state.large));
    for (const member of state.members) this.names.set(member.node, member.name);
    this.painter.names = this.names;
    const sliceUs = state.coordinator.slot_slices * state.coordinator.slice_ns / 1000;
    if (!this.zoomed && sliceUs) {
      this.lengthUs = Math.max(SHORTEST_US, Math.round(sliceUs * (matchMedia("(max-width: 640px)").matches ? 12 : 28)));
      this.zoomed = true;
      this.say();
    }
    this.order();
  }

  order() {
    if (this.paged.used) return; // the server has ordered them
    if (this.rows.length === this.slots.rows.size && this.rows.every((row) => this.slots.rows.has(row.node) && row.name === (this.names.get(row.node) ?? row.name))) return;
    this.rows = [...this.slots.rows.keys()].map((node) => ({ node, name: this.names.get(node) ?? `node ${node}` }));
    this.rows.sort((a, b) => natural(a.name, b.name));
    this.dirty = true;
  }

  nowUs() {
    return this.aheadUs === null ? 0 : performance.now() * 1000 + this.aheadUs;
  }

  /** How far behind the coordinator the newest slots are; a page that asks for its hosts' slots gets them once a second. */
  get behindUs() {
    return this.paged.used ? PAGED_BEHIND_US : BEHIND_US;
  }

  // -- drawing ---------------------------------------------------------------------------------------------------------

  plot() {
    const view = this.view ?? { width: 600, gutter: 70, shares: 0 };
    return Math.max(50, view.width - view.gutter - view.shares);
  }

  frame(at) {
    requestAnimationFrame((next) => this.frame(next));
    if (at - this.paintedAt < FRAME_MS || !visible(this.element)) return;
    if (!this.paused && this.aheadUs !== null) {
      this.endUs = this.nowUs() - this.behindUs;
      this.dirty = true;
    }
    if (!this.dirty) return;
    this.paintedAt = at;
    this.dirty = false;
    const began = performance.now();
    this.paint();
    this.costMs = performance.now() - began;
  }

  paint() {
    const { clientWidth: width, clientHeight: room } = this.scroller;
    if (!width || !room) return;
    const narrow = width < 700;
    const even = (room - AXIS) / Math.max(1, this.rows.length);
    const rowHeight = Math.min(TALLEST, Math.max(this.fitted ? 1.5 : ROW, even));
    const tall = AXIS + rowHeight * this.rows.length;
    this.spacer.style.height = `${Math.max(0, tall - room)}px`;
    this.view = {
      width, height: room, gutter: narrow ? 56 : 84, shares: narrow ? 0 : 130,
      fromUs: this.endUs - this.lengthUs, toUs: this.endUs, rowHeight, scroll: this.scroller.scrollTop, rows: this.rows,
    };
    this.painter.rows(sized(this.canvas, width, room), this.slots, this.view, this.hovered?.slot);
    const endUs = Math.max(this.nowUs() - this.behindUs, this.endUs);
    this.painter.strip(sized(this.strip, width, STRIP), this.slots, this.view, endUs - KEPT_US, endUs);
    this.quiet();
  }

  quiet() {
    if (this.paged.searched) return void ((this.none.hidden = this.rows.length > 0), text(this.none, "No host with slots has this name; clear the search."));
    const leader = this.feed.last.state?.coordinator;
    const nothing = !this.rows.length;
    this.none.hidden = !nothing;
    if (!nothing) return;
    text(this.none, leader && !leader.alive ? "No leader: every gate is open, so no host needs permission."
      : leader?.override === "free" ? "Override: no host needs permission."
        : leader ? "No host needs permission: no link is contended. Slots appear when two hosts send into one link."
          : "Waiting for the first slots.");
  }

  say() {
    text($("schedule-window"), ms(this.lengthUs / 1000));
    const button = $("schedule-pause");
    text(button, this.paused ? "Continue" : "Pause");
    attribute(button, "aria-pressed", this.paused);
    attribute($("schedule-rows"), "aria-pressed", this.fitted);
    text($("schedule-hint"), this.paged?.says && !this.paused ? this.paged.says : this.paused ? "paused; drag, or use ← and →, to move in time" : "which host held the permission, and when");
  }

  legend() {
    const icon = (...parts) => s("svg", { width: 22, height: 12, viewBox: "0 0 22 12" }, ...parts);
    $("schedule-legend").replaceChildren(
      h("span", {}, icon(s("path", { class: "key-slot", d: "M0 0h22v12H0z" })), "slot, coloured by destination"),
      h("span", {}, icon(s("path", { class: "key-slot", d: "M0 0h13l9 12H0z" })), "yielded early"),
      h("span", {}, icon(s("path", { class: "key-slot", d: "M4 1h18v11H4z" }), s("path", { class: "key-late", d: "M-1 0h10L4 9z" })), "opened late"),
      h("span", {}, icon(s("path", { class: "key-lost", d: "M.5.5h21v11H.5z" }), s("path", { class: "key-cross", d: "m7 2 8 8m0-8-8 8" })), "directive lost"),
    );
  }

  // -- acting ----------------------------------------------------------------------------------------------------------

  togglePause(paused = !this.paused) {
    this.paused = paused;
    this.dirty = true;
    this.say();
  }

  toggleFit() {
    this.fitted = !this.fitted;
    this.dirty = true;
    this.say();
  }

  moveBy(us) {
    if (this.aheadUs === null) return;
    if (!this.paused) this.togglePause(true);
    const newest = this.nowUs() - this.behindUs;
    this.endUs = Math.min(newest, Math.max(this.endUs + us, Math.min(this.endUs, newest - KEPT_US + this.lengthUs)));
    this.dirty = true;
  }

  /** Pauses, and moves by a part of the window. */
  pan(part) {
    this.moveBy(part * this.lengthUs);
  }

  /** Scales the window; keeps its right edge when live, or the time at `anchor` (0 to 1) when paused. */
  zoom(factor, anchor = 0.5) {
    this.zoomed = true;
    const next = Math.min(KEPT_US, Math.max(SHORTEST_US, this.lengthUs * factor));
    if (this.paused) this.endUs += (1 - anchor) * (next - this.lengthUs);
    this.lengthUs = next;
    this.dirty = true;
    this.say();
  }

  grab(event, target, moved) {
    let last = event.clientX;
    target.setPointerCapture(event.pointerId);
    const move = (now) => {
      if (now.clientX === last) return;
      moved(now.clientX - last, now);
      last = now.clientX;
    };
    const done = () => {
      target.removeEventListener("pointermove", move);
      target.removeEventListener("pointerup", done);
      target.removeEventListener("pointercancel", done);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", done);
    target.addEventListener("pointercancel", done);
  }

  seek(event) {
    if (!this.view || this.aheadUs === null) return;
    const part = (event.clientX - this.strip.getBoundingClientRect().left - this.view.gutter) / this.plot();
    const newest = this.nowUs() - this.behindUs;
    if (!this.paused) this.togglePause(true);
    this.endUs = Math.min(newest, newest - KEPT_US * (1 - Math.min(Math.max(part, 0), 1)) + this.lengthUs / 2);
    this.dirty = true;
  }

  wheel(event) {
    const part = (event.offsetX - this.view.gutter) / this.plot();
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY * 0.004), part);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.moveBy((event.deltaX * this.lengthUs) / this.plot());
    else return;
    event.preventDefault();
  }

  hover(event) {
    const found = event && this.view ? this.find(event) : null;
    this.tip.hidden = !found;
    if (found?.slot !== this.hovered?.slot) this.dirty = true;
    this.hovered = found;
    if (!found) return;
    const { slot, row } = found;
    const name = this.names.get(slot.destination) ?? `node ${slot.destination}`;
    const kinds = { slot: "", yield: "yielded early", late: "opened late", lost: "directive lost: the slice was not used" };
    this.tip.replaceChildren(h("strong", {}, `${row.name} → ${name}`), h("span", {}, `slot ${slot.slot}, ${ms((slot.end_us - slot.start_us) / 1000)}, ${bytes(slot.bytes)} granted`),
      ...(kinds[slot.kind] ? [h("span", { class: slot.kind === "yield" ? "dim" : "bad" }, kinds[slot.kind])] : []));
    const box = this.element.getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 6);
    Object.assign(this.tip.style, { left: `${Math.max(4, x)}px`, top: `${Math.min(event.clientY - box.top + 16, box.height - 70)}px` });
  }

  find(event) {
    const { gutter, fromUs, rowHeight, scroll, rows } = this.view;
    const row = rows[Math.floor((event.offsetY - AXIS + scroll) / rowHeight)];
    if (!row || event.offsetY < AXIS || event.offsetX < gutter) return null;
    const perPixel = this.lengthUs / this.plot();
    const slot = this.slots.at(row.node, fromUs + (event.offsetX - gutter) * perPixel, perPixel * 3);
    return slot && { slot, row };
  }
}

/** Sizes a canvas to CSS pixels at the screen's resolution; returns its context. */
function sized(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}
