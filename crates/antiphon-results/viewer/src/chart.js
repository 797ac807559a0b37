// The chart tab: what is drawn, chosen with a few pickers.

import { announce, eachFrame, el } from "./dom.js";
import { cellText, short, statText } from "./format.js";
import { isAbort } from "./problem.js";
import { BUCKETS, defaults, load, measureText, roles } from "./chartdata.js";
import { COLOURS, draw } from "./draw.js";

const TYPES = [["bar", "Bar"], ["line", "Line"], ["scatter", "Scatter"], ["histogram", "Histogram"]];
const MEASURES = [["count", "Count of rows"], ["sum", "Sum"], ["mean", "Mean"], ["min", "Minimum"], ["max", "Maximum"], ["distinct", "Distinct values"]];

/** The most lines the table twin has: it is read aloud. */
const MOST_LINES = 500;

/** The chart tab. */
export class Chart {
  #spec = null;
  #abort = null;
  #data = null;
  #hits = [];

  constructor(transport, state, pages) {
    Object.assign(this, { transport, state, pages });
    this.pickers = el("div", { class: "pickers", role: "group", "aria-label": "Chart settings" });
    this.canvas = el("div", { class: "canvas" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.legend = el("ul", { class: "legend", hidden: true });
    this.note = el("p", { class: "note" });
    this.table = el("div", { class: "twin", tabindex: "0", role: "region", "aria-label": "The chart as a table" });
    this.twin = el("details", {}, el("summary", { text: "Show as table" }), this.table);
    this.node = el("section", { class: "charts", "aria-label": "Chart" }, this.pickers, this.legend, el("div", { class: "stage" }, this.canvas, this.tip), this.note, this.twin);
    this.redraw = eachFrame(() => this.#draw());
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.twin.addEventListener("toggle", () => this.twin.open && this.#tabulate());
    state.on("view stats", () => !this.node.hidden && this.show());
  }

  /** Shows the chart, with what suits the columns if nobody has chosen. */
  show() {
    if (!this.state.columns.length) return;
    if (!this.chosen) this.#spec = defaults(this.state);
    this.#pick();
    this.#load();
  }

  /** What is drawn, for whoever wants to know. */
  get spec() {
    return this.#spec;
  }

  #set(change) {
    this.chosen = true;
    if (change.type) {
      this.#spec = defaults(this.state, change.type);
      announce(`${change.type} chart`);
    } else this.#spec = { ...this.#spec, ...change };
    this.#pick();
    this.#load();
  }

  #pick() {
    const { state } = this;
    const spec = this.#spec;
    const { numbers, times, categories } = roles(state);
    const names = (columns) => columns.map((column) => [column.name, column.name]);
    const select = (label, key, options) => {
      const control = el("select", { "data-pick": key }, ...options.map(([value, text]) => el("option", { value, text })));
      control.value = spec[key];
      control.addEventListener("change", () => this.#set({ [key]: control.value }));
      return el("label", { class: "field" }, el("span", { text: label }), control);
    };
    const xs = { bar: [...categories, ...times, ...numbers], line: [...times, ...numbers], scatter: [...numbers, ...times], histogram: [...numbers, ...times] }[spec.type];
    const controls = [select("Chart", "type", TYPES), select(spec.type === "histogram" ? "Column" : "X axis", "x", names(xs))];
    if (spec.type === "bar" || spec.type === "line") {
      controls.push(select("Measure", "measure", numbers.length ? MEASURES : MEASURES.slice(0, 1)));
      if (spec.measure !== "count") {
        spec.y ||= numbers[0]?.name ?? "";
        controls.push(select("Column", "y", names(spec.measure === "distinct" ? state.columns : numbers)));
      }
      if (state.column(spec.x)?.kind === "time") controls.push(select("Time unit", "bucket", [["auto", "Automatic"], ...BUCKETS.map((name) => [name, name])]));
    }
    if (spec.type === "scatter") controls.push(select("Y axis", "y", names([...numbers, ...times])));
    if (spec.type !== "histogram") controls.push(select("Group by", "group", [["", "None"], ...names(categories)]));
    const held = document.activeElement?.dataset?.pick;
    this.pickers.replaceChildren(...controls);
    if (held) this.pickers.querySelector(`[data-pick="${held}"]`)?.focus();
  }

  async #load() {
    this.#abort?.abort();
    const abort = (this.#abort = new AbortController());
    this.node.classList.add("busy");
    this.note.textContent = "";
    try {
      const onWait = (seconds) => (this.note.textContent = `Counting… ${seconds} s`);
      const data = await load(this.transport, this.state, this.pages, this.#spec, { signal: abort.signal, onWait });
      if (abort.signal.aborted) return;
      this.#data = data;
      this.note.textContent = (data.note ?? []).join(" ");
    } catch (error) {
      if (isAbort(error) || abort.signal.aborted) return;
      this.#data = null;
      this.note.textContent = error.message;
      announce(error.message);
    }
    this.node.classList.remove("busy");
    this.#draw();
    if (this.twin.open) this.#tabulate();
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.tip.hidden = true;
    if (!this.#data || width < 80 || height < 80) return this.canvas.replaceChildren();
    const { node, hits } = draw(this.#data, width, height);
    this.#hits = hits;
    this.canvas.replaceChildren(node);
    const named = (this.#data.series ?? []).filter((series) => series.name);
    this.legend.hidden = !named.length;
    this.legend.replaceChildren(...named.map((series, i) => el("li", {}, el("i", { class: `swatch c${i % COLOURS}` }), el("span", { text: series.name }))));
    this.node.dataset.drawn = this.#data.kind;
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const far = (hit) => (hit.across ? Math.abs(hit.x - px) + Math.abs(hit.y - py) / 1000 : Math.hypot(hit.x - px, hit.y - py));
    let best = null;
    for (const hit of this.#hits) if (!best || far(hit) < far(best)) best = hit;
    this.tip.hidden = !best || far(best) > 40;
    if (this.tip.hidden) return;
    const together = best.across ? this.#hits.filter((hit) => hit.text[0] === best.text[0]).slice(0, COLOURS) : [best];
    this.tip.replaceChildren(el("b", { text: best.text[0] }), ...together.map((hit) => el("span", { text: hit.text[1] })));
    const left = Math.min(Math.max(4, best.x + 12), box.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${Math.max(4, best.y - this.tip.offsetHeight - 8)}px`;
  }

  #tabulate() {
    const data = this.#data;
    if (!data) return this.table.replaceChildren();
    const x = (value) => (data.xKind === "time" ? cellText(new Date(value).toISOString(), "time") : statText(value, "number"));
    let heads = [data.xLabel, data.yLabel];
    let lines = [];
    if (data.kind === "histogram") lines = data.bins.map((bin) => [`${data.xKind === "time" ? bin.from : short(bin.from)} to ${data.xKind === "time" ? bin.to : short(bin.to)}`, statText(bin.count, "number")]);
    else if (data.kind === "bar") {
      if (data.series[0]?.name) heads = [data.xLabel, ...data.series.map((series) => series.name)];
      lines = data.categories.map((category, i) => [category, ...data.series.map((series) => statText(series.values[i], "number"))]);
    } else {
      if (data.series[0]?.name) heads = ["", ...heads];
      lines = data.series.flatMap((series) => series.points.map(([px, py]) => [...(series.name ? [series.name] : []), x(px), statText(py, "number")]));
    }
    const row = (cells, tag) => el("tr", {}, ...cells.map((text) => el(tag, { text, scope: tag === "th" ? "col" : null })));
    const caption = el("caption", { text: `${this.#spec.type === "histogram" ? "Rows" : measureText(this.#spec)} by ${data.xLabel}${lines.length > MOST_LINES ? `, the first ${MOST_LINES}` : ""}` });
    this.table.replaceChildren(el("table", {}, caption, el("thead", {}, row(heads, "th")), el("tbody", {}, ...lines.slice(0, MOST_LINES).map((cells) => row(cells, "td")))));
  }
}
