// Numbers and tooltips as text. No text of a trace becomes HTML of this page.
"use strict";

// 12345.678 → "12,345.68"; small numbers keep three digits.
function inWords(value) {
  const digits = Math.abs(value) >= 1 || value === 0 ? 2 : undefined;
  const options = digits === undefined ? { maximumSignificantDigits: 3 } : {};
  return value.toLocaleString("en-US", { maximumFractionDigits: digits, ...options });
}

// The lines of a tooltip that the plugin wrote in HTML, with <br> between them.
function linesOf(html) {
  const marked = String(html).replace(/<br\s*\/?>/gi, "\n");
  const inert = new DOMParser().parseFromString(marked, "text/html"); // runs and loads nothing
  return inert.body.textContent.split("\n").map((line) => line.trim()).filter(Boolean);
}

function lines(table, row, tooltip) {
  const text = table.value(row, tooltip) ?? "";
  return table.columns[tooltip].p?.html ? linesOf(text) : String(text).split("\n");
}

// "aten::convolution_backward" → as much of it as fits, so that an axis or a legend keeps its place
function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
