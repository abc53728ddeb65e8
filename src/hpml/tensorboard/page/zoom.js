// Drag over a part of a chart, and its horizontal axis shows that part; double click shows it all.
"use strict";

const SMALLEST = 1e-6; // of the whole axis

class Zoom {
  // `whole` is {min, max} of the axis; `besides` is what else on the page follows what is shown.
  constructor(owner, whole, besides = "") {
    this.owner = owner;
    this.whole = whole;
    this.besides = besides;
  }

  listen() {
    const { box } = this.owner;
    this.caption = document.createElement("div");
    this.caption.className = "chart-caption";
    box.after(this.caption);
    this.say();
    this.band = document.createElement("div");
    this.band.className = "chart-band";
    box.append(this.band);
    box.addEventListener("pointerdown", (event) => this.begin(event));
    box.addEventListener("dblclick", () => this.show(this.whole));
    box.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.show(this.whole);
    });
  }

  begin(event) {
    if (event.button !== 0) return;
    const { box } = this.owner;
    const from = this.pixel(event);
    let to = from;
    const move = (moved) => {
      to = this.pixel(moved);
      this.band.style.left = `${Math.min(from, to)}px`;
      this.band.style.width = `${Math.abs(to - from)}px`;
      this.band.style.display = "block";
    };
    const end = () => {
      window.removeEventListener("pointermove", move);
      this.band.style.display = "none";
      if (Math.abs(to - from) < 5) return; // a click
      const [min, max] = [Math.min(from, to), Math.max(from, to)].map((pixel) => this.at(pixel));
      this.show({ min, max });
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", end, { once: true });
  }

  // Within the chart's area, from the left edge of its box.
  pixel(event) {
    const { left, right } = this.owner.chart.chartArea;
    const x = event.clientX - this.owner.box.getBoundingClientRect().left;
    return Math.min(Math.max(x, left), right);
  }

  at(pixel) {
    return this.owner.chart.scales.x.getValueForPixel(pixel);
  }

  show({ min, max }) {
    const { chart } = this.owner;
    if (max - min < SMALLEST * (this.whole.max - this.whole.min)) return;
    Object.assign(chart.options.scales.x, { min, max });
    chart.update("none");
    this.say();
    tell(this.owner, "zoom");
  }

  // The page looks at the axis again when something in the chart's box on the page changes.
  say() {
    const { min = this.whole.min, max = this.whole.max } = this.owner.chart.options.scales.x;
    const part = min === this.whole.min && max === this.whole.max ? "all" : "a part";
    this.caption.textContent =
      part === "all"
        ? `Drag over a part to see it alone${this.besides}.`
        : `From ${inWords(min)} to ${inWords(max)}. Double click: all of it.`;
  }
}
