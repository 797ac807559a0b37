// How values are written for people.

import { Exact } from "./json.js";

let locale;

/** Writes numbers and days as this place does. */
export function setLocale(name) {
  try {
    locale = name ? new Intl.Locale(name).toString() : undefined;
  } catch {
    locale = undefined;
  }
  formats.clear();
}

const formats = new Map();

function numberFormat(options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(locale, options));
  return formats.get(key);
}

/** A count, with separators. */
export function count(number) {
  return numberFormat({ maximumFractionDigits: 0 }).format(number);
}

/** "1 row", "2 rows". */
export function rowsText(number, exact = true) {
  return `${exact ? "" : "about "}${count(number)} ${number === 1 ? "row" : "rows"}`;
}

/** A number as a label has it: short. */
export function short(number) {
  if (number === null || number === undefined || Number.isNaN(Number(number))) return "–";
  const value = Number(number);
  const size = Math.abs(value);
  if (size >= 10_000) return numberFormat({ notation: "compact", maximumSignificantDigits: 3 }).format(value);
  if (size !== 0 && size < 0.001) return value.toExponential(2);
  return numberFormat({ maximumSignificantDigits: 4 }).format(value);
}

/** A share of a whole. */
export function percent(part, whole) {
  if (!whole || !part) return "0%";
  const share = (part / whole) * 100;
  if (share < 0.1) return "<0.1%";
  if (share > 99.9 && part < whole) return ">99.9%";
  return `${numberFormat({ maximumFractionDigits: share < 10 ? 1 : 0 }).format(share)}%`;
}

/** A size in bytes. */
export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = number;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) (value /= 1000), (unit += 1);
  return `${numberFormat({ maximumFractionDigits: unit && value < 100 ? 1 : 0 }).format(value)} ${units[unit]}`;
}

/** A span of time in its two greatest units at most. */
export function span(seconds) {
  const parts = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.max(0, Math.floor(seconds));
  const at = Math.max(0, parts.findIndex(([, size]) => rest >= size));
  const first = rest === 0 ? 3 : at;
  const words = [];
  for (const [unit, size] of parts.slice(first, first + 2)) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole || !words.length) words.push(`${whole} ${unit}`);
  }
  return words.join(" ");
}

const NUMBERS = /^(number|integer|decimal|numeric|float|double|real|u?int|bigint|smallint)/i;

/**
 * What a column is to the viewer: what decides how it is shown, filtered and drawn.
 * @returns {"number"|"boolean"|"time"|"json"|"text"}
 */
export function kindOf(column) {
  const type = String(column.type ?? "");
  if (NUMBERS.test(type)) return "number";
  if (type === "boolean") return "boolean";
  if (type === "date" || /^timestamp|^datetime/.test(type)) return "time";
  if (type === "json" || /^(list|struct|map|array|object)/.test(type)) return "json";
  return "text";
}

/** Whether a column has days only. */
export function isDay(column) {
  return column.type === "date";
}

/** A cell's text, as it is shown and copied. */
export function cellText(value, kind) {
  if (value === null || value === undefined) return "";
  if (value instanceof Exact) return value.source;
  if (typeof value === "object") return JSON.stringify(value);
  if (kind === "time" && typeof value === "string") return value.replace("T", " ").replace(/(\.\d*?)0+(?=Z|[+-]|$)/, "$1").replace(/\.(?=Z|[+-]|$)/, "").replace("+00:00", "Z");
  return String(value);
}

/** Milliseconds of a day or moment as the wire writes it; one without a zone is taken as it stands. */
export function millis(value) {
  if (typeof value === "number") return value;
  const text = String(value ?? "");
  return Date.parse(/T.*(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes("T") ? text : `${text}Z`);
}

/** A value of a column's statistics. */
export function statText(value, kind) {
  if (value === null || value === undefined) return "–";
  if (kind !== "number") return cellText(value, kind);
  const number = Number(value);
  return numberFormat(Number.isInteger(number) ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 7 }).format(number);
}
