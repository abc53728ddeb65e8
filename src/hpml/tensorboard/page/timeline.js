// Bars from a start to an end, in a row for each layer: columns layer, name, tooltip, start, end.
"use strict";

class Timeline extends CanvasChart {
  configuration(table, options) {
    const [start, end] = [table.columns.length - 2, table.columns.length - 1];
    const layers = [...new Set(labels(table))];
    const names = [...new Set(table.rows.map((_, row) => table.value(row, 1)))];
    // A clock that began when the machine did: only times since the first event say something.
    const begin = table.rows.reduce((least, _, row) => Math.min(least, table.value(row, start)), Infinity);
    const data = table.rows.map((_, row) => ({
      x: [table.value(row, start) - begin, table.value(row, end) - begin],
      y: String(table.value(row, 0)),
    }));
    const last = data.reduce((most, { x }) => Math.max(most, x[1]), 0);
    this.zoom = new Zoom(this, { min: 0, max: last });
    const common = this.common({ ...options, legend: "none" });
    common.plugins.tooltip.callbacks = {
      title: () => "",
      label: (item) => lines(table, item.dataIndex, 2),
    };
    return {
      type: "bar",
      data: {
        labels: layers,
        datasets: [
          {
            data,
            backgroundColor: table.rows.map((_, row) => colour(names.indexOf(table.value(row, 1)))),
            ...{ grouped: false, minBarLength: 1, borderColor: "#fff", borderWidth: 0.5 },
            ...{ borderSkipped: false, barPercentage: 0.95, categoryPercentage: 0.95 },
          },
        ],
      },
      options: {
        ...common,
        indexAxis: "y",
        scales: {
          x: axis("Time since the first event (ms)", { type: "linear", ...this.zoom.whole }),
          y: { display: false },
        },
      },
      plugins: [{ id: "names", afterDatasetsDraw: (chart) => this.write(chart) }],
    };
  }

  draw(table, options) {
    super.draw(table, { ...options, height: (options.height ?? 200) + 40 });
    this.zoom.listen();
  }

  // A bar's name, where there is room for it.
  write(chart) {
    const { ctx, chartArea } = chart;
    ctx.save();
    ctx.font = "12px Roboto, Arial, sans-serif";
    ctx.fillStyle = "#fff";
    ctx.textBaseline = "middle";
    chart.getDatasetMeta(0).data.forEach((bar, row) => {
      const { x, base, y } = bar.getProps(["x", "base", "y"], true);
      const left = Math.max(Math.min(x, base), chartArea.left);
      const width = Math.min(Math.max(x, base), chartArea.right) - left;
      const name = String(this.table.value(row, 1));
      if (ctx.measureText(name).width + 8 < width) ctx.fillText(name, left + 4, y);
    });
    ctx.restore();
  }

  element({ row }) {
    return { datasetIndex: 0, index: row };
  }

  point({ index }) {
    return { row: index, column: null };
  }
}
