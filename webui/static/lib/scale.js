// The colours of load: cividis (Nuñez, Anderton, Renslow 2018), which suits every kind of colour vision and is even in lightness.
// A higher load contrasts more with the background: bright on dark, dark on light, so that loaded links stand out.

const CIVIDIS = [
  "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
].map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

function cividis(part) {
  const at = Math.min(Math.max(part, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  const [a, b] = [CIVIDIS[low], CIVIDIS[low + 1]];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * (at - low))).join(" ")})`;
}

/** The colour of a load from 0 to 1, in the present theme. */
export function loadColour(load, dark = isDark()) {
  return dark ? cividis(0.2 + 0.8 * load) : cividis(0.86 - 0.86 * load);
}

/** A CSS gradient of the whole scale, for a legend. */
export function loadGradient(dark = isDark()) {
  const stops = Array.from({ length: 11 }, (_, i) => `${loadColour(i / 10, dark)} ${i * 10}%`);
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

// Destinations in the timeline: eight colours that differ for every kind of colour vision (after Okabe and Ito).
// The slot also shows the destination's name, and so does hovering.
const DARK = ["#56b4e9", "#e69f00", "#2fc6a0", "#e58fc0", "#f0e442", "#6f9dff", "#ff8a5c", "#b9c4cf"];
const LIGHT = ["#0072b2", "#b87900", "#00836a", "#b04e86", "#7a7300", "#3a56c5", "#c4480a", "#586674"];

export const destinationColour = (node, dark = isDark()) => (dark ? DARK : LIGHT)[node % 8];
