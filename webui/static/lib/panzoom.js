// Zooms and drags an SVG group: wheel with ctrl (or pinch), buttons, drag. The plain wheel scrolls the page, as usual.

export class PanZoom {
  constructor(stage) {
    this.stage = stage;
    this.dragged = false;
    this.pointers = new Map();
    this.at = { k: 1, x: 0, y: 0 };
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.down(event));
    stage.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) stage.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    stage.addEventListener("dblclick", (event) => this.by(1.6, this.where(event)));
  }

  /** Takes a new drawing, whose group `root` moves. */
  attach(svg, root) {
    this.svg = svg;
    this.root = root;
    this.apply();
  }

  reset() {
    this.at = { k: 1, x: 0, y: 0 };
    this.apply();
  }

  by(factor, [cx, cy] = [this.stage.clientWidth / 2, this.stage.clientHeight / 2]) {
    const k = Math.min(Math.max(this.at.k * factor, 1), 12);
    const ratio = k / this.at.k;
    this.at = { k, x: cx - (cx - this.at.x) * ratio, y: cy - (cy - this.at.y) * ratio };
    this.apply();
  }

  /** Applies the zoom and position; keeps the picture within its stage. */
  apply() {
    if (!this.root) return;
    const { k } = this.at;
    // Reads the size only if needed: reading it forces the layout of a new drawing, which is laid out again when coloured.
    const { clientWidth: width, clientHeight: height } = k > 1 ? this.stage : { clientWidth: 0, clientHeight: 0 };
    this.at.x = Math.min(0, Math.max(this.at.x, width * (1 - k)));
    this.at.y = Math.min(0, Math.max(this.at.y, height * (1 - k)));
    this.root.setAttribute("transform", `translate(${this.at.x} ${this.at.y}) scale(${k})`);
    this.stage.classList.toggle("zoomed", k > 1);
  }

  where(event) {
    const box = this.stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.by(Math.exp(-event.deltaY * 0.01), this.where(event));
  }

  down(event) {
    this.dragged = false;
    this.pointers.set(event.pointerId, this.where(event));
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = this.where(event);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      this.by(Math.hypot(now[0] - other[0], now[1] - other[1]) / (Math.hypot(before[0] - other[0], before[1] - other[1]) || 1), other);
    } else if (this.at.k > 1) {
      this.at.x += now[0] - before[0];
      this.at.y += now[1] - before[1];
      this.apply();
    }
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) > 3) this.dragged = true;
    this.pointers.set(event.pointerId, now);
  }
}
