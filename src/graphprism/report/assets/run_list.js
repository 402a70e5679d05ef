"use strict";
// The list of runs: sorted by a click on a heading, filtered by words, by choices, and by the cell of a table.
(() => {
  const table = document.querySelector("table.runs");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const words = document.getElementById("filter");
  const choices = Array.from(document.querySelectorAll(".filters select"));
  const clear = document.getElementById("filter-clear");
  const count = document.getElementById("filter-count");
  let behind = null; // keys and label of the cell that was followed

  // The JSON of a run names every field, so that a search in it would find every run.
  const shown = (cell) => (cell.querySelector("summary") || cell).textContent;
  const text = new Map();
  const textOf = (row) => {
    if (!text.has(row)) text.set(row, Array.from(row.cells, shown).join(" ").toLowerCase());
    return text.get(row);
  };

  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows) {
      const fits = (!behind || behind.keys.has(row.dataset.key))
        && wanted.every((word) => textOf(row).includes(word))
        && choices.every((choice) => !choice.value || shown(row.cells[choice.dataset.column]) === choice.value);
      row.hidden = !fits;
      left += fits;
    }
    const all = rows.length === 1 ? "1 run" : `${rows.length.toLocaleString("en")} runs`;
    const part = left === rows.length ? all : `${left.toLocaleString("en")} of ${all}`;
    count.textContent = behind ? `${part}, ${behind.label}` : part;
    clear.hidden = left === rows.length && !behind;
  };

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.v === undefined ? shown(cell) : cell.dataset.v;
    return raw === "" ? null : !Number.isNaN(Number(raw)) ? Number(raw) : raw;
  };
  const compare = (a, b) => typeof a === typeof b
    ? (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }))
    : typeof a === "number" ? -1 : 1;
  const sort = (heading, column) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = rows.map((row) => [valueOf(row, column), row]);
    // A run without a value has no place in an order: it stays below in both.
    keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b));
    body.append(...keyed.map(([, row]) => row));
  };

  words.addEventListener("input", filter);
  for (const choice of choices) choice.addEventListener("change", filter);
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) =>
    heading.firstElementChild.addEventListener("click", () => sort(heading, column)));
  clear.addEventListener("click", () => {
    behind = null;
    words.value = "";
    for (const choice of choices) choice.value = "";
    filter();
    words.focus();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-runs]");
    if (!link) return;
    behind = { keys: new Set(link.dataset.runs.split(" ")), label: link.dataset.label };
    filter();
  });
  filter(); // a browser that comes back to the page keeps what was typed
})();
