// Charts of XProf's page in which the series are stacked: over steps, or as shares of one sum.
"use strict";

// Areas on top of each other, with a point for each row. A series that is zero throughout has no
// entry in the legend: on a CPU most of those that XProf knows are.
class AreaChart extends CanvasChart {
  configuration(table, options) {
    const stacked = Boolean(options.isStacked);
    const datasets = bars(table, options).map((dataset) => ({
      ...dataset,
      borderColor: dataset.backgroundColor,
      ...{ fill: stacked ? "stack" : "origin", borderWidth: 1, pointRadius: 0 },
    }));
    const common = this.common(options);
    common.plugins.legend.labels = {
      filter: ({ datasetIndex }) => datasets[datasetIndex].data.some((value) => value !== 0),
    };
    return {
      type: "line",
      data: { labels: labels(table), datasets },
      options: {
        ...common,
        interaction: { mode: "nearest", axis: "x", intersect: false },
        scales: {
          x: {
            title: axis(options.hAxis?.title).title,
            ticks: { callback: shortLabel },
            grid: { display: false },
          },
          y: axis(options.vAxis?.title, { stacked, beginAtZero: true }),
        },
      },
    };
  }

  // With further axes on its right it is XProf's memory profile; areas alone would be wrong there.
  draw(table, options) {
    if (options.series) sayNotDrawn(this.container);
    else super.draw(table, options);
  }
}

function sayNotDrawn(container) {
  const text = document.createElement("p");
  text.textContent = "A chart of this kind is drawn only where there is internet, by XProf itself.";
  container.replaceChildren(text);
}

// A column chart; with `isStacked` "percent" each column is 100 %, and the tooltip has the numbers.
class ShareColumnChart extends ColumnChart {
  configuration(table, options) {
    const found = super.configuration(table, options);
    if (options.isStacked !== "percent") return found;
    const sum = table.rows.map((_, row) =>
      table.series().reduce((total, { at }) => total + table.value(row, at), 0),
    );
    found.data.datasets.forEach((dataset) => {
      dataset.numbers = dataset.data;
      dataset.data = dataset.data.map((value, row) => (100 * value) / (sum[row] || 1));
    });
    found.options.plugins.tooltip.callbacks.label = ({ dataset, dataIndex, parsed }) =>
      `${dataset.label}: ${inWords(dataset.numbers[dataIndex])} (${parsed.y.toFixed(1)}%)`;
    found.options.scales.y = axis("% of the sum", { stacked: true, min: 0, max: 100 });
    return found;
  }
}

// In place of a kind of chart that only other pages of XProf's have.
class NotDrawn {
  constructor(container) {
    this.container = container;
  }

  draw() {
    sayNotDrawn(this.container);
    tell(this, "ready");
  }

  clearChart() {
    this.container.replaceChildren();
  }

  getSelection() {
    return [];
  }
}
