// What all charts have in common: a box on the page, a canvas that Chart.js draws on, a selection.
"use strict";

Chart.defaults.animation = false;
Chart.defaults.color = "#333";
Chart.defaults.font.family = "Roboto, Helvetica, Arial, sans-serif";
Chart.defaults.plugins.legend.labels.boxWidth = 14;

const drawnIn = new WeakMap(); // element of the page → the chart in it

class CanvasChart {
  constructor(container) {
    this.container = container;
    this.selection = [];
  }

  // `table` is a DataTable; `options` are those of the page: title, height, colors, axes, legend.
  draw(table, options = {}) {
    // The page draws into a container again and again, and clears only some of the charts in it.
    drawnIn.get(this.container)?.clearChart();
    drawnIn.set(this.container, this);
    this.table = table;
    this.options = options;
    this.box = document.createElement("div");
    this.box.className = "chart-box";
    this.box.style.height = `${options.height ?? 300}px`;
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", options.title ?? "chart");
    this.box.append(canvas);
    this.container.replaceChildren(this.box);
    this.chart = new Chart(canvas, this.configuration(table, options));
    tell(this, "ready");
  }

  clearChart() {
    this.chart?.destroy();
    this.box?.remove();
    this.chart = this.box = undefined;
    this.selection = [];
  }

  getSelection() {
    return this.selection;
  }

  // The marks and the tooltip of the points at {row, column}; without any, none.
  setSelection(wanted = []) {
    this.selection = wanted;
    if (!this.chart) return;
    const shown = wanted.map((point) => this.element(point)).filter(Boolean);
    this.chart.setActiveElements(shown);
    this.chart.tooltip.setActiveElements(shown, { x: 0, y: 0 });
    this.chart.update("none");
  }

  // The column of the table → which series it is, and back.
  element({ row, column }) {
    const datasetIndex = this.table.series().findIndex((each) => each.at === column);
    return datasetIndex < 0 ? null : { datasetIndex, index: row };
  }

  point({ datasetIndex, index }) {
    return { row: index, column: this.table.series()[datasetIndex].at };
  }

  common(options) {
    return {
      responsive: true,
      maintainAspectRatio: false,
      layout: { padding: { right: 12 } },
      onClick: (_, elements) => {
        this.selection = elements.slice(0, 1).map((each) => this.point(each));
        setTimeout(() => tell(this, "select")); // the page may clear this chart
      },
      onHover: (event, elements) => {
        event.native.target.style.cursor = elements.length ? "pointer" : "default";
      },
      plugins: {
        title: { display: Boolean(options.title), text: options.title, font: { size: 14 } },
        legend: {
          display: (options.legend?.position ?? options.legend) !== "none",
          position: "bottom",
        },
        tooltip: { callbacks: this.tooltip() },
      },
    };
  }

  // The text of the table's tooltip column where there is one, and else the number.
  tooltip() {
    const column = (item) => this.table.series()[item.datasetIndex]?.tooltip;
    return {
      title: (items) => (items.length && !column(items[0]) ? this.heading(items[0]) : ""),
      label: (item) =>
        column(item)
          ? lines(this.table, item.dataIndex, column(item))
          : `${item.dataset.label}: ${inWords(item.parsed.y)}`,
    };
  }

  heading(item) {
    return this.table.written(item.dataIndex, 0);
  }
}

function axis(title, further = {}) {
  return {
    title: { display: Boolean(title), text: title ?? "" },
    ticks: { callback: withUnits, includeBounds: false },
    ...further,
  };
}

// 2500000 → "2.5M" on an axis, where the plugin's numbers are microseconds by the million
function withUnits(value) {
  return Number(value || 0).toLocaleString("en-US", {
    notation: Math.abs(value) >= 1e5 ? "compact" : "standard",
    maximumFractionDigits: 3,
  });
}
