// What a chart shows: chosen by what the columns are, then asked of the server.

import { cellText, count, isDay, millis, short } from "./format.js";
import { fewer } from "./spark.js";
import { whenReady } from "./problem.js";

/**
 * @typedef {{type: "bar"|"line"|"scatter"|"histogram", x: string, y: string, measure: string, group: string, bucket: string}} Spec
 */

/** How many bars, lines and points there are at most. */
const MOST_BARS = 25;
const LINES = 8;
const POINTS = 2000;

const SIZES = { minute: 60_000, hour: 3_600_000, day: 86_400_000, week: 604_800_000, month: 2_629_800_000, year: 31_557_600_000 };
export const BUCKETS = Object.keys(SIZES);

/** The finest bucket that makes no more than 200 points, so that there are at least 20 where that can be. */
export function bucketFor(from, to, day = false) {
  const whole = Math.max(1, to - from);
  const usable = BUCKETS.filter((name) => !day || SIZES[name] >= SIZES.day);
  return usable.find((name) => whole / SIZES[name] <= 200) ?? "year";
}

/** A width that makes about so many buckets of numbers, and is easy to read. */
export function widthFor(from, to, wanted = 40) {
  const rough = Math.max((to - from) / wanted, Number.MIN_VALUE);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= rough * 0.999) || 1;
}

/** Columns by what they can be in a chart, the likeliest first. */
export function roles(state) {
  const rows = Math.max(1, state.manifest.rows);
  const distinct = (column) => state.stats.get(column.name)?.distinct;
  const isId = (column) => /(^|_|\b)(id|key|uuid|number|no)$/i.test(column.name) || (column.type === "integer" && (distinct(column) ?? 0) > rows * 0.9);
  const kind = (...kinds) => state.columns.filter((column) => kinds.includes(column.kind));
  const numbers = kind("number");
  const few = (column) => (distinct(column) ?? 20) <= 50;
  const categories = kind("text", "boolean");
  return {
    numbers: [...numbers.filter((column) => !isId(column)), ...numbers.filter(isId)],
    times: kind("time"),
    categories: [...categories.filter(few), ...categories.filter((column) => !few(column))],
    hasCategory: categories.some((column) => few(column) && distinct(column) !== 1),
  };
}

/** What is shown if nobody says, for a kind of chart or for any. */
export function defaults(state, type) {
  const { numbers, times, categories, hasCategory } = roles(state);
  const best = times.length && numbers.length ? "line" : hasCategory ? "bar" : numbers.length > 1 ? "scatter" : numbers.length ? "histogram" : "bar";
  const chosen = type ?? best;
  const name = (column) => column?.name ?? "";
  const spec = { type: chosen, x: "", y: "", measure: "mean", group: "", bucket: "auto" };
  if (chosen === "bar") Object.assign(spec, { x: name(categories[0] ?? times[0] ?? numbers[0] ?? state.columns[0]), measure: "count" });
  if (chosen === "line") Object.assign(spec, { x: name(times[0] ?? numbers[1] ?? numbers[0]), y: name(numbers[0]), measure: numbers.length ? "mean" : "count" });
  if (chosen === "scatter") Object.assign(spec, { x: name(numbers[0]), y: name(numbers[1] ?? numbers[0]) });
  if (chosen === "histogram") spec.x = name(numbers[0] ?? times[0]);
  return spec;
}

/** A measure in words. */
export function measureText(spec) {
  const words = { count: "Rows", distinct: "Distinct values of", sum: "Sum of", mean: "Mean of", min: "Minimum of", max: "Maximum of" };
  return spec.measure === "count" ? words.count : `${words[spec.measure]} ${spec.y}`;
}

/** Fetches what a chart shows. */
export async function load(transport, state, pages, spec, { signal, onWait } = {}) {
  const column = state.column(spec.x);
  if (!column) throw new Error("Choose a column for this chart.");
  const ask = (body) => whenReady(() => transport.aggregate({ ...body, filter: state.filter }, signal), { signal, onWait });
  if (spec.type === "histogram") return countBins(state, column, ask);
  if (spec.type === "scatter") return scatter(state, pages, spec, column, signal);
  return grouped(state, spec, column, ask);
}

async function countBins(state, column, ask) {
  const stats = state.stats.get(column.name);
  const text = { xLabel: column.name, yLabel: "Rows", kind: "histogram", xKind: column.kind };
  if (!state.filter.length && stats?.histogram?.length) return { ...text, bins: fewer(stats.histogram, 60) };
  if (!state.can("aggregate") || stats?.min === undefined) throw new Error("No chart: the server has no histogram of this column.");
  const time = column.kind === "time";
  const bucket = time ? bucketFor(millis(stats.min), millis(stats.max), isDay(column)) : { width: widthFor(Number(stats.min), Number(stats.max)) };
  const { data } = await ask({ groups: [{ column: column.name, bucket }], measures: [{ op: "count" }] });
  const full = data.filter((row) => row[column.name] !== null);
  const end = (from) => (time ? new Date(millis(from) + SIZES[bucket]).toISOString() : Number(from) + bucket.width);
  return { ...text, bins: full.map((row) => ({ from: row[column.name], to: end(row[column.name]), count: Number(row.m0) })) };
}

async function grouped(state, spec, column, ask) {
  if (!state.can("aggregate")) throw new Error("This server cannot group rows. Choose a histogram or a scatter chart.");
  const bucket = bucketOf(state, spec, column);
  const groups = [{ column: column.name, ...(bucket && { bucket }) }];
  if (spec.group && spec.group !== spec.x) groups.push({ column: spec.group });
  const counts = spec.measure === "count" || !spec.y;
  const measures = [counts ? { op: "count" } : { op: spec.measure, column: spec.y }];
  const plain = spec.type === "bar" && groups.length === 1 && !bucket;
  const { data, groups: number } = await ask({ groups, measures, ...(plain && { limit: MOST_BARS }) });
  const text = { xLabel: column.name + (typeof bucket === "string" ? ` by ${bucket}` : ""), yLabel: counts ? "Rows" : measureText(spec) };
  const split = seriesOf(data, groups, column);
  const note = [];
  if (split.dropped) note.push(`${count(split.dropped)} smaller groups are not shown.`);
  if (spec.type === "line") {
    const ordered = column.kind === "time" || column.kind === "number";
    if (!ordered) throw new Error("A line chart needs times or numbers on its x axis. Choose another column, or a bar chart.");
    const at = (value) => (column.kind === "time" ? millis(value) : Number(value));
    const series = split.series.map(({ name, rows }) => ({ name, points: rows.filter((row) => row.x !== null && row.y !== null).map((row) => [at(row.x), row.y]).sort((a, b) => a[0] - b[0]) }));
    return { kind: "line", xKind: column.kind, series, ...text, note };
  }
  let names = [...new Set(data.map((row) => row[column.name]))];
  if (!bucket) {
    const size = new Map(names.map((name) => [name, 0]));
    for (const row of data) size.set(row[column.name], size.get(row[column.name]) + Number(row.m0 ?? 0));
    names.sort((a, b) => size.get(b) - size.get(a));
  }
  const shown = names.slice(0, bucket ? 200 : MOST_BARS);
  const more = Math.max(names.length, plain ? Number(number ?? 0) : 0) - shown.length;
  if (more > 0) note.push(`The first ${shown.length} of ${count(shown.length + more)} are shown.`);
  else if (plain && names.length === MOST_BARS) note.push(`The ${MOST_BARS} largest are shown.`);
  const label = (value) => (value === null ? "(empty)" : column.kind === "number" ? short(value) : cellText(value, column.kind) || "(empty text)");
  const series = split.series.map(({ name, rows }) => {
    const by = new Map(rows.map((row) => [row.x, row.y]));
    return { name, values: shown.map((it) => by.get(it) ?? null) };
  });
  return { kind: "bar", categories: shown.map(label), series, ...text, note };
}

function bucketOf(state, spec, column) {
  const stats = state.stats.get(column.name);
  if (column.kind === "time") {
    if (spec.bucket !== "auto" && BUCKETS.includes(spec.bucket)) return spec.bucket;
    return stats?.min === undefined ? "day" : bucketFor(millis(stats.min), millis(stats.max), isDay(column));
  }
  if (column.kind !== "number" || stats?.min === undefined) return null;
  const wide = widthFor(Number(stats.min), Number(stats.max), spec.type === "bar" ? 20 : 80);
  return (stats.distinct ?? Infinity) > 60 ? { width: wide } : null;
}

function seriesOf(data, groups, column) {
  const rows = data.map((row) => ({ x: row[column.name], y: row.m0 === null ? null : Number(row.m0), by: groups[1] ? row[groups[1].column] : null }));
  if (!groups[1]) return { series: [{ name: "", rows }], dropped: 0 };
  const by = Map.groupBy(rows, (row) => row.by);
  const size = (list) => list.reduce((sum, row) => sum + Math.abs(row.y ?? 0), 0);
  const sorted = [...by].sort((a, b) => size(b[1]) - size(a[1]));
  const series = sorted.slice(0, LINES).map(([name, list]) => ({ name: name === null ? "(empty)" : cellText(name) || "(empty text)", rows: list }));
  return { series, dropped: Math.max(0, sorted.length - LINES) };
}

async function scatter(state, pages, spec, column, signal) {
  const other = state.column(spec.y);
  if (!other) throw new Error("Choose a second column of numbers.");
  const columns = [...new Set([spec.x, spec.y, spec.group].filter(Boolean))];
  const total = state.total ?? state.manifest.rows;
  const places = spread(total);
  const rows = [];
  const next = async () => {
    for (let at = places.shift(); at; at = places.shift()) rows.push(...(await pages.read(at[0], at[1], { signal, columns })));
  };
  await Promise.all([next(), next(), next(), next()]);
  const at = (value, of) => (of.kind === "time" ? millis(value) : Number(value));
  const points = rows.filter((row) => row[spec.x] !== null && row[spec.y] !== null).map((row) => ({ x: at(row[spec.x], column), y: at(row[spec.y], other), by: spec.group ? row[spec.group] : "" }));
  const by = [...Map.groupBy(points, (point) => point.by)].sort((a, b) => b[1].length - a[1].length);
  const series = by.slice(0, LINES).map(([name, list]) => ({ name: cellText(name) || (spec.group ? "(empty)" : ""), points: list.map((point) => [point.x, point.y]) }));
  const note = total > rows.length ? [`${count(rows.length)} rows, evenly spread over ${count(total)}.`] : [];
  return { kind: "scatter", xKind: column.kind, yKind: other.kind, series, xLabel: spec.x, yLabel: spec.y, note };
}

/** Where to read rows that stand for all: some together, since a page costs the same for one as for many. */
export function spread(total, wanted = POINTS, together = 50) {
  if (total <= wanted) return Array.from({ length: Math.ceil(total / 200) }, (_, i) => [i * 200, Math.min(200, total - i * 200)]);
  const parts = Math.floor(wanted / together);
  return Array.from({ length: parts }, (_, i) => [Math.round((i / (parts - 1)) * (total - together)), together]);
}
