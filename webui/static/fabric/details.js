// The details of the selected node or link; without a selection, the busiest links.

import { afterPress, attribute, h, visible } from "../lib/dom.js";
import { arrow, bytes, count, ms, natural, offset, percent, rate } from "../lib/format.js";
import { loadColour } from "../lib/scale.js";

const LISTED = 7;

/** The flows that cross a link of the tree, the fastest first: the flows between its two sides. */
function crossing(link, fabric, flows) {
  const near = new Set([link.a]);
  const neighbours = new Map(fabric.nodes.map((node) => [node.id, []]));
  for (const one of fabric.links.filter((other) => other.tree && other.id !== link.id)) {
    neighbours.get(one.a).push(one.b);
    neighbours.get(one.b).push(one.a);
  }
  for (const node of near) neighbours.get(node).forEach((other) => near.add(other)); // a set's iterator meets what is added
  return flows.filter((flow) => near.has(flow.source) !== near.has(flow.destination) && neighbours.has(flow.source) && neighbours.has(flow.destination))
    .sort((a, b) => b.rate_bps - a.rate_bps || b.backlog_bytes - a.backlog_bytes);
}

export class Details {
  constructor(element, app) {
    this.element = element;
    this.app = app;
    this.feed = app.feed;
    this.id = null;
    this.written = "";
    this.next = null;
    this.replaceSoon = afterPress(element, () => this.replace());
    this.found = null;
    app.feed.on("state", () => visible(element) && this.draw());
    app.onShow(() => this.draw());
  }

  select(id) {
    this.id = id;
    this.found = null;
    this.element.scrollTop = 0;
    this.draw();
  }

  /** Fetches what the state of a large fabric does not say about the selected node. */
  async fetch(id) {
    try {
      const answer = await fetch(`/api/node/${encodeURIComponent(id)}`);
      if (id === this.id && answer.status === 404) this.write(this.gone(id));
      if (!answer.ok || id !== this.id) return;
      this.found = await answer.json();
      this.write(this.found.kind === "host" ? this.hostFound(this.found) : this.switchFound(this.found));
    } catch {
      // the banner says that the server does not answer; the next state asks again
    }
  }

  draw() {
    const { fabric, state } = this.feed.last;
    if (!fabric || !state) return;
    if (fabric.groups) {
      if (this.id) this.fetch(this.id);
      else this.write(this.busiest(state));
      return;
    }
    const node = fabric.nodes.find((one) => one.id === this.id);
    const link = fabric.links.find((one) => one.id === this.id);
    const parts = node?.kind === "host" ? this.host(node, state, fabric) : node ? this.switch(node, state, fabric) : link ? this.link(link, state, fabric) : this.busiest(state);
    this.write(parts);
  }

  write(parts) {
    const next = h("div", {}, ...parts.filter(Boolean));
    if (next.innerHTML === this.written) return;
    this.written = next.innerHTML;
    this.next = next;
    this.replaceSoon();
  }

  /** Shows what was written last; the button keeps the focus, since loads change twice a second. */
  replace() {
    const at = this.element.scrollTop;
    const focused = this.element.contains(document.activeElement);
    this.element.replaceChildren(...this.next.childNodes);
    this.element.scrollTop = at;
    if (focused) this.element.querySelector("button")?.focus({ preventScroll: true });
    attribute(this.element, "data-of", this.id ?? "");
  }

  head(title, kind) {
    return h("header", {}, h("h3", { class: "of" }, title), h("span", { class: "dim" }, kind),
      h("button", { class: "icon small", "aria-label": "Close", onclick: () => this.app.select(null) }, "×"));
  }

  /** What a large fabric had, and has no more. */
  gone(id) {
    return [this.head(id, "gone"), h("p", { class: "dim" }, `The fabric has no ${id} any more.`)];
  }

  busiest({ links }) {
    const most = Object.entries(links).sort((a, b) => b[1].load - a[1].load || natural(a[0], b[0])).slice(0, LISTED).filter(([, link]) => link.load > 0);
    return [
      h("header", {}, h("h3", { class: "of" }, "Busiest links")),
      most.length ? this.loads(most) : h("p", { class: "dim" }, "No link has a measurable load. Loads appear when traffic starts."),
      h("p", { class: "dim tip" }, this.feed.last.fabric?.groups ? "Open a group, or search for a host or a switch, for its details." : "Select a host, a switch or a link for its details."),
    ];
  }

  /** Lists rows of [name, {load, bps, contended, drops}], each with a bar in the load's colour. */
  loads(rows) {
    return h("ul", { class: "loads" }, ...rows.map(([name, { load, bps, contended, drops }]) => {
      const bar = h("i", { style: { width: `${Math.min(100, Math.round(load * 100))}%`, background: loadColour(Math.min(load, 1)) } });
      return h("li", { class: contended ? "hot" : "" },
        h("span", { class: "name" }, arrow(name), contended ? h("em", {}, "contended") : null),
        h("span", { class: "num" }, `${rate(bps)} · ${percent(load)}`),
        h("span", { class: "bar" }, bar), drops ? h("span", { class: "drops bad" }, `${count(drops)} dropped`) : null);
    }));
  }

  list(pairs) {
    return h("dl", { class: "pairs" }, ...pairs.filter(Boolean).flatMap(([name, value, kind]) => [h("dt", {}, name), h("dd", { class: kind ?? "" }, value)]));
  }

  link(link, { links, flows }, fabric) {
    const across = link.tree ? crossing(link, fabric, flows) : [];
    const rows = [`${link.a}>${link.b}`, `${link.b}>${link.a}`].map((name) => [name, links[name]]).filter(([, found]) => found);
    return [
      this.head(`${link.a} – ${link.b}`, "link"),
      this.list([["capacity", rate(link.rate_bps)], ["spanning tree", link.tree ? "in the tree" : "blocked", link.tree ? "" : "warn"]]),
      rows.length ? this.loads(rows) : h("p", { class: "dim" }, link.tree ? "No load measured yet." : "A blocked link carries no data."),
      ...(link.tree ? [
        h("h3", {}, `Flows across this link (${across.length})`),
        across.length ? this.queues(across, "flow", (flow) => `${flow.source} → ${flow.destination}`) : h("p", { class: "dim" }, "No host sends large flows across it."),
      ] : []),
    ];
  }

  /** A host of a large fabric, from /api/node. */
  hostFound(found) {
    const { member, links, flows, incoming } = found;
    const state = { members: member ? [{ ...member, name: found.id }] : [], flows, links };
    const ends = Object.keys(links).map((name) => name.split(">")).map(([a, b]) => ({ a, b }));
    return this.host({ id: found.id, vms: found.vms }, state, { links: ends.slice(0, 1) }, { sent: found.sent, incoming, pfc: found.pfc });
  }

  /** A switch of a large fabric, from /api/node. */
  switchFound(found) {
    const rows = Object.entries(found.links);
    const hosts = [...found.hosts].filter((host) => Math.max(host.up, host.down) > 0).sort((a, b) => Math.max(b.up, b.down) - Math.max(a.up, a.down));
    return [
      this.head(found.id, "switch"),
      this.list([["ports", found.ports], ["hosts at it", found.hosts.length], ["blocked towards", found.blocked.join(", ") || "none"]]),
      rows.length ? this.loads(rows) : h("p", { class: "dim" }, "No load measured yet between this switch and others."),
      found.links_total > rows.length ? h("p", { class: "dim" }, `Showing ${rows.length} of ${count(found.links_total)} directions, those with the highest load; the groups show the others.`) : null,
      hosts.length ? h("p", { class: "dim" }, `Busiest host: ${hosts[0].id}, sends ${percent(hosts[0].up)}, receives ${percent(hosts[0].down)} of its link.`) : null,
    ].filter(Boolean);
  }

  switch(node, { links }, fabric) {
    const rows = fabric.links.filter((link) => link.tree && (link.a === node.id || link.b === node.id))
      .flatMap((link) => [`${link.a}>${link.b}`, `${link.b}>${link.a}`]).filter((name) => links[name]).map((name) => [name, links[name]])
      .sort((a, b) => b[1].load - a[1].load);
    const own = fabric.links.filter((link) => link.a === node.id || link.b === node.id);
    const blocked = own.filter((link) => !link.tree).map((link) => (link.a === node.id ? link.b : link.a));
    const drops = rows.filter(([name]) => name.startsWith(`${node.id}>`)).reduce((sum, [, link]) => sum + (link.drops ?? 0), 0);
    return [
      this.head(node.id, "switch"),
      this.list([["ports", own.length], ["blocked towards", blocked.join(", ") || "none"], ["dropped at egress", count(drops), drops ? "bad" : ""]]),
      rows.length ? this.loads(rows.slice(0, 24)) : h("p", { class: "dim" }, "No load measured yet. OpenFlow switches report their port counters once a second."),
    ];
  }

  host(node, state, fabric, more = {}) {
    const member = state.members.find((one) => one.name === node.id);
    const queues = state.flows.filter((flow) => flow.source === node.id).sort((a, b) => b.rate_bps - a.rate_bps);
    const received = state.flows.filter((flow) => flow.destination === node.id);
    const incoming = more.incoming ?? { flows: received.length, rate_bps: received.reduce((sum, flow) => sum + flow.rate_bps, 0) };
    const sent = more.sent ?? queues.length;
    const link = fabric.links.find((one) => one.a === node.id || one.b === node.id);
    const rows = link ? [`${link.a}>${link.b}`, `${link.b}>${link.a}`].filter((name) => state.links[name]).map((name) => [name, state.links[name]]) : [];
    const refused = Object.entries(member?.refused ?? {}).filter(([, n]) => n);
    const guests = member?.guest_marks;
    return [
      this.head(node.id, member ? "host" : "host without an agent"),
      ...(member?.suspect ?? []).map((line) => h("p", { class: "note bad" }, line)),
      ...(member?.warnings ?? []).map((line) => h("p", { class: "note warn" }, line)),
      ...(member?.drift ?? []).map((line) => h("p", { class: "note warn" }, line)),
      this.list([
        ["VMs", node.vms?.length ? h("span", { class: "mono" }, node.vms.join(" ")) : "none known"],
        member?.enrolled && member.enrolled !== node.id && ["enrolled as", member.enrolled],
        member && ["gate", member.gate],
        member && ["version", member.wire ? `${member.version}, wire ${member.wire}` : member.version],
        member && ["clock", `${offset(member.offset_us)} ± ${member.uncertainty_us ?? "?"} µs`],
        member && ["last heard", this.feed.last.state.coordinator.alive ? `${ms(member.last_heard_ms)} ago` : "not since the leader is gone"],
        member && ["refused", refused.length ? refused.map(([cause, n]) => `${count(n)} ${cause}`).join(", ") : "none", refused.length ? "warn" : ""],
        guests && ["guests' marks", `${count(guests.held)} held, ${count(guests.refused)} refused`],
      ]),
      member ? null : h("p", { class: "dim" }, "This host sends as if there were no Baton. Start baton agent on it to coordinate it."),
      this.loads(rows),
      more.pfc?.length ? h("p", { class: "dim" }, `PFC: ${more.pfc.map((one) => `class ${one.class} paused ${ms(one.paused_ms)}${one.storms ? `, ${one.storms} storms` : ""}`).join("; ")}.`) : null,
      h("h3", {}, `Queues (${sent})`),
      queues.length ? this.queues(queues) : h("p", { class: "dim" }, "This host sends no large flows."),
      sent > LISTED ? h("p", { class: "dim" }, `Showing the ${LISTED} fastest of ${count(sent)}; the view Flows has all: search ${node.id}>.`) : null,
      incoming.flows ? h("p", { class: "dim" }, `Receives ${count(incoming.flows)} V2V flows, ${rate(incoming.rate_bps)}.`) : null,
    ];
  }

  queues(flows, title = "to", name = (flow) => `→ ${flow.destination}`) {
    const rows = flows.slice(0, LISTED).map((flow) => h("tr", {},
      h("td", {}, name(flow)), h("td", { class: "num" }, rate(flow.rate_bps)), h("td", { class: "num" }, bytes(flow.backlog_bytes)),
      h("td", {}, flow.regulated ? "gated" : "free")));
    return h("table", { class: "mini" }, h("thead", {}, h("tr", {}, h("th", {}, title), h("th", { class: "num" }, "rate"), h("th", { class: "num" }, "backlog"), h("th", {}, ""))), h("tbody", {}, ...rows));
  }
}
