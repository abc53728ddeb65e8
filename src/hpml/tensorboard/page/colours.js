// Ten colours that differ in print and for the colour-blind, after Okabe and Ito (2008), "Color
// universal design"; further ones are the same again, lighter.
"use strict";

const COLOURS = [
  ...["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"],
  ...["#D55E00", "#7F7F7F", "#B8A900", "#5E4FA2", "#8C564B"],
];

function colour(at, given) {
  if (given?.length) return given[at % given.length];
  const share = (at % (3 * COLOURS.length)) / COLOURS.length;
  return lighter(COLOURS[at % COLOURS.length], Math.floor(share) * 0.35);
}

function lighter(hex, share) {
  const parts = [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16));
  return `rgb(${parts.map((part) => Math.round(part + (255 - part) * share)).join(", ")})`;
}
