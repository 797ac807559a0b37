// The heads of columns: name, kind, what is in them, and what they are sorted by.

import { attr, el, icon, setText } from "./dom.js";
import { sparkline, summary, topValues } from "./spark.js";

const GLYPHS = { number: "#", text: "Aa", time: "◷", boolean: "◐", json: "{ }" };

/** How wide a column is if nobody says: by what is in it, and never narrower than its name. */
export function defaultWidth(column) {
  const by = { number: 112, boolean: 92, time: column.type === "date" ? 112 : 176, json: 220, text: 168 };
  return Math.min(320, Math.max(by[column.kind], column.name.length * 7.5 + 72));
}

const NARROWEST = 56;
const WIDEST = 900;

/** The heads that are in view. */
export class Header {
  #cells = new Map();

  /**
   * @param {import("./state.js").State} state
   * @param {{filter: (column: object, opener: Element) => void, widen: () => void, autosize: (column: object) => void, pick: (column: object, filters: object[]) => void, focus: (column: object) => void}} does
   */
  constructor(state, does) {
    Object.assign(this, { state, does });
    this.corner = el("div", { class: "corner", role: "columnheader", "aria-colindex": "1" }, el("span", { class: "unseen", text: "Row" }));
    this.row = el("div", { class: "hrow", role: "row", "aria-rowindex": "1" }, this.corner);
    this.node = el("div", { class: "head", role: "rowgroup" }, this.row);
  }

  /** Forgets what the columns were. */
  reset() {
    for (const cell of this.#cells.values()) cell.node.remove();
    this.#cells.clear();
  }

  /** Shows these columns, each where the table has it. */
  show(columns, gutter, active) {
    const seen = new Set(columns.map(({ column }) => column.name));
    for (const [name, cell] of this.#cells) if (!seen.has(name) && cell.node.isConnected) cell.node.remove();
    this.corner.style.width = `${gutter}px`;
    for (const { column, left, width, place } of columns) {
      const cell = this.#cell(column);
      cell.node.style.left = `${left}px`;
      cell.node.style.width = `${width}px`;
      attr(cell.node, "aria-colindex", place + 2);
      attr(cell.node, "id", place === active ? "active" : null);
      cell.node.classList.toggle("active", place === active);
      if (!cell.node.isConnected) this.row.append(cell.node);
    }
    attr(this.corner, "id", active === -1 ? "active" : null);
  }

  /** Shows anew what columns are sorted and filtered by. */
  marks() {
    for (const [name, cell] of this.#cells) {
      const sort = this.state.sortOf(name);
      attr(cell.node, "aria-sort", sort ? (sort.order === "asc" ? "ascending" : "descending") : "none");
      cell.mark.replaceChildren(...(sort ? [icon(sort.order), ...(sort.place ? [String(sort.place)] : [])] : []));
      const filtered = this.state.filtersOf(name).length > 0;
      cell.node.classList.toggle("filtered", filtered);
      attr(cell.filter, "aria-label", `Filter ${name}${filtered ? " (filtered)" : ""}`);
    }
  }

  /** Shows what is in the columns, once it is known. */
  drawings() {
    for (const [name, cell] of this.#cells) {
      const stats = this.state.stats.get(name);
      const column = this.state.column(name);
      if (!stats || !column || cell.drawn === stats) continue;
      cell.drawn = stats;
      const rows = this.state.manifest.rows;
      const can = this.state.can("filter");
      let drawing = null;
      if (stats.histogram?.length) {
        const onPick = can ? (bin) => this.does.pick(column, [{ column: name, op: "ge", value: bin.from }, { column: name, op: "le", value: bin.to }]) : undefined;
        drawing = sparkline(stats.histogram, column, { onPick });
      } else if (stats.frequent?.length) {
        const onPick = can ? (value) => this.does.pick(column, [{ column: name, op: "in", value: [value] }]) : undefined;
        drawing = topValues(stats, column, rows, { onPick });
      }
      cell.spark.replaceChildren(...(drawing ? [drawing] : []));
      setText(cell.sum, summary(stats, column, rows));
    }
  }

  #cell(column) {
    const known = this.#cells.get(column.name);
    if (known) return known;
    const mark = el("span", { class: "mark" });
    const label = el("span", { class: "label", text: column.name });
    const glyph = el("span", { class: `glyph ${column.kind}`, "aria-hidden": "true", text: GLYPHS[column.kind] });
    const filter = el("button", { type: "button", class: "quiet funnel", tabindex: "-1", "aria-haspopup": "dialog", "aria-label": `Filter ${column.name}`, onclick: (event) => (event.stopPropagation(), this.does.filter(column, filter)) }, icon("filter"));
    filter.hidden = !this.state.can("filter");
    const name = el("div", { class: "hname", title: [column.name, column.type, column.description].filter(Boolean).join("\n") }, glyph, label, mark, filter);
    name.addEventListener("click", (event) => (this.does.focus(column), this.state.turnSort(column.name, event.shiftKey)));
    const spark = el("div", { class: "hspark" });
    const sum = el("small", { class: "hsum" });
    const grip = el("div", { class: "grip", "aria-hidden": "true" });
    grip.addEventListener("pointerdown", (event) => this.#drag(column, grip, event));
    grip.addEventListener("dblclick", () => this.does.autosize(column));
    const classes = `hcell ${column.kind}${this.state.can("sort") ? " sortable" : ""}`;
    const node = el("div", { class: classes, role: "columnheader", "aria-sort": "none" }, name, spark, sum, grip);
    const cell = { node, mark, filter, spark, sum, drawn: null };
    this.#cells.set(column.name, cell);
    this.marks();
    this.drawings();
    return cell;
  }

  /** What opens a column's filter. */
  opener(column) {
    return this.#cell(column).filter;
  }

  /** Makes a column wider or narrower. */
  resize(column, width) {
    this.state.widths.set(column.name, Math.round(Math.min(WIDEST, Math.max(NARROWEST, width))));
    this.does.widen();
  }

  #drag(column, grip, event) {
    event.preventDefault();
    event.stopPropagation();
    grip.setPointerCapture(event.pointerId);
    const begin = event.clientX - this.#cells.get(column.name).node.getBoundingClientRect().width;
    const move = (to) => this.resize(column, to.clientX - begin);
    grip.addEventListener("pointermove", move);
    const end = () => grip.removeEventListener("pointermove", move);
    grip.addEventListener("pointerup", end, { once: true });
    grip.addEventListener("pointercancel", end, { once: true });
  }
}
