// Small drawings of what is in a column.

import { el, svg } from "./dom.js";
import { cellText, count, percent, short, statText } from "./format.js";

/** How many bars a small drawing has at most. */
const BARS = 40;

/** Bins, taken together until there are few enough. */
export function fewer(bins, most = BARS) {
  const each = Math.ceil(bins.length / most);
  const few = [];
  for (let i = 0; i < bins.length; i += each) {
    const part = bins.slice(i, i + each);
    few.push({ from: part[0].from, to: part.at(-1).to, count: part.reduce((sum, bin) => sum + bin.count, 0) });
  }
  return few;
}

/** A histogram without words; what it shows is said beside it, and by each bar's title. */
export function sparkline(bins, column, { width = 100, height = 26, onPick } = {}) {
  const few = fewer(bins);
  const most = Math.max(1, ...few.map((bin) => bin.count));
  const step = width / few.length;
  const drawing = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  few.forEach((bin, i) => {
    const tall = bin.count ? Math.max(1.5, (bin.count / most) * (height - 1)) : 0;
    const group = svg("g", { class: "bin" }, svg("rect", { class: "reach", x: i * step, y: 0, width: step, height }), svg("rect", { class: "bar", x: i * step + 0.5, y: height - tall, width: Math.max(0.5, step - 1), height: tall }));
    group.append(svg("title", { text: `${statText(bin.from, column.kind)} to ${statText(bin.to, column.kind)}: ${count(bin.count)}` }));
    if (onPick) group.addEventListener("click", (event) => (event.stopPropagation(), onPick(bin)));
    drawing.append(group);
  });
  return drawing;
}

/** The most frequent values and their shares. */
export function topValues(stats, column, rows, { most = 3, onPick } = {}) {
  const list = el("div", { class: "tops" });
  for (const { value, count: number } of stats.frequent.slice(0, most)) {
    const bar = el("i");
    bar.style.width = `${Math.max(1, (number / Math.max(1, rows)) * 100)}%`;
    const text = cellText(value, column.kind) || "(empty text)";
    const row = el(onPick ? "button" : "div", { class: "top", title: `${text}: ${count(number)} (${percent(number, rows)})`, tabindex: onPick ? "-1" : null, type: onPick ? "button" : null }, bar, el("span", { text }), el("small", { text: percent(number, rows) }));
    if (onPick) row.addEventListener("click", (event) => (event.stopPropagation(), onPick(value)));
    list.append(row);
  }
  return list;
}

/** What is in a column in one line of words. */
export function summary(stats, column, rows) {
  const words = [];
  if (stats.min !== undefined && column.kind === "number") words.push(`${short(stats.min)} – ${short(stats.max)}`);
  else if (stats.min !== undefined && column.kind === "time") words.push(`${day(stats.min)} – ${day(stats.max)}`);
  else if (stats.distinct !== undefined && column.kind !== "boolean") words.push(`${short(stats.distinct)} distinct`);
  if (stats.nulls) words.push(`${percent(stats.nulls, rows)} empty`);
  return words.join(" · ");
}

function day(value) {
  return String(value).slice(0, 10);
}
