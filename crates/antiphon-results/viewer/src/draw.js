// Charts, drawn: axes, ticks, bars, lines and points.

import { svg } from "./dom.js";
import { short } from "./format.js";

/** Colours that the colour-blind tell apart, after Okabe and Ito; the style sheet has them for both themes. */
export const COLOURS = 8;

/** Round numbers from one to another, about so many. */
export function ticks(from, to, wanted = 5) {
  if (!(to > from)) return [from];
  const rough = (to - from) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it >= rough) ?? power * 10;
  const list = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i += 1) list.push(Number((i * step).toPrecision(12)));
  return list;
}

const DAY = 86_400_000;
const SPANS = [[1000, 1], [1000, 5], [1000, 15], [60_000, 1], [60_000, 5], [60_000, 15], [3_600_000, 1], [3_600_000, 3], [3_600_000, 6], [3_600_000, 12], [DAY, 1], [DAY, 2], [DAY, 7]];

/** Moments that are easy to read, from one to another. */
export function timeTicks(from, to, wanted = 6) {
  const rough = (to - from) / Math.max(1, wanted);
  const found = SPANS.find(([unit, times]) => unit * times >= rough);
  if (found) {
    const step = found[0] * found[1];
    const list = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) list.push(at);
    return { list, text: (at) => new Date(at).toISOString().slice(...(step >= DAY ? [5, 10] : step >= 60_000 ? [11, 16] : [14, 19])) };
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((it) => it * 30.4 * DAY >= rough) ?? 12_000;
  const begin = new Date(from);
  const list = [];
  for (let month = Math.ceil((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / months) * months; ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > to) break;
    if (at >= from) list.push(at);
  }
  return { list, text: (at) => new Date(at).toISOString().slice(0, months >= 12 ? 4 : 7) };
}

const LEFT = 58;
const RIGHT = 30;
const TOP = 34;

/** A scale: where a value is. */
function scale(from, to, start, end) {
  const whole = to - from || 1;
  return (value) => start + ((value - from) / whole) * (end - start);
}

/**
 * Draws what was loaded.
 * @returns {{node: SVGElement, hits: {x: number, y: number, text: string[]}[]}} the drawing, and what is where in it
 */
export function draw(data, width, height) {
  const tilted = data.kind === "bar" && data.categories.some((text) => text.length * 6.6 > (width - LEFT - RIGHT) / data.categories.length - 4);
  const foot = tilted ? 92 : 46;
  const area = { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - foot };
  const node = svg("svg", { class: "drawing", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${data.kind} chart: ${data.yLabel} by ${data.xLabel}. The same as a table is below.` });
  const bins = data.kind === "histogram";
  const values = bins ? data.bins.map((bin) => bin.count) : data.kind === "bar" ? data.series.flatMap((it) => it.values) : data.series.flatMap((it) => it.points.map((point) => point[1]));
  const known = values.filter((value) => Number.isFinite(value));
  const zero = data.kind !== "scatter" && data.kind !== "line";
  let low = known.reduce((a, b) => Math.min(a, b), zero ? 0 : Infinity);
  let high = known.reduce((a, b) => Math.max(a, b), zero ? 0 : -Infinity);
  if (!known.length) [low, high] = [0, 1];
  // A line that is far from nothing is better seen near; one that is not begins at nothing.
  if (data.kind === "line" && low > 0 && low < high * 0.5) low = 0;
  if (low === high) [low, high] = low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, low * 1.1)];
  const yTicks = ticks(low, high, Math.max(2, Math.floor((area.bottom - area.top) / 52)));
  const step = yTicks.length > 1 ? yTicks[1] - yTicks[0] : 1;
  if (yTicks.at(-1) < high) high = yTicks.at(-1) + step;
  if (yTicks[0] > low && (!zero || low < 0)) low = yTicks[0] - step;
  const y = scale(low, high, area.bottom, area.top);
  const yAxis = svg("g", { class: "axis" });
  for (const tick of ticks(low, high, yTicks.length)) {
    yAxis.append(svg("line", { class: tick === 0 ? "zero" : "line", x1: area.left, x2: area.right, y1: y(tick), y2: y(tick) }));
    yAxis.append(svg("text", { x: area.left - 8, y: y(tick) + 4, "text-anchor": "end", text: data.yKind === "time" ? new Date(tick).toISOString().slice(0, 10) : short(tick) }));
  }
  node.append(yAxis);
  const hits = [];
  if (data.kind === "bar") bars(node, data, area, y, hits, tilted);
  else if (bins) histogram(node, data, area, y, hits);
  else marks(node, data, area, y, hits);
  node.append(svg("line", { class: "zero", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
  node.append(svg("text", { class: "title", x: 4, y: 14, text: data.yLabel }));
  node.append(svg("text", { class: "title", x: (area.left + area.right) / 2, y: height - 6, "text-anchor": "middle", text: data.xLabel }));
  return { node, hits };
}

function bars(node, data, area, y, hits, tilted) {
  const band = (area.right - area.left) / Math.max(1, data.categories.length);
  const each = (band * 0.76) / data.series.length;
  const every = Math.max(1, Math.ceil((tilted ? 15 : 0) / band));
  data.categories.forEach((category, i) => {
    const begin = area.left + i * band + band * 0.12;
    data.series.forEach((series, s) => {
      const value = series.values[i];
      if (value === null) return;
      const [top, base] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
      node.append(svg("rect", { class: `fill c${s % COLOURS}`, x: begin + s * each, y: top, width: Math.max(1, each - (data.series.length > 1 ? 1 : 0)), height: Math.max(1, base - top), rx: Math.min(2, each / 4) }));
      hits.push({ x: begin + (s + 0.5) * each, y: top, across: true, text: [category, `${series.name ? `${series.name}: ` : ""}${full(value)}`] });
    });
    if (i % every) return;
    const x = area.left + (i + 0.5) * band;
    const text = category.length > 18 ? `${category.slice(0, 17)}…` : category;
    const at = tilted ? { x: x + 4, y: area.bottom + 14, "text-anchor": "end", transform: `rotate(-38 ${x + 4} ${area.bottom + 14})` } : { x, y: area.bottom + 18, "text-anchor": "middle" };
    node.append(svg("text", { class: "tick", ...at, text }));
  });
}

function xAxis(node, area, from, to, kind) {
  const x = scale(from, to, area.left, area.right);
  const wanted = Math.max(2, Math.floor((area.right - area.left) / 90));
  const time = kind === "time" ? timeTicks(from, to, wanted) : null;
  for (const tick of time?.list ?? ticks(from, to, wanted)) {
    node.append(svg("line", { class: "notch", x1: x(tick), x2: x(tick), y1: area.bottom, y2: area.bottom + 5 }));
    node.append(svg("text", { class: "tick", x: x(tick), y: area.bottom + 19, "text-anchor": "middle", text: time ? time.text(tick) : short(tick) }));
  }
  return x;
}

function histogram(node, data, area, y, hits) {
  const time = data.xKind === "time";
  const at = (value) => (time ? Date.parse(value) : Number(value));
  if (!data.bins.length) return;
  const x = xAxis(node, area, at(data.bins[0].from), at(data.bins.at(-1).to), data.xKind);
  const text = (value) => (time ? String(value).slice(0, 16).replace("T", " ") : short(value));
  for (const bin of data.bins) {
    const [left, right] = [x(at(bin.from)), x(at(bin.to))];
    const gap = right - left > 4 ? 1 : 0;
    node.append(svg("rect", { class: "fill c0", x: left + gap / 2, y: y(bin.count), width: Math.max(0.5, right - left - gap), height: Math.max(0, area.bottom - y(bin.count)) }));
    hits.push({ x: (left + right) / 2, y: y(bin.count), across: true, text: [`${text(bin.from)} to ${text(bin.to)}`, `${full(bin.count)} rows`] });
  }
}

function marks(node, data, area, y, hits) {
  const all = data.series.flatMap((series) => series.points.map((point) => point[0]));
  if (!all.length) return;
  const from = all.reduce((a, b) => Math.min(a, b));
  const to = all.reduce((a, b) => Math.max(a, b));
  const x = xAxis(node, area, from, to, data.xKind);
  const text = (value) => (data.xKind === "time" ? new Date(value).toISOString().slice(0, 16).replace("T", " ").replace(" 00:00", "") : short(value));
  data.series.forEach((series, s) => {
    const points = series.points.map(([px, py]) => [x(px), y(py)]);
    if (data.kind === "line") {
      const path = points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
      if (data.series.length === 1 && points.length > 1 && y(0) <= area.bottom + 0.5) node.append(svg("path", { class: "under c0", d: `${path}L${points.at(-1)[0].toFixed(1)} ${area.bottom}L${points[0][0].toFixed(1)} ${area.bottom}Z` }));
      node.append(svg("path", { class: `stroke c${s % COLOURS}`, d: path }));
      if (points.length === 1) node.append(svg("circle", { class: `fill c${s % COLOURS}`, cx: points[0][0], cy: points[0][1], r: 3 }));
    } else for (const [px, py] of points) node.append(svg("circle", { class: `dot c${s % COLOURS}`, cx: px.toFixed(1), cy: py.toFixed(1), r: 2.6 }));
    series.points.forEach(([px, py], i) => hits.push({ x: points[i][0], y: points[i][1], across: data.kind === "line", text: [text(px), `${series.name ? `${series.name}: ` : ""}${full(py)}`] }));
  });
}

/** A value in a tip: with its digits. */
function full(value) {
  return Number(value).toLocaleString(undefined, { maximumSignificantDigits: 7 });
}
