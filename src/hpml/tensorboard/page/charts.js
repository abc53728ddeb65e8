// The kinds of charts that torch_tb_profiler's page draws, each as Chart.js draws it.
"use strict";

// The series of a table as bars over its rows.
function bars(table, options) {
  return table.series().map(({ at, label }, number) => ({
    label,
    data: table.rows.map((_, row) => table.value(row, at)),
    backgroundColor: colour(number, options.colors),
  }));
}

function labels(table) {
  return table.rows.map((_, row) => String(table.value(row, 0)));
}

// On an axis, in Chart.js's words: `this` is the axis, and what it hands over a row's number.
function shortLabel(row) {
  return shortened(this.getLabelForValue(row), 24);
}

class ColumnChart extends CanvasChart {
  configuration(table, options) {
    const stacked = Boolean(options.isStacked);
    return {
      type: "bar",
      data: { labels: labels(table), datasets: bars(table, options).map(this.shape) },
      options: {
        ...this.common(options),
        scales: {
          x: { stacked, title: axis(options.hAxis?.title).title, grid: { display: false } },
          y: axis(options.vAxis?.title, { stacked, beginAtZero: true }),
        },
      },
    };
  }

  shape(dataset) {
    return { ...dataset, maxBarThickness: 90 };
  }
}

// Bars that touch are the steps of a stacked area, with each step as wide as any other.
class SteppedAreaChart extends ColumnChart {
  configuration(table, options) {
    return options.isStacked ? super.configuration(table, options) : steps(this, table, options);
  }

  shape(dataset) {
    return { ...dataset, barPercentage: 0.98, categoryPercentage: 1 };
  }
}

function steps(chart, table, options) {
  const datasets = bars(table, options).map((dataset) => ({
    ...dataset,
    borderColor: dataset.backgroundColor,
    backgroundColor: `${dataset.backgroundColor.replace("rgb", "rgba").replace(")", ", 0.3)")}`,
    ...{ stepped: "middle", fill: "origin", pointRadius: 2 },
  }));
  const scales = {
    x: { grid: { display: false }, ticks: { callback: shortLabel } },
    y: axis(options.vAxis?.title),
  };
  return {
    type: "line",
    data: { labels: labels(table), datasets },
    options: { ...chart.common(options), scales },
  };
}

// Bars on the left axis, lines on the right one, as options.series says for each.
class ComboChart extends CanvasChart {
  configuration(table, options) {
    const datasets = bars(table, options).map((dataset, number) => {
      const { type = "bars", targetAxisIndex = 0 } = options.series?.[number] ?? {};
      return {
        ...dataset,
        ...{ type: type === "line" ? "line" : "bar", order: type === "line" ? 0 : 1 },
        ...{ borderColor: dataset.backgroundColor, yAxisID: targetAxisIndex ? "right" : "y" },
      };
    });
    const right = datasets.some((dataset) => dataset.yAxisID === "right");
    const names = (id) => datasets.filter((each) => each.yAxisID === id).map((each) => each.label);
    return {
      type: "bar",
      data: { labels: labels(table), datasets },
      options: {
        ...this.common(options),
        scales: {
          x: { grid: { display: false }, ticks: { callback: shortLabel } },
          y: axis(names("y").join(", "), { beginAtZero: true }),
          ...(right && {
            right: axis(names("right").join(", "), {
              ...{ beginAtZero: true, position: "right", grid: { drawOnChartArea: false } },
            }),
          }),
        },
      },
    };
  }
}

// Numbers over a number; dragging over a part shows that part alone.
class LineChart extends CanvasChart {
  configuration(table, options) {
    const at = table.rows.map((_, row) => table.value(row, 0));
    const datasets = table.series().map(({ at: column, label }, number) => ({
      label,
      data: table.rows.map((_, row) => ({ x: at[row], y: table.value(row, column) })),
      borderColor: colour(number, options.colors),
      backgroundColor: colour(number, options.colors),
      ...{ borderWidth: 1.5, pointRadius: 0, pointHoverRadius: 5 },
    }));
    const whole = { min: at.at(0), max: at.at(-1) };
    this.zoom = new Zoom(this, whole, ", and only its events in the table below");
    return {
      type: "line",
      data: { datasets },
      options: {
        ...this.common(options),
        ...{ parsing: false, interaction: { mode: "nearest", axis: "x", intersect: false } },
        scales: {
          x: axis(options.hAxis?.title, { type: "linear", ...this.zoom.whole }),
          y: axis(options.vAxis?.title),
        },
      },
    };
  }

  draw(table, options) {
    super.draw(table, options);
    if (options.explorer) this.zoom.listen();
  }

  heading(item) {
    return `${this.table.columns[0].label}: ${inWords(item.parsed.x)}`;
  }

  // Where the page looks up which part of the axis is shown. It goes on looking at a chart that it
  // has cleared: that one shows what it showed last.
  getChartLayoutInterface() {
    if (this.chart) {
      const { left, top, width, height } = this.chart.chartArea;
      const { min, max } = this.chart.scales.x;
      this.layout = {
        getChartAreaBoundingBox: () => ({ left, top, width, height }),
        getHAxisValue: (pixel) => min + ((pixel - left) / width) * (max - min),
      };
    }
    return this.layout;
  }
}

class PieChart extends CanvasChart {
  configuration(table, options) {
    const values = table.rows.map((_, row) => table.value(row, 1));
    const sum = values.reduce((total, value) => total + value, 0);
    const share = (value) => `${((100 * value) / (sum || 1)).toFixed(1)}%`;
    const common = this.common(options);
    const percentage = options.tooltip?.text === "percentage";
    this.under = undefined;
    common.onHover = (_, elements) => this.over(elements[0]?.index);
    common.plugins.tooltip.callbacks = {
      title: (items) => labels(table)[items[0]?.dataIndex] ?? "",
      label: ({ parsed }) =>
        percentage ? share(parsed) : `${inWords(parsed)} (${share(parsed)})`,
    };
    common.plugins.legend = {
      display: options.legend !== "none",
      position: this.container.clientWidth < 300 ? "bottom" : "right",
      labels: { boxWidth: 12, generateLabels: (chart) => this.legend(chart, table, share) },
    };
    return {
      type: "doughnut",
      data: {
        labels: labels(table),
        datasets: [
          {
            data: values,
            backgroundColor: values.map((_, row) => colour(row, options.colors)),
            borderWidth: 1,
          },
        ],
      },
      options: { ...common, cutout: `${100 * (options.pieHole ?? 0)}%` },
    };
  }

  // Name and share of each part, as in print nobody can point at one.
  legend(chart, table, share) {
    const beside = chart.options.plugins.legend.position === "right";
    const length = beside ? Math.floor(chart.width / 2 / 7.5) - 9 : 20; // characters of 7.5 pixels
    const all = Chart.overrides.doughnut.plugins.legend.labels.generateLabels(chart);
    return all.slice(0, 10).map((entry, row) => ({
      ...entry,
      text: `${share(table.value(row, 1))} ${shortened(labels(table)[row], length)}`,
    }));
  }

  over(row) {
    if (row === this.under) return;
    if (this.under !== undefined) tell(this, "onmouseout", { row: this.under });
    this.under = row;
    if (row !== undefined) tell(this, "onmouseover", { row });
  }

  element({ row }) {
    return { datasetIndex: 0, index: row };
  }

  point({ index }) {
    return { row: index, column: null };
  }
}
