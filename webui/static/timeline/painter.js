// Paints the schedule on a canvas: a row for each node, a block for each slot. Shapes show kinds, colours destinations.

import { destinationColour, isDark } from "../lib/scale.js";
import { Slots, BUCKET_US } from "./slots.js";
import { token } from "../lib/dom.js";

export const AXIS = 24;
export const STRIP = 40;
const STEPS_US = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6];

export class Painter {
  constructor() {
    this.theme();
  }

  theme() {
    this.dark = isDark();
    const names = ["text", "dim", "faint", "line", "grid", "panel", "raised", "hot", "bad", "accent", "warn"];
    this.ink = Object.fromEntries(names.map((name) => [name, token(`--${name}`)]));
    this.font = `11.5px ${getComputedStyle(document.body).fontFamily}`;
  }

  /** `view`: {width, height, gutter, shares, fromUs, toUs, rowHeight, scroll, rows: [{node, name}]}, in CSS pixels. */
  rows(c, slots, view, hovered) {
    const { width, height, gutter, fromUs, toUs, rowHeight, scroll, rows, shares } = view;
    const right = width - shares;
    const perUs = (right - gutter) / (toUs - fromUs);
    c.clearRect(0, 0, width, height);
    c.font = this.font;
    c.textBaseline = "middle";
    this.axis(c, view, right, perUs);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, width, height - AXIS);
    c.clip();
    const first = Math.max(0, Math.floor(scroll / rowHeight));
    const last = Math.min(rows.length, Math.ceil((scroll + height - AXIS) / rowHeight));
    for (let i = first; i < last; i += 1) {
      const y = AXIS + i * rowHeight - scroll;
      if (rowHeight >= 9) this.lane(c, rows[i].name, y, view, right);
      const held = this.slots(c, slots.rows.get(rows[i].node) ?? [], { y, tall: rowHeight, gutter, right, fromUs, toUs, perUs }, hovered);
      if (shares) this.share(c, held / (toUs - fromUs), y, rowHeight, right, shares);
    }
    c.restore();
  }

  axis(c, { fromUs, toUs, gutter, height, shares }, right, perUs) {
    const step = STEPS_US.find((us) => us * perUs >= 84) ?? STEPS_US.at(-1);
    const digits = step < 1000 ? 4 : 3;
    c.strokeStyle = this.ink.grid;
    c.lineWidth = 1;
    c.textAlign = "center";
    for (let at = Math.ceil(fromUs / step) * step; at < toUs; at += step) {
      const x = Math.round(gutter + (at - fromUs) * perUs) + 0.5;
      c.beginPath();
      c.moveTo(x, AXIS - 5);
      c.lineTo(x, height);
      c.stroke();
      c.fillStyle = this.ink.dim;
      if (x - gutter > 26 && right - x > 26) c.fillText(`${((at / 1e6) % 60).toFixed(digits)} s`, x, AXIS / 2);
    }
    c.fillStyle = this.ink.faint;
    c.textAlign = "left";
    c.fillText("node", 12, AXIS / 2);
    c.textAlign = "right";
    if (shares) c.fillText("held", right + shares - 12, AXIS / 2);
    c.strokeStyle = this.ink.line;
    c.beginPath();
    c.moveTo(0, AXIS - 0.5);
    c.lineTo(right + shares, AXIS - 0.5);
    c.stroke();
  }

  lane(c, name, y, { rowHeight, gutter, scroll }, right) {
    c.strokeStyle = this.ink.grid;
    c.beginPath();
    c.moveTo(gutter, Math.round(y + rowHeight) - 0.5);
    c.lineTo(right, Math.round(y + rowHeight) - 0.5);
    c.stroke();
    if (rowHeight < 12) return;
    c.fillStyle = this.ink.text;
    c.textAlign = "left";
    c.fillText(name.length > 9 ? `${name.slice(0, 8)}…` : name, 12, y + rowHeight / 2 + 0.5);
  }

  /** Paints one node's slots; returns how long (us) the node held permission within the window. */
  slots(c, row, box, hovered) {
    const { y, tall, gutter, right, fromUs, toUs, perUs } = box;
    const pad = tall >= 14 ? 3 : tall >= 6 ? 1 : 0;
    const [top, deep] = [y + pad, Math.max(1, tall - 2 * pad)];
    let held = 0;
    let drawnTo = -1;
    for (let i = Slots.first(row, fromUs); i < row.length && row[i].start_us < toUs; i += 1) {
      const slot = row[i];
      const x0 = Math.max(gutter, gutter + (slot.start_us - fromUs) * perUs);
      const x1 = Math.min(right, gutter + (slot.end_us - fromUs) * perUs);
      if (x1 <= gutter) continue;
      if (slot.kind !== "lost") held += Math.min(slot.end_us, toUs) - Math.max(slot.start_us, fromUs);
      const wide = x1 - x0;
      if (wide < 0.7 && x0 < drawnTo + 0.7 && (slot.kind === "slot" || slot.kind === "yield")) continue; // it would cover the same pixel
      drawnTo = x1;
      this.slot(c, slot, x0, Math.max(wide - (wide > 4 ? 1 : 0), 1), top, deep, slot === hovered);
    }
    return held;
  }

  slot(c, slot, x, wide, top, deep, hovered) {
    const colour = destinationColour(slot.destination, this.dark);
    c.fillStyle = c.strokeStyle = colour;
    c.lineWidth = 1.3;
    if (slot.kind === "lost") this.lost(c, x, wide, top, deep);
    else if (slot.kind === "yield" && wide >= 3 && deep >= 5) this.yielded(c, x, wide, top, deep);
    else c.fillRect(x, top, wide, deep);
    if (slot.kind === "late") this.late(c, x, top, deep);
    if (wide > 24 && deep >= 12 && slot.kind !== "lost") {
      c.fillStyle = this.dark ? "#0a1016" : "#ffffff";
      c.textAlign = "left";
      const label = this.names?.get(slot.destination) ?? String(slot.destination);
      if (c.measureText(label).width < wide - (slot.kind === "yield" ? 16 : 10)) c.fillText(label, x + (slot.kind === "late" ? 12 : 5), top + deep / 2 + 0.5);
    }
    if (hovered) {
      c.strokeStyle = this.ink.text;
      c.lineWidth = 1.5;
      c.strokeRect(x - 1, top - 1, wide + 2, deep + 2);
    }
  }

  /** Paints a yielded slot: the block ends in a slope. */
  yielded(c, x, wide, top, deep) {
    const slope = Math.min(wide * 0.62, deep * 0.7);
    c.beginPath();
    c.moveTo(x, top);
    c.lineTo(x + wide - slope, top);
    c.lineTo(x + wide, top + deep);
    c.lineTo(x, top + deep);
    c.fill();
  }

  /** Marks a slot that opened late: a wedge at its start. */
  late(c, x, top, deep) {
    const size = Math.min(9, Math.max(4, deep));
    c.fillStyle = this.ink.hot;
    c.strokeStyle = this.ink.panel;
    c.lineWidth = 1.5;
    c.beginPath();
    c.moveTo(x - size / 2, top - 1);
    c.lineTo(x + size / 2 + 1, top - 1);
    c.lineTo(x + 0.5, top + size);
    c.closePath();
    c.stroke();
    c.fill();
  }

  /** Paints a slot whose directive was lost: hollow and crossed out. */
  lost(c, x, wide, top, deep) {
    if (wide >= 4 && deep >= 5) {
      c.setLineDash([3, 2]);
      c.strokeRect(x + 0.5, top + 0.5, wide - 1, deep - 1);
      c.setLineDash([]);
    }
    const arm = Math.min(5, Math.max(2, deep / 2 - 1));
    const [cx, cy] = [x + wide / 2, top + deep / 2];
    c.strokeStyle = this.ink.bad;
    c.lineWidth = 1.8;
    c.beginPath();
    c.moveTo(cx - arm, cy - arm);
    c.lineTo(cx + arm, cy + arm);
    c.moveTo(cx + arm, cy - arm);
    c.lineTo(cx - arm, cy + arm);
    c.stroke();
  }

  share(c, part, y, tall, right, shares) {
    const [x, wide] = [right + 10, shares - 58];
    const deep = Math.max(1, Math.min(6, tall - 2));
    c.fillStyle = this.ink.raised;
    c.fillRect(x, y + (tall - deep) / 2, wide, deep);
    c.fillStyle = this.ink.accent;
    c.fillRect(x, y + (tall - deep) / 2, wide * Math.min(1, part), deep);
    if (tall < 12) return;
    c.fillStyle = this.ink.dim;
    c.textAlign = "right";
    c.fillText(`${(100 * part).toFixed(part < 0.0995 ? 1 : 0)} %`, right + shares - 12, y + tall / 2 + 0.5);
  }

  /** Paints the overview strip: how long permission was held, late and lost slots, and the window shown above. */
  strip(c, slots, { width, gutter, shares, fromUs, toUs }, startUs, endUs) {
    const right = width - shares;
    const perUs = (right - gutter) / (endUs - startUs);
    c.clearRect(0, 0, width, STRIP);
    const bottom = STRIP - 8;
    let top = 1;
    for (const sum of slots.buckets.values()) top = Math.max(top, sum.held);
    const wide = Math.max(1, BUCKET_US * perUs - (BUCKET_US * perUs > 3 ? 1 : 0));
    for (const [bucket, sum] of slots.buckets) {
      const x = gutter + (bucket * BUCKET_US - startUs) * perUs;
      if (x < gutter - 1 || x > right) continue;
      const tall = Math.round((sum.held / top) * (bottom - 8));
      c.fillStyle = this.ink.faint;
      c.fillRect(x, bottom - tall, wide, tall);
      if (sum.late + sum.lost <= 0) continue;
      c.fillStyle = sum.lost > 0 ? this.ink.bad : this.ink.hot;
      c.fillRect(x, bottom + 2, Math.max(wide, 2), 3);
    }
    const [a, b] = [Math.max(gutter, gutter + (fromUs - startUs) * perUs), Math.min(right, gutter + (toUs - startUs) * perUs)];
    c.fillStyle = this.ink.accent;
    c.globalAlpha = 0.18;
    c.fillRect(a, 2, Math.max(3, b - a), STRIP - 4);
    c.globalAlpha = 1;
    c.strokeStyle = this.ink.accent;
    c.lineWidth = 1.5;
    c.strokeRect(a + 0.5, 2.5, Math.max(3, b - a) - 1, STRIP - 5);
    c.fillStyle = this.ink.faint;
    c.font = this.font;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillText(`${Math.round((endUs - startUs) / 1e6)} s`, 12, STRIP / 2);
  }
}
