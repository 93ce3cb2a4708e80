// Priority flow control: pauses and storms by host and class, in a grid whose cells show how long a class was paused.

import { $, attribute, empty, h, text, visible } from "../lib/dom.js";
import { count, ms, natural, shortener } from "../lib/format.js";
import { loadColour } from "../lib/scale.js";

const CLASSES = [0, 1, 2, 3, 4, 5, 6, 7];

export class PfcView {
  constructor(element, app) {
    this.element = element;
    this.app = app;
    this.cells = new Map();
    this.names = "";
    app.feed.on("state", (state) => this.state(state.pfc ?? {}, state.totals?.pfc_hosts));
    app.onShow(() => app.feed.last.state && this.state(app.feed.last.state.pfc ?? {}, app.feed.last.state.totals?.pfc_hosts));
  }

  state(pfc, hosts = 0) {
    const names = Object.keys(pfc).sort(natural);
    const all = Object.values(pfc).flat();
    const storms = all.reduce((sum, one) => sum + one.storms, 0);
    this.app.badge("pfc", storms, "bad");
    text($("pfc-hint"), names.length ? `${hosts > names.length ? `showing ${names.length} of ${count(hosts)} hosts, those paused longest (search the fabric for another host's pauses), ` : `${names.length} hosts, `}${count(all.reduce((sum, one) => sum + one.received, 0))} pauses received, ${storms ? `${storms} storm${storms > 1 ? "s" : ""}` : "no storm"}` : "");
    if (!visible(this.element)) return;
    if (!names.length) {
      this.names = "";
      this.element.replaceChildren(empty("No host reports priority flow control", "Start agents with --pfc on hosts whose switches send 802.1Qbb pauses; see baton pfc."));
      return;
    }
    if (names.join() !== this.names) this.build(names);
    const longest = all.reduce((most, one) => Math.max(most, one.paused_ms), 0) || 1;
    for (const name of names) {
      const by = new Map(pfc[name].map((one) => [one.class, one]));
      for (const number of CLASSES) this.write(this.cells.get(`${name}.${number}`), by.get(number), longest, `${name}, class ${number}`);
    }
  }

  build(names) {
    this.names = names.join();
    this.cells.clear();
    const short = shortener(names);
    const most = matchMedia("(max-width: 640px)").matches ? 12 : 48;
    const rows = names.map((name) => h("tr", {}, h("th", { scope: "row", title: name }, short(name, most)), ...CLASSES.map((number) => {
      const cell = h("td", {}, h("i", {}), h("b", {}), h("span", {}), h("em", {}));
      this.cells.set(`${name}.${number}`, cell);
      return cell;
    })));
    this.element.replaceChildren(
      h("div", { class: "grid-scroll" }, h("table", { class: "pfc" }, h("thead", {}, h("tr", {}, h("th", {}, "host"), ...CLASSES.map((n) => h("th", { scope: "col" }, h("span", { class: "wide-only" }, "class "), n)))), h("tbody", {}, ...rows))),
      h("p", { class: "legend" }, h("span", {}, "In each cell: how long the class was paused; pauses received ↓ and sent ↑; the bar compares that time with the longest."), h("span", { class: "bad" }, "▲ storms")),
    );
  }

  write(cell, one, longest, name) {
    const [bar, paused, frames, storms] = cell.children;
    const used = one && (one.received || one.sent || one.paused_ms || one.storms);
    attribute(cell, "class", one?.storms ? "storm" : used ? "" : "unused");
    bar.style.width = `${used ? Math.round((100 * one.paused_ms) / longest) : 0}%`;
    bar.style.background = used ? loadColour(one.paused_ms / longest) : "";
    text(paused, used ? ms(one.paused_ms) : "·");
    text(frames, used ? `↓${count(one.received)} ↑${count(one.sent)}` : "");
    text(storms, one?.storms ? `▲ ${one.storms}` : "");
    attribute(cell, "title", used ? `${name}: paused ${ms(one.paused_ms)}, ${count(one.received)} received, ${count(one.sent)} sent, ${one.storms} storms` : null);
  }
}
