// Formats numbers for people. Rates are in bit/s, sizes in bytes, as everywhere in Baton. It does not use the browser's Intl,
// whose first use took a quarter of the page's script time.

const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** Three significant digits: 9.42, 94.2, 942. */
function figures(value) {
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(2).replace(/\.?0+$/, "");
}

function scaled(value, unit) {
  for (const [step, prefix] of STEPS) if (Math.abs(value) >= step * 0.9995) return `${figures(value / step)} ${prefix}${unit}`;
  return `${figures(value)} ${unit}`;
}

export const rate = (bps) => (bps ? scaled(bps, "b/s") : "0");
export const bytes = (size) => (size ? scaled(size, "B").replace("k", "K") : "0");
export const count = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
export const percent = (part) => `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;

/** Milliseconds as 0.3 ms, 12 ms, 1.2 s, 3 min. */
export function ms(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value >= 120_000) return `${Math.round(value / 60_000)} min`;
  if (value >= 1000) return `${figures(value / 1000)} s`;
  return value === 0 ? "0" : value < 0.1 ? `${figures(value * 1000)} µs` : `${figures(value)} ms`;
}

/** Signed microseconds: +12 µs. */
export const offset = (us) => (us === null || us === undefined ? "–" : `${us > 0 ? "+" : us < 0 ? "−" : ""}${figures(Math.abs(us))} µs`);

/** A direction of a link, h1>s1, with an arrow. */
export const arrow = (name) => name.replace(">", " → ");

/** The wall clock, to the second. */
export function clock(timeMs) {
  const time = new Date(timeMs);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** The time of an event of today, the day and the time of an older one. */
export function when(timeMs) {
  const time = new Date(timeMs);
  if (time.toDateString() === new Date().toDateString()) return clock(timeMs);
  return `${[time.getMonth() + 1, time.getDate()].map((part) => String(part).padStart(2, "0")).join("-")} ${clock(timeMs).slice(0, 5)}`;
}

/** Parses 10k, 2.5M or 1G; null if the word is not a number. */
export function parseSize(word) {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]?)/i.exec(word);
  if (!match) return null;
  return Number(match[1]) * { "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 }[match[2].toLowerCase()];
}

const KEYS_KEPT = 20_000;
const keys = new Map();

function key(name) {
  let found = keys.get(name);
  if (found === undefined) {
    if (keys.size >= KEYS_KEPT) keys.clear();
    found = name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(16, "0"));
    keys.set(name, found);
  }
  return found;
}

/** Compares names in natural order: h2 before h10. */
export function natural(a, b) {
  const left = key(a);
  const right = key(b);
  return left < right ? -1 : left > right ? 1 : 0;
}

/** A function (name, most) that cuts a name to so many characters, first what all `names` begin and end with: …h1 */
export function shortener(names) {
  const same = (list) => {
    let at = 0;
    while (list.length && list.every((one) => at < one.length && one[at] === list[0][at])) at += 1;
    return list[0]?.slice(0, at).match(/^(.*[^a-z0-9])?/i)[0].length ?? 0; // whole words
  };
  const start = same(names);
  const end = same(names.map((name) => [...name].reverse().join("")));
  return (name, most) => {
    if (name.length <= most) return name;
    const middle = `${start ? "…" : ""}${name.slice(start, name.length - end)}${end && !start ? "…" : ""}`;
    return middle.length <= most ? middle : `${middle.slice(0, Math.max(1, most - 1))}…`;
  };
}
