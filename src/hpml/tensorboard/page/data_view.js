// What XProf's page does with a table beyond those of torch_tb_profiler: it looks cells up, leaves
// columns out, and writes numbers in its own way. A view is a copy: the page makes a new one for
// each drawing.
"use strict";

Object.assign(DataTable.prototype, {
  getNumberOfRows() {
    return this.rows.length;
  },

  getNumberOfColumns() {
    return this.columns.length;
  },

  getColumnId(column) {
    return this.columns[column].id ?? "";
  },

  // The number of the column with that name, or -1.
  getColumnIndex(name) {
    return this.columns.findIndex(({ id }) => id === name);
  },

  getValue(row, column) {
    return this.value(row, column);
  },

  setValue(row, column, value) {
    this.rows[row][column] = value;
  },

  // Only these columns, in this order; what was said of single cells goes along.
  keep(columns) {
    const properties = new Map();
    this.properties.forEach((value, key) => {
      const [row, column] = key.split(",").map(Number);
      if (columns.includes(column)) properties.set(`${row},${columns.indexOf(column)}`, value);
    });
    this.properties = properties;
    this.columns = columns.map((column) => this.columns[column]);
    this.rows = this.rows.map((cells) => columns.map((column) => cells[column]));
  },
});

class DataView extends DataTable {
  constructor(table) {
    super();
    this.columns = [...table.columns];
    this.rows = table.rows.map((cells) => [...cells]);
    this.properties = new Map(table.properties);
  }

  setColumns(columns) {
    this.keep(columns);
  }

  toDataTable() {
    return this;
  }
}

// {pattern: "##.#%"} writes 0.4262 as "42.6%"; {fractionDigits: 0} writes 101.98 as "102".
class NumberFormat {
  constructor({ pattern = "", fractionDigits } = {}) {
    const decimals = pattern.split(".")[1] ?? "";
    this.options = {
      style: pattern.endsWith("%") ? "percent" : "decimal",
      minimumFractionDigits: fractionDigits ?? (decimals.match(/0/g) ?? []).length,
      maximumFractionDigits: fractionDigits ?? (decimals.match(/[0#]/g) ?? []).length,
    };
  }

  // Written so in the column from here on; cells without a number stay as they are.
  format(table, column) {
    table.rows.forEach((cells, row) => {
      const v = table.value(row, column);
      if (typeof v !== "number") return;
      cells[column] = { v, f: v.toLocaleString("en-US", this.options) };
    });
  }
}
