// A table of cells that charts are drawn from: columns with a type, a label and perhaps a role.
//
// Classic scripts, not modules: the page's own script runs before a module would, and these share
// their top-level names. What the page asks for is at the end, in namespace.js.
"use strict";

class DataTable {
  // Without `content`, an empty one; with it, {cols: [column], rows: [{c: [cell]}]}.
  constructor(content) {
    this.columns = []; // {type, label, id, role, p}
    this.rows = []; // lists of cells
    this.properties = new Map(); // "row,column" → {name: value}
    content?.cols?.forEach((column) => this.addColumn(column));
    content?.rows?.forEach(({ c }) => this.addRow([...c]));
  }

  addColumn({ type, label, id, role, p }) {
    this.columns.push({ type, label: label ?? id ?? "", id, role: role ?? p?.role, p });
  }

  addRow(cells) {
    this.rows.push(cells);
  }

  addRows(rows) {
    rows.forEach((cells) => this.addRow(cells));
  }

  setProperty(row, column, name, value) {
    const key = `${row},${column}`;
    this.properties.set(key, { ...this.properties.get(key), [name]: value });
  }

  property(row, column, name) {
    return this.properties.get(`${row},${column}`)?.[name];
  }

  // A cell is a value, or {v: value, f: how it is written}.
  value(row, column) {
    const cell = this.rows[row][column];
    return cell !== null && typeof cell === "object" && "v" in cell ? cell.v : cell;
  }

  written(row, column) {
    const cell = this.rows[row][column];
    if (cell !== null && typeof cell === "object" && "f" in cell) return String(cell.f);
    const value = this.value(row, column);
    return typeof value === "number" ? inWords(value) : String(value ?? "");
  }

  // The columns that are drawn, each with the column of its tooltip's text where it has one.
  series() {
    const found = [];
    this.columns.forEach((column, at) => {
      if (at === 0) return;
      if (column.role === undefined) found.push({ at, label: column.label, tooltip: null });
      else if (column.role === "tooltip" && found.length) found.at(-1).tooltip = at;
    });
    return found;
  }
}

// The first row holds the labels; a column's type is that of its first cell.
function arrayToDataTable(rows) {
  const table = new DataTable();
  rows[0].forEach((label, at) =>
    table.addColumn({ label, type: typeof rows[1]?.[at] === "number" ? "number" : "string" }),
  );
  table.addRows(rows.slice(1));
  return table;
}
