// The latest slots of each node. Pure: no clock, no drawing. Times are microseconds of the coordinator's clock.

/** A row of the coordinator, as an object with named fields. */
const named = ([kind, number, node, destination, startUs, endUs, bytes]) => ({ slot: number, node, destination, start_us: startUs, end_us: endUs, bytes, kind });

export const BUCKET_US = 20_000;
const MOST = 250_000;

export class Slots {
  constructor() {
    this.clear();
  }

  clear() {
    this.rows = new Map();
    this.known = new Map();
    this.buckets = new Map();
    this.newestUs = 0;
  }

  /** Adds rows; a known slot is updated (it becomes late, yielded or lost after it was granted). */
  add(rows) {
    for (const one of rows) {
      const slot = named(one);
      const key = `${slot.node}.${slot.slot}`;
      const before = this.known.get(key);
      if (before) {
        this.tally(before, -1);
        Object.assign(before, slot);
        this.tally(before, 1);
        continue;
      }
      let row = this.rows.get(slot.node);
      if (!row) this.rows.set(slot.node, (row = []));
      let at = row.length;
      while (at > 0 && row[at - 1].start_us > slot.start_us) at -= 1;
      row.splice(at, 0, slot);
      this.known.set(key, slot);
      this.newestUs = Math.max(this.newestUs, slot.end_us);
      this.tally(slot, 1);
    }
  }

  /** Counts for each 20 ms how long permission was held (us), and how many slots were late or lost, for the overview. */
  tally(slot, sign) {
    const bucket = Math.floor(slot.start_us / BUCKET_US);
    let sum = this.buckets.get(bucket);
    if (!sum) this.buckets.set(bucket, (sum = { held: 0, late: 0, lost: 0 }));
    if (slot.kind === "late") sum.late += sign;
    if (slot.kind === "lost") sum.lost += sign;
    else sum.held += sign * Math.max(0, slot.end_us - slot.start_us);
  }

  /** Drops slots that ended before a time, and the oldest ones when there are too many. */
  prune(beforeUs) {
    const limit = this.known.size > MOST ? Math.max(beforeUs, this.newestUs - 4_000_000) : beforeUs;
    for (const [node, row] of this.rows) {
      let gone = 0;
      while (gone < row.length && row[gone].end_us < limit) this.known.delete(`${node}.${row[gone++].slot}`);
      if (gone === row.length) this.rows.delete(node);
      else if (gone) row.splice(0, gone);
    }
    for (const bucket of this.buckets.keys()) if ((bucket + 1) * BUCKET_US < limit) this.buckets.delete(bucket);
  }

  /** Drops the slots of all nodes but these. */
  keep(nodes) {
    for (const [node, row] of this.rows) {
      if (nodes.has(node)) continue;
      for (const slot of row) {
        this.known.delete(`${node}.${slot.slot}`);
        this.drop(slot);
      }
      this.rows.delete(node);
    }
  }

  /** Takes a slot out of the overview's counts. */
  drop(slot) {
    if (this.buckets.has(Math.floor(slot.start_us / BUCKET_US))) this.tally(slot, -1);
  }

  /** The index of a row's first slot that may end after fromUs: starts are sorted, and slots of a node hardly overlap. */
  static first(row, fromUs) {
    let [low, high] = [0, row.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].start_us < fromUs) low = middle + 1;
      else high = middle;
    }
    while (low > 0 && row[low - 1].end_us > fromUs) low -= 1;
    return low;
  }

  /** The slot of a node at a time, or the nearest one within `slackUs`. */
  at(node, timeUs, slackUs) {
    const row = this.rows.get(node) ?? [];
    let best = null;
    let least = slackUs;
    for (let i = Slots.first(row, timeUs - slackUs); i < row.length && row[i].start_us < timeUs + slackUs; i += 1) {
      const away = Math.max(row[i].start_us - timeUs, timeUs - row[i].end_us, 0);
      if (away <= least) [best, least] = [row[i], away];
    }
    return best;
  }
}
