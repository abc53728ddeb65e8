// The names under which XProf's page looks for all this; it is loaded in place of its loader.
"use strict";

window.google = {
  charts: { safeLoad: () => {}, setOnLoadCallback: (call) => queueMicrotask(call) },
  visualization: {
    ...{ DataTable, DataView, NumberFormat, arrayToDataTable, Table },
    ...{ AreaChart, ColumnChart: ShareColumnChart, ComboChart, LineChart, PieChart },
    SteppedAreaChart,
    ...{ BarChart: NotDrawn, BubbleChart: NotDrawn, CandlestickChart: NotDrawn },
    ...{ Histogram: NotDrawn, ScatterChart: NotDrawn },
    events: { addListener },
  },
};
