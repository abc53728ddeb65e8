// Who listens to which chart: "select", "ready", "onmouseover", "onmouseout".
"use strict";

const listeners = new WeakMap(); // chart → {event: [function]}

function addListener(chart, event, call) {
  const known = listeners.get(chart) ?? {};
  known[event] = [...(known[event] ?? []), call];
  listeners.set(chart, known);
}

function tell(chart, event, what = {}) {
  (listeners.get(chart)?.[event] ?? []).forEach((call) => call(what));
}
