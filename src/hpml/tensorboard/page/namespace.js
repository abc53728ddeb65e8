// The names under which the page looks for all this. There is nothing to load: it is here.
"use strict";

window.google = {
  charts: { load: () => Promise.resolve(), setOnLoadCallback: (call) => queueMicrotask(call) },
  visualization: {
    ...{ DataTable, arrayToDataTable, Table, Timeline },
    ...{ ColumnChart, ComboChart, LineChart, PieChart, SteppedAreaChart },
    events: { addListener },
  },
};
