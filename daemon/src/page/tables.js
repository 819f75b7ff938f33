// Sorts a table by a click on the head of a column: rising, falling, then as it came. A table that has only a part of its rows is
// marked with `data-fixed`: to sort that would mislead.
"use strict";

// The order that the user chose for a table, by the table's name.
const orders = new Map();

// In the smallest unit of its kind, as `format.rs` writes them.
const UNITS = new Map([
  ["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40], ["PiB", 2 ** 50], ["EiB", 2 ** 60],
  ["µs", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60], ["h", 3600], ["%", 1], ["", 1],
]);

// The number that a text begins with, with all its units (`4 min 05 s`); `null` if it is none.
function numberOf(text) {
  const plain = text.replace(/(\d)\u202f(?=\d)/gu, "$1").trim();
  let sum = null;
  let end = 0;
  for (const part of plain.matchAll(/\s*(-?\d+(?:\.\d+)?)\s*([a-zµ%]*)/giuy)) {
    const unit = UNITS.get(part[2]);
    if (unit === undefined) {
      return null;
    }
    sum = (sum || 0) + Number(part[1]) * unit;
    end = part.index + part[0].length;
  }
  return end === plain.length || /[/(·]/u.test(plain[end]) ? sum : null;
}

// Numbers by size before texts by letters; nothing comes last.
function compare(left, right) {
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== null && b !== null) {
    return a - b;
  }
  if (a !== null || b !== null) {
    return a !== null ? -1 : 1;
  }
  if (left === "" || right === "") {
    return (left === "") - (right === "");
  }
  return left.localeCompare(right, undefined, { numeric: true });
}

function nameOf(table) {
  const caption = table.querySelector("caption");
  return table.id || (caption ? caption.textContent : "");
}

// Tables whose heads can be clicked.
function sortable(root) {
  return [...root.querySelectorAll("table:not([data-fixed])")].filter(
    (table) => table.tHead && table.tBodies.length === 1 && nameOf(table) !== "",
  );
}

function sortRows(table, { column, falls }) {
  const text = (row) => (row.cells[column] ? row.cells[column].textContent.trim() : "");
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: text(row) }));
  rows.sort((a, b) => (a.text === "" || b.text === "" || !falls ? compare(a.text, b.text) : compare(b.text, a.text)));
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

// On a phone each row of such a table is a card, whose cells name their columns.
function label(root) {
  for (const table of root.querySelectorAll("table.cards")) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const row of table.tBodies[0] ? table.tBodies[0].rows : []) {
      [...row.cells].forEach((cell, column) => {
        cell.dataset.label = names[column] || "";
      });
    }
  }
}

// Makes the heads of tables buttons, and sorts by what was chosen. The server's page has neither.
function dress(root) {
  label(root);
  for (const table of sortable(root)) {
    const order = orders.get(nameOf(table));
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      if (cell.textContent.trim() === "" || cell.classList.contains("scripted")) {
        return;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...cell.childNodes);
      cell.append(button);
      if (order && order.column === column) {
        cell.setAttribute("aria-sort", order.falls ? "descending" : "ascending");
      }
    });
    if (order) {
      sortRows(table, order);
    }
  }
}

function chooseOrder(button) {
  const cell = button.closest("th");
  const table = cell.closest("table");
  const [name, column, before] = [nameOf(table), cell.cellIndex, orders.get(nameOf(table))];
  if (!before || before.column !== column) {
    orders.set(name, { column, falls: cell.classList.contains("number") });
  } else if (before.falls === cell.classList.contains("number")) {
    orders.set(name, { column, falls: !before.falls });
  } else {
    orders.delete(name);
  }
  document.dispatchEvent(new Event("reorder"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.sort");
  if (button) {
    chooseOrder(button);
  }
});
