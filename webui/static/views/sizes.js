// The flow sizes of the last period with the thresholds: a histogram over logarithmic sizes.

import { $, empty, h, s, text, visible } from "../lib/dom.js";
import { bytes, count } from "../lib/format.js";

const HEIGHT = 300;
const ROOM = { left: 52, right: 18, top: 46, bottom: 34 };

export class SizesView {
  constructor(element, app) {
    this.element = element;
    this.feed = app.feed;
    this.written = "";
    app.feed.on("state", () => this.draw());
    app.onShow(() => this.draw());
    new ResizeObserver(() => this.draw()).observe(element);
  }

  draw() {
    const thresholds = this.feed.last.state?.thresholds;
    if (!thresholds || !visible(this.element)) return;
    const padding = getComputedStyle(this.element);
    const width = this.element.clientWidth - parseFloat(padding.paddingLeft) - parseFloat(padding.paddingRight);
    const written = JSON.stringify([thresholds, width]);
    if (written === this.written) return;
    this.written = written;
    const total = thresholds.sizes.reduce((sum, [, n]) => sum + n, 0);
    text($("sizes-hint"), total ? `${count(total)} flows in the last period, version ${thresholds.version}` : "");
    if (!total) {
      this.element.replaceChildren(empty("No flow sizes reported yet", "Thresholds come after the first period in which a hundred flows ended. Set priorities.enabled in the configuration, and start agents with --priorities."));
      return;
    }
    this.element.replaceChildren(this.chart(thresholds, width), this.tables(thresholds));
  }

  chart({ sizes, beta_bytes: beta, alpha_bytes: alpha }, width) {
    const least = sizes.length > 1 ? sizes[0][0] ** 2 / sizes[1][0] : sizes[0][0] / 2;
    const uppers = [least, ...sizes.map(([upper]) => upper), ...beta, ...alpha].filter((size) => size > 0);
    const low = Math.floor(Math.log10(Math.min(...uppers)));
    const high = Math.ceil(Math.log10(Math.max(...uppers)));
    const most = Math.max(...sizes.map(([, n]) => n));
    const wide = width - ROOM.left - ROOM.right;
    const tall = HEIGHT - ROOM.top - ROOM.bottom;
    const x = (size) => ROOM.left + (wide * (Math.log10(Math.max(size, 10 ** low)) - low)) / Math.max(1, high - low);
    const y = (n) => ROOM.top + tall * (1 - n / most);
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      parts.push(s("line", { class: "grid", x1: ROOM.left, x2: width - ROOM.right, y1: y(most * part), y2: y(most * part) }),
        s("text", { class: "tick", x: ROOM.left - 8, y: y(most * part) + 4, "text-anchor": "end" }, count(most * part)));
    }
    const every = wide / Math.max(1, high - low) < 54 ? 2 : 1;
    for (let power = low; power <= high; power += every) {
      parts.push(s("text", { class: "tick", x: x(10 ** power), y: HEIGHT - 12, "text-anchor": power === low ? "start" : power === high ? "end" : "middle" }, bytes(10 ** power)));
    }
    let before = least;
    for (const [upper, n] of sizes) {
      const [from, to] = [x(before), x(upper)];
      parts.push(s("rect", { class: "bin", x: from + 0.5, width: Math.max(1, to - from - 1), y: y(n), height: ROOM.top + tall - y(n) }, s("title", {}, `${bytes(before)} to ${bytes(upper)}: ${count(n)} flows`)));
      before = upper;
    }
    for (const [name, cuts, row] of [["β", beta, 0], ["α", alpha, 1]]) {
      let free = -Infinity; // β's label is right of its line, α's left, since α is the smaller one
      cuts.forEach((cut, i) => {
        const at = x(cut);
        const label = `${name}${i + 1}`;
        parts.push(s("line", { class: `cut ${row ? "alpha" : "beta"}`, x1: at, x2: at, y1: 14 + row * 14, y2: ROOM.top + tall }));
        if (at < free) return;
        parts.push(s("text", { class: `cut-label ${row ? "alpha" : "beta"}`, x: at + (row ? -4 : 4), y: 22 + row * 14, "text-anchor": row ? "end" : "start" }, label));
        free = at + 24;
      });
    }
    return s("svg", { class: "chart", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "Flow sizes and thresholds" }, ...parts);
  }

  tables({ beta_bytes: beta, alpha_bytes: alpha }) {
    const list = (title, name, cuts, says) => h("section", {}, h("h3", {}, title), h("p", { class: "dim" }, says),
      cuts.length ? h("ol", { class: "cuts" }, ...cuts.map((cut, i) => h("li", {}, h("span", {}, `${name}${i + 1}`), h("b", {}, bytes(cut))))) : h("p", { class: "dim" }, "Not in force yet: too few flows ended."));
    return h("div", { class: "cut-lists" },
      list("β: size is known", "β", beta, "A flow larger than β enters the next band at once."),
      list("α: size is not known", "α", alpha, "A flow that has sent more than α sinks to the next band."));
  }
}
