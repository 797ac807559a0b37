// One cell in full, and the row it is in.

import { Exact } from "./json.js";
import { el, icon } from "./dom.js";
import { cellText, count } from "./format.js";

function pretty(value) {
  if (value instanceof Exact) return value.source;
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return JSON.stringify(value, null, 2);
  const text = String(value);
  if (/^\s*[[{]/.test(text)) {
    try {
      return JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // It only looks like JSON.
    }
  }
  return text;
}

/** What the side panel shows of a cell. */
export function cellDetail(state, index, row, column, onCopy) {
  const value = row[column.name];
  const empty = value === null || value === undefined;
  const text = pretty(value);
  const kind = `${column.type}${empty ? "" : ` · ${count(text.length)} characters`}`;
  const others = el("dl", {});
  for (const other of state.shown) {
    if (other.name === column.name) continue;
    others.append(el("dt", { text: other.name }), el("dd", { text: cellText(row[other.name], other.kind).slice(0, 400) || "–" }));
  }
  return [
    el("p", { class: "note", text: `Row ${count(index + 1)} · ${kind}` }),
    column.description && el("p", { text: column.description }),
    el("pre", { class: empty ? "value null" : "value", text: empty ? "empty" : text }),
    el("button", { type: "button", onclick: () => onCopy(text) }, icon("copy"), "Copy value"),
    el("h3", { text: "Other columns of the row" }),
    others,
  ];
}
