// All columns at the side: which are shown, and everything that is known of them.

import { el } from "./dom.js";
import { count, percent, statText } from "./format.js";
import { sparkline, topValues } from "./spark.js";

/** What is known of a column, in full. */
export function fullStats(state, column) {
  const stats = state.stats.get(column.name);
  if (!stats) return [el("p", { class: "note", text: state.can("stats") ? "Counting…" : "This server has no statistics." })];
  const rows = state.manifest.rows;
  const facts = [
    ["Type", column.type],
    ["Empty", stats.nulls ? `${count(stats.nulls)} (${percent(stats.nulls, rows)})` : "none"],
    stats.distinct !== undefined && ["Distinct", `${stats.distinct > 1000 ? "about " : ""}${count(stats.distinct)}`],
    stats.min !== undefined && ["Minimum", statText(stats.min, column.kind)],
    stats.max !== undefined && ["Maximum", statText(stats.max, column.kind)],
    stats.mean !== undefined && ["Mean", statText(stats.mean, "number")],
  ].filter(Boolean);
  const list = el("dl", { class: "facts" });
  for (const [name, value] of facts) list.append(el("dt", { text: name }), el("dd", { text: value }));
  const filter = (filters) => state.setFilters(column.name, filters);
  const nodes = [column.description && el("p", { text: column.description }), list];
  if (stats.histogram?.length) {
    const onPick = state.can("filter") ? (bin) => filter([{ column: column.name, op: "ge", value: bin.from }, { column: column.name, op: "le", value: bin.to }]) : undefined;
    const ends = el("div", { class: "ends" }, el("span", { text: statText(stats.histogram[0].from, column.kind) }), el("span", { text: statText(stats.histogram.at(-1).to, column.kind) }));
    nodes.push(el("div", { class: "bigspark" }, sparkline(stats.histogram, column, { width: 260, height: 72, onPick }), ends));
  }
  if (stats.frequent?.length) {
    const onPick = state.can("filter") ? (value) => filter([{ column: column.name, op: "in", value: [value] }]) : undefined;
    nodes.push(topValues(stats, column, rows, { most: 10, onPick }));
  }
  return nodes;
}

/** The panel of columns. */
export function columnPanel(state, opened) {
  const items = state.columns.map((column) => item(state, column, opened));
  const search = el("input", { type: "search", placeholder: "Find a column", "aria-label": "Find a column" });
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const { node, column } of items) node.hidden = !column.name.toLowerCase().includes(wanted);
  });
  const set = (names) => {
    state.setHidden(names);
    for (const { box, column } of items) box.checked = !state.hidden.has(column.name);
  };
  const all = el("button", { type: "button", text: "Show all", onclick: () => set([]) });
  const first = el("button", { type: "button", text: "Hide all but the first", onclick: () => set(state.columns.slice(1).map((column) => column.name)) });
  return [el("div", { class: "pair" }, search), el("div", { class: "buttons start" }, all, first), el("ul", { class: "columns" }, ...items.map(({ node }) => node))];
}

function item(state, column, opened) {
  const box = el("input", { type: "checkbox", checked: !state.hidden.has(column.name), "aria-label": `Show ${column.name}` });
  box.addEventListener("change", () => {
    const hidden = new Set(state.hidden);
    if (box.checked) hidden.delete(column.name);
    else hidden.add(column.name);
    // A table without columns shows nothing at all.
    if (hidden.size === state.columns.length) box.checked = true;
    else state.setHidden(hidden);
  });
  const inside = el("div", { class: "known" });
  const details = el("details", {}, el("summary", {}, el("span", { class: "name", text: column.name }), el("small", { text: column.type })), inside);
  const show = () => details.open && inside.replaceChildren(...fullStats(state, column).filter(Boolean));
  details.addEventListener("toggle", show);
  details.open = opened.has(column.name);
  details.addEventListener("toggle", () => (details.open ? opened.add(column.name) : opened.delete(column.name)));
  return { column, box, node: el("li", {}, box, details) };
}
