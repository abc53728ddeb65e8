// A table with a page of rows at a time, sorted by the column whose heading is clicked.
"use strict";

class Table {
  constructor(container) {
    this.container = container;
  }

  draw(table, options = {}) {
    this.table = table;
    this.pageSize = options.page === "enable" ? (options.pageSize ?? 10) : Infinity;
    this.page = 0;
    this.sorted = table.columns.findIndex((column) => column.label === options.sortColumn);
    if (typeof options.sortColumn === "number") this.sorted = options.sortColumn;
    this.ascending = options.sortAscending ?? true;
    this.box = document.createElement("div");
    this.box.className = "chart-table";
    this.box.style.height = options.height ?? "auto";
    this.container.replaceChildren(this.box); // the page never clears a table itself
    this.fill();
    tell(this, "ready");
  }

  clearChart() {
    this.box?.remove();
  }

  // The numbers of the rows, in the order in which they are shown.
  order() {
    const rows = this.table.rows.map((_, row) => row);
    if (this.sorted < 0) return rows;
    const sign = this.ascending ? 1 : -1;
    const value = (row) => this.table.value(row, this.sorted);
    const greater = (a, b) => (value(a) > value(b)) - (value(a) < value(b));
    return rows.sort((a, b) => sign * greater(a, b) || a - b);
  }

  fill() {
    const { table } = this;
    const element = document.createElement("table");
    const head = element.createTHead().insertRow();
    table.columns.forEach(({ label, type }, at) => {
      const cell = document.createElement("th");
      const mark = at === this.sorted ? (this.ascending ? " ▲" : " ▼") : "";
      cell.textContent = label + mark;
      cell.className = type;
      cell.addEventListener("click", () => this.sort(at));
      head.append(cell);
    });
    const body = element.createTBody();
    const from = this.page && this.page * this.pageSize; // 0 × Infinity is not a number
    this.order()
      .slice(from, from + this.pageSize)
      .forEach((row) => this.addRow(body, row));
    this.box.replaceChildren(element, ...this.pager());
  }

  addRow(body, row) {
    const line = body.insertRow();
    this.table.columns.forEach(({ type }, at) => {
      const cell = line.insertCell();
      cell.textContent = this.table.written(row, at); // never as HTML
      cell.className = type;
      cell.style.cssText = this.table.property(row, at, "style") ?? "";
    });
  }

  pager() {
    const pages = Math.ceil(this.table.rows.length / this.pageSize);
    if (pages <= 1) return [];
    const box = document.createElement("div");
    const turn = (text, page) => {
      const button = document.createElement("button");
      button.textContent = text;
      button.disabled = page < 0 || page >= pages;
      button.addEventListener("click", () => {
        this.page = page;
        this.fill();
      });
      return button;
    };
    const where = ` page ${this.page + 1} of ${pages} `;
    box.append(turn("‹", this.page - 1), where, turn("›", this.page + 1));
    return [box];
  }

  sort(at) {
    this.ascending = at === this.sorted ? !this.ascending : this.table.columns[at].type !== "number";
    this.sorted = at;
    this.page = 0;
    this.fill();
  }
}
