// Computes the positions of the fabric's nodes in pixels from the server's layout (x and y from 0 to 1). Pure.
//
// Hosts that would be too close to read or click become blocks of cells under their switch; a cell stands for the host and its
// link. So a picture of 200 hosts stays readable.

import { natural } from "../lib/format.js";

const ROOM = 30;
const MARGIN = { x: 30, top: 26, bottom: 34 };
const GAP = 10;
const LINE = 58; // between two lines of blocks: room for their switches

/**
 * {places: Map(id -> {x, y, w, h, node, cell}), links: [{link, a, b}], blocks: [...], packed}. `cell` is true for a host in
 * a block: then its link is not in `links`, and the block has {switch, x, y, w, h, hosts}.
 */
export function layOut(fabric, width, height) {
  const hosts = fabric.nodes.filter((node) => node.kind === "host");
  const switches = fabric.nodes.filter((node) => node.kind === "switch");
  const homes = homesOf(fabric);
  const places = new Map();
  const racks = new Set(switches.filter((node) => node.tier === 1).map((node) => node.id));
  const inRacks = hosts.filter((host) => racks.has(homes.get(host.id)?.home));
  const packed = inRacks.length * ROOM > width - 2 * MARGIN.x && hosts.every((host) => homes.has(host.id));
  const shown = packed ? fabric.nodes.filter((node) => !inRacks.includes(node)) : fabric.nodes;
  const [low, high] = range(shown.map((node) => node.y));
  const below = packed ? blocksOf(inRacks, homes, width, height) : null;
  const bottom = packed ? height - below.tall - 42 : height - MARGIN.bottom;
  for (const node of shown) {
    const part = high > low ? (node.y - low) / (high - low) : 0.5;
    const w = node.kind === "switch" ? Math.max(34, 7.2 * node.id.length + 14) : 16;
    places.set(node.id, {
      node, cell: false, w, h: node.kind === "switch" ? 22 : 16,
      x: MARGIN.x + node.x * (width - 2 * MARGIN.x),
      y: MARGIN.top + part * (bottom - MARGIN.top),
    });
  }
  const blocks = packed ? pack(below, places, height) : [];
  apart(places, width);
  const links = fabric.links
    .filter((link) => !places.get(link.a)?.cell && !places.get(link.b)?.cell && places.has(link.a) && places.has(link.b))
    .map((link) => ({ link, a: places.get(link.a), b: places.get(link.b) }));
  return { places, links, blocks, packed };
}

/** A map from each host to {home, link}: its switch, and its link. */
export function homesOf(fabric) {
  const kinds = new Map(fabric.nodes.map((node) => [node.id, node.kind]));
  const homes = new Map();
  for (const link of fabric.links) {
    if (kinds.get(link.a) === "host") homes.set(link.a, { home: link.b, link });
    else if (kinds.get(link.b) === "host") homes.set(link.b, { home: link.a, link });
  }
  return homes;
}

function range(values) {
  return [Math.min(...values), Math.max(...values)];
}

/** Sizes the blocks: each switch with hosts gets a column of equal width, with its hosts as the largest cells that fit. */
function blocksOf(hosts, homes, width, height) {
  const by = new Map();
  for (const host of hosts) {
    const { home } = homes.get(host.id);
    by.set(home, [...(by.get(home) ?? []), host]);
  }
  const lines = Math.ceil(by.size / Math.max(1, Math.floor((width - GAP) / (48 + GAP))));
  const columns = Math.ceil(by.size / lines);
  const wide = (width - GAP * (columns + 1)) / columns;
  const room = (height * 0.55 - (lines - 1) * LINE) / lines;
  const most = Math.max(...[...by.values()].map((list) => list.length));
  const size = cellSize(most, Math.max(wide, 20), Math.max(room, 16));
  const across = Math.max(1, Math.floor(wide / size));
  const deep = Math.ceil(most / across) * size;
  return { by, columns, wide, size, across, deep, tall: lines * deep + (lines - 1) * LINE };
}

/** Places the cells, and each switch above its cells. */
function pack({ by, columns, wide, size, across, deep, tall }, places, height) {
  const order = [...by.keys()].sort((a, b) => places.get(a).x - places.get(b).x || natural(a, b));
  return order.map((home, i) => {
    const list = by.get(home).sort((a, b) => natural(a.id, b.id));
    const used = Math.min(across, list.length);
    const centre = GAP + (i % columns) * (wide + GAP) + wide / 2;
    const y = height - 14 - tall + Math.floor(i / columns) * (deep + LINE);
    const x = centre - (used * size) / 2;
    Object.assign(places.get(home), { x: centre, y: y - 28 });
    list.forEach((node, n) => {
      places.set(node.id, {
        node, cell: true, w: size - 2, h: size - 2,
        x: x + (n % across) * size + size / 2,
        y: y + Math.floor(n / across) * size + size / 2,
      });
    });
    return { home, x, y, w: used * size, h: Math.ceil(list.length / across) * size };
  });
}

/** The size of the largest cells of which so many fit into a box. */
function cellSize(many, width, height) {
  let any = 7;
  for (let size = 30; size > 7; size -= 1) {
    const across = Math.floor(width / size);
    if (across * Math.floor(height / size) < many) continue;
    any = Math.max(any, size);
    if (across * size > 0.86 * width || across >= many) return size; // a column that is filled to its edge looks best
  }
  return any;
}

/** Pushes switches of one line apart until their boxes do not touch. */
function apart(places, width) {
  const lines = new Map();
  for (const place of places.values()) {
    if (place.cell) continue;
    const key = Math.round(place.y);
    lines.set(key, [...(lines.get(key) ?? []), place]);
  }
  for (const line of lines.values()) {
    line.sort((a, b) => a.x - b.x);
    const need = line.reduce((sum, place) => sum + place.w + 6, 0);
    if (need > width) continue;
    for (let i = 1; i < line.length; i += 1) line[i].x = Math.max(line[i].x, line[i - 1].x + (line[i - 1].w + line[i].w) / 2 + 6);
    const over = line.at(-1).x + line.at(-1).w / 2 + 4 - width;
    if (over > 0) for (const place of line) place.x = Math.max(place.w / 2 + 4, place.x - over);
  }
}
