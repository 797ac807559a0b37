// What is asked of a column: a form by its kind, and a chip for each answer.

import { el, icon } from "./dom.js";
import { cellText, count, isDay, statText } from "./format.js";
import { sparkline } from "./spark.js";
import { closePopover, openPopover } from "./popover.js";

const WORDS = { eq: "is", ne: "is not", lt: "<", le: "≤", gt: ">", ge: "≥", in: "is", contains: "contains", starts_with: "begins with", is_null: "is empty", not_null: "is not empty" };

/** A filter in words. */
export function filterText(filter, column) {
  const { op, value } = filter;
  const name = filter.column;
  if (op === "is_null" || op === "not_null") return `${name} ${WORDS[op]}`;
  const text = (it) => cellText(it, column?.kind) || "(empty text)";
  if (op === "in") return `${name} ${WORDS.in} ${value.slice(0, 3).map(text).join(", ")}${value.length > 3 ? ` and ${value.length - 3} more` : ""}`;
  return `${name} ${WORDS[op] ?? op} ${text(value)}`;
}

/** The chips of all filters. */
export function chips(state) {
  const row = el("div", { class: "chips", role: "group", "aria-label": "Filters" });
  for (const filter of state.filter) {
    const text = filterText(filter, state.column(filter.column));
    const away = () => state.setFilters(filter.column, state.filtersOf(filter.column).filter((it) => it !== filter));
    row.append(el("button", { type: "button", class: "chip", "aria-label": `Remove filter: ${text}`, onclick: away }, el("span", { text }), icon("close")));
  }
  if (state.filter.length > 1) row.append(el("button", { type: "button", class: "quiet words", text: "Clear all", onclick: () => state.clearFilters() }));
  row.hidden = !state.filter.length;
  return row;
}

/** Opens the form of a column's filter. */
export function openFilter(state, column, opener) {
  const stats = state.stats.get(column.name);
  const now = state.filtersOf(column.name);
  const form = FORMS[column.kind] ?? FORMS.text;
  const fields = form(column, stats, now, state);
  const nothing = el("select", { "aria-label": "Empty cells" }, ...[["", "Any cell"], ["not_null", "Only cells that are not empty"], ["is_null", "Only empty cells"]].map(([value, text]) => el("option", { value, text })));
  nothing.value = now.find((it) => it.op === "is_null" || it.op === "not_null")?.op ?? "";
  const apply = () => {
    const wanted = nothing.value === "is_null" ? [] : fields.read();
    if (nothing.value) wanted.push({ column: column.name, op: nothing.value });
    closePopover();
    state.setFilters(column.name, wanted);
  };
  const clear = () => (closePopover(), state.setFilters(column.name, []));
  const buttons = el("div", { class: "buttons" }, el("button", { type: "button", text: "Clear", onclick: clear, disabled: !now.length }), el("button", { type: "button", class: "main", text: "Apply", onclick: apply }));
  // No form: a host's frame that may not submit any does not even say that somebody tried.
  const enter = (event) => event.key === "Enter" && event.target.matches("input") && (event.preventDefault(), apply());
  const body = el("div", { class: "form", onkeydown: enter }, el("h2", { text: column.name }), ...fields.nodes, nothing, buttons);
  openPopover(opener, `Filter ${column.name}`, [body]);
}

function field(label, input) {
  return el("label", { class: "field" }, el("span", { text: label }), input);
}

function valueOf(filters, ...ops) {
  return filters.find((it) => ops.includes(it.op))?.value ?? "";
}

function rangeForm(column, stats, now, type, toValue, fromValue) {
  const make = (value, hint) => el("input", { type, step: type === "number" ? "any" : type === "date" ? null : "1", value: fromValue(value), placeholder: hint === undefined ? "" : String(fromValue(hint)) });
  const from = make(valueOf(now, "ge", "gt"), stats?.min);
  const to = make(valueOf(now, "le", "lt"), stats?.max);
  const nodes = [field("From", from), field("To", to)];
  if (stats?.histogram?.length) {
    const onPick = (bin) => ((from.value = fromValue(bin.from)), (to.value = fromValue(bin.to)));
    nodes.unshift(el("div", { class: "formspark" }, sparkline(stats.histogram, column, { width: 220, height: 44, onPick })));
  }
  const read = () => {
    const wanted = [];
    if (from.value !== "") wanted.push({ column: column.name, op: "ge", value: toValue(from.value) });
    if (to.value !== "") wanted.push({ column: column.name, op: "le", value: toValue(to.value) });
    return wanted;
  };
  return { nodes, read };
}

/** As the column's values are written: with a zone if they have one. */
function momentValue(text, stats) {
  const whole = text.length === 16 ? `${text}:00` : text;
  return /Z$|[+-]\d\d:\d\d$/.test(String(stats?.min ?? "Z")) ? `${whole}Z` : whole;
}

const FORMS = {
  number: (column, stats, now) => rangeForm(column, stats, now, "number", Number, (it) => (it === "" ? "" : String(it))),
  time: (column, stats, now) => {
    if (isDay(column)) return rangeForm(column, stats, now, "date", String, (it) => String(it).slice(0, 10));
    return rangeForm(column, stats, now, "datetime-local", (it) => momentValue(it, stats), (it) => String(it).slice(0, 19));
  },
  boolean: (column, _stats, now) => {
    const value = valueOf(now, "eq");
    const first = valueOf(now, "in");
    const select = el("select", { "aria-label": column.name }, ...[["", "Yes or no"], ["true", "Yes"], ["false", "No"]].map(([it, text]) => el("option", { value: it, text })));
    select.value = String(Array.isArray(first) ? (first[0] ?? "") : value);
    return { nodes: [select], read: () => (select.value ? [{ column: column.name, op: "eq", value: select.value === "true" }] : []) };
  },
  text: (column, stats, now) => {
    const ops = [["contains", "contains"], ["starts_with", "begins with"], ["eq", "is"], ["ne", "is not"]];
    const said = now.find((it) => ops.some(([op]) => op === it.op));
    const how = el("select", { "aria-label": "How" }, ...ops.map(([value, text]) => el("option", { value, text })));
    how.value = said?.op ?? "contains";
    const text = el("input", { type: "text", "aria-label": "Text", "data-first": true, value: said?.value ?? "" });
    const nodes = [el("div", { class: "pair" }, how, text)];
    const chosen = valueOf(now, "in") || [];
    const boxes = (stats?.frequent ?? []).slice(0, 12).map(({ value, count: number }) => {
      const box = el("input", { type: "checkbox", checked: chosen.includes(value) });
      const label = el("label", { class: "check" }, box, el("span", { text: cellText(value, column.kind) || "(empty text)" }), el("small", { text: count(number) }));
      return { box, value, label };
    });
    if (boxes.length) nodes.push(el("fieldset", {}, el("legend", { text: "Frequent values" }), ...boxes.map(({ label }) => label)));
    const read = () => {
      const wanted = [];
      if (text.value !== "") wanted.push({ column: column.name, op: how.value, value: text.value });
      const picked = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
      if (picked.length) wanted.push({ column: column.name, op: "in", value: picked });
      return wanted;
    };
    return { nodes, read };
  },
  json: (_column, stats) => ({ nodes: [el("p", { class: "note", text: stats ? `${statText(stats.distinct, "number")} distinct values` : "These cells hold structured values." })], read: () => [] }),
};
