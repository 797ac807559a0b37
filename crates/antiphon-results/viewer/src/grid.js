// The table: only what is seen is there, however many rows and columns there are.

import { announce, attr, eachFrame, el, setText } from "./dom.js";
import { cellText, count } from "./format.js";
import { Header, defaultWidth } from "./header.js";
import { Place } from "./scroll.js";
import { Selection } from "./select.js";

/** How high a row is. */
export const ROW = 28;

/** Columns beyond the edge that are drawn too, so that scrolling sideways shows no gap. */
const SPARE = 1;

/** The table. */
export class Grid {
  #pool = [];
  #lefts = [0];
  #columns = [];
  #bar = 0;
  #touching = false;
  #timer = 0;
  #sized = false;

  /**
   * @param {import("./state.js").State} state
   * @param {import("./pages.js").Pages} pages
   * @param {{detail: (row: number, column: object) => void, filter: (column: object, opener: Element) => void, selected: () => void}} does
   */
  constructor(state, pages, does) {
    Object.assign(this, { state, pages, does });
    this.place = new Place();
    this.selection = new Selection();
    this.draw = eachFrame(() => this.#draw());
    this.header = new Header(state, {
      filter: does.filter,
      widen: () => this.#layout(),
      autosize: (column) => this.autosize([column]),
      pick: (column, filters) => state.setFilters(column.name, filters),
      focus: (column) => this.focusHead(this.#columns.indexOf(column)),
    });
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.none = el("div", { class: "none", role: "presentation", hidden: true });
    this.sizer = el("div", { class: "sizer", role: "presentation" }, this.header.node, this.body);
    this.node = el("div", { class: "grid", role: "grid", tabindex: "0", "aria-label": "Rows", "aria-multiselectable": "true" }, this.sizer);
    this.#listen();
    state.on("columns", () => this.#setColumns());
    state.on("total", () => this.#measure());
    state.on("view", () => (this.header.marks(), this.place.move(0), this.#syncBar(), this.selection.go(this.selection.row < 0 ? -1 : 0, this.selection.col), this.draw()));
    state.on("stats", () => this.header.drawings());
    const sizes = new ResizeObserver(() => this.#measure());
    for (const part of [this.node, this.header.node]) sizes.observe(part);
  }

  #listen() {
    const { node } = this;
    node.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    node.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    node.addEventListener("touchstart", () => (this.#touching = true), { passive: true });
    node.addEventListener("scrollend", () => ((this.#touching = false), this.#syncBar()));
    node.addEventListener("focus", () => this.draw());
    this.body.addEventListener("pointerdown", (event) => this.#press(event));
    this.body.addEventListener("dblclick", () => this.#detail());
  }

  #setColumns() {
    this.#columns = this.state.shown;
    this.header.reset();
    this.selection.go(this.selection.row, Math.min(this.selection.col, Math.max(0, this.#columns.length - 1)));
    for (const row of this.#pool) row.node.remove();
    this.#pool = [];
    attr(this.node, "aria-colcount", this.#columns.length + 1);
    this.#layout();
    this.header.marks();
    this.header.drawings();
  }

  width(column) {
    return this.state.widths.get(column.name) ?? defaultWidth(column);
  }

  #layout() {
    this.#lefts = [this.gutter];
    for (const column of this.#columns) this.#lefts.push(this.#lefts.at(-1) + this.width(column));
    this.sizer.style.width = `${this.#lefts.at(-1)}px`;
    this.#measure();
  }

  /** How wide the row numbers are. */
  get gutter() {
    return Math.max(44, count(this.rows).length * 6.7 + 20);
  }

  /** How many rows there are, or seem to be while nobody knows. */
  get rows() {
    return this.state.total ?? Math.ceil(Math.max(1, this.place.view) / ROW);
  }

  #measure() {
    const head = this.header.node.offsetHeight;
    const view = Math.max(0, this.node.clientHeight - head);
    this.place.resize(this.rows, ROW, view);
    this.sizer.style.height = `${head + this.place.spacer}px`;
    this.body.style.top = `${head}px`;
    this.body.style.height = `${view}px`;
    attr(this.node, "aria-rowcount", this.state.total === null ? -1 : this.state.total + 1);
    if (this.selection.row >= this.rows) this.selection.go(Math.max(0, this.rows - 1), this.selection.col);
    if (this.#lefts[0] !== this.gutter) return this.#layout();
    this.#syncBar();
    this.draw();
  }

  #scrolled() {
    const bar = this.node.scrollTop;
    const moved = bar - this.#bar;
    if (Math.abs(moved) >= 1) {
      this.#bar = bar;
      // A finger moves rows, whatever the bar stands for; everything else that is not ours moves the bar.
      if (this.#touching && this.place.scaled) this.place.move(this.place.top + moved);
      else this.place.follow(bar);
    }
    this.draw();
  }

  #syncBar() {
    if (this.#touching) return;
    const bar = this.place.bar;
    if (Math.abs(this.node.scrollTop - bar) >= 1) this.node.scrollTop = bar;
    this.#bar = this.node.scrollTop;
  }

  #wheel(event) {
    if (!this.place.scaled || event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? this.place.view : 1;
    this.place.move(this.place.top + event.deltaY * unit);
    this.#syncBar();
    this.draw();
  }

  /** The columns in view, with where they are. */
  #seenColumns() {
    const { scrollLeft: left, clientWidth: width } = this.node;
    const lefts = this.#lefts;
    let first = 0;
    while (first < this.#columns.length - 1 && lefts[first + 1] <= left + lefts[0]) first += 1;
    let last = first;
    while (last < this.#columns.length - 1 && lefts[last + 1] < left + width) last += 1;
    first = Math.max(0, first - SPARE);
    last = Math.min(this.#columns.length - 1, last + SPARE);
    return this.#columns.slice(first, last + 1).map((column, i) => ({ column, place: first + i, left: lefts[first + i], width: lefts[first + i + 1] - lefts[first + i] }));
  }

  #draw() {
    if (!this.#columns.length || !this.node.clientHeight) return;
    const columns = this.#seenColumns();
    const { selection } = this;
    this.header.show(columns, this.#lefts[0], selection.row === -1 ? selection.col : null);
    const [first, last] = this.state.total === 0 ? [0, -1] : this.place.seen;
    const needed = Math.max(0, last - first + 1);
    while (this.#pool.length < needed) this.#addRow();
    const used = new Set();
    let waits = false;
    for (let index = first; index <= last; index += 1) {
      const row = this.#pool[index % this.#pool.length];
      used.add(row);
      waits = this.#drawRow(row, index, columns) || waits;
    }
    for (const row of this.#pool) row.node.hidden = !used.has(row);
    this.none.hidden = this.state.total !== 0;
    setText(this.none, this.state.filter.length ? "No row passes these filters." : "There are no rows.");
    attr(this.node, "aria-busy", waits);
    const here = document.getElementById("active");
    attr(this.node, "aria-activedescendant", here && this.node.contains(here) ? "active" : null);
    this.#fetch(first, last);
  }

  /** Asks for rows once one has come to rest: what flies past is not fetched. */
  #fetch(first, last) {
    clearTimeout(this.#timer);
    const far = Math.abs(first - (this.lastFirst ?? first)) > 100;
    this.lastFirst = first;
    if (far) this.#timer = setTimeout(() => this.pages.want(first, last), 40);
    else this.pages.want(first, last);
  }

  #addRow() {
    const number = el("div", { class: "gutter", role: "rowheader", "aria-colindex": "1" });
    const node = el("div", { class: "row", role: "row" }, number);
    this.body.append(node);
    this.#pool.push({ node, number, cells: [] });
  }

  #drawRow(row, index, columns) {
    const data = this.state.total === null ? undefined : this.pages.row(index);
    const { selection } = this;
    row.index = index;
    row.node.style.top = `${index * ROW - this.place.top}px`;
    attr(row.node, "aria-rowindex", index + 2);
    row.node.classList.toggle("loading", !data);
    row.node.classList.toggle("odd", index % 2 === 1);
    row.number.style.width = `${this.#lefts[0]}px`;
    setText(row.number, this.state.total === null ? "" : count(index + 1));
    while (row.cells.length < columns.length) row.cells.push(row.node.appendChild(el("div", { role: "gridcell" })));
    row.cells.forEach((cell, i) => {
      const at = columns[i];
      cell.hidden = !at;
      if (!at) return attr(cell, "id", null);
      const value = data?.[at.column.name];
      const active = selection.row === index && selection.col === at.place;
      const chosen = selection.many && selection.has(index, at.place);
      const empty = data && (value === null || value === undefined);
      cell.className = `cell ${at.column.kind}${empty ? " null" : ""}${active ? " active" : ""}${chosen ? " chosen" : ""}`;
      cell.style.left = `${at.left}px`;
      cell.style.width = `${at.width}px`;
      cell.place = at.place;
      attr(cell, "aria-colindex", at.place + 2);
      attr(cell, "id", active ? "active" : null);
      attr(cell, "aria-selected", chosen || active ? "true" : null);
      // A cell shows its beginning; all of it is in the panel.
      setText(cell, data ? cellText(value, at.column.kind).slice(0, 300) : "");
    });
    return !data;
  }

  /** Called when rows have come. */
  arrived() {
    if (!this.#sized && this.state.total !== null) {
      this.#sized = true;
      this.autosize(this.#columns.filter((column) => !this.state.widths.has(column.name)).slice(0, 300));
    }
    this.draw();
  }

  /** Makes columns as wide as what is in them. */
  autosize(columns) {
    const pen = document.createElement("canvas").getContext("2d");
    // The shorthand is empty where it cannot say everything, and tabular numerals are such a thing.
    const { fontSize, fontFamily } = getComputedStyle(this.node);
    const font = (weight) => (pen.font = `${weight} ${fontSize} ${fontFamily}`);
    const [first] = this.place.seen;
    for (const column of columns) {
      font(600);
      let widest = pen.measureText(column.name).width + 100;
      font(400);
      for (let index = first; index < first + 100; index += 1) {
        const row = this.pages.row(index);
        if (row) widest = Math.max(widest, pen.measureText(cellText(row[column.name], column.kind).slice(0, 80)).width + 24);
      }
      const least = this.state.can("stats") ? 104 : 64;
      this.state.widths.set(column.name, Math.round(Math.min(360, Math.max(least, widest))));
    }
    this.#layout();
  }

  #press(event) {
    const at = event.target.closest(".cell, .gutter");
    if (!at || event.button !== 0) return;
    const row = this.#pool.find((it) => it.node === at.parentNode);
    const whole = at === row.number;
    this.node.focus({ preventScroll: true });
    event.preventDefault();
    const begin = event.shiftKey ? this.selection.box.rows[0] : row.index;
    if (whole) this.selection.rows(begin, row.index, this.#columns.length);
    else this.#go(row.index, at.place, event.shiftKey);
    const over = (to) => {
      const cell = document.elementFromPoint(to.clientX, to.clientY)?.closest(".cell, .gutter");
      const there = cell && this.#pool.find((it) => it.node === cell.parentNode);
      if (!there) return;
      if (whole) this.selection.rows(begin, there.index, this.#columns.length);
      else if (cell.place !== undefined && (there.index !== this.selection.row || cell.place !== this.selection.col)) this.selection.go(there.index, cell.place, true);
      this.draw();
    };
    addEventListener("pointermove", over);
    addEventListener("pointerup", () => (removeEventListener("pointermove", over), this.does.selected()), { once: true });
    this.draw();
  }

  #go(row, col, extend) {
    this.selection.go(row, col, extend);
    this.reveal();
    this.does.selected();
  }

  /** Shows the cell one is on. */
  reveal() {
    const { row, col } = this.selection;
    if (row >= 0) this.place.reveal(row);
    const [left, right] = [this.#lefts[col], this.#lefts[col + 1]];
    if (left - this.#lefts[0] < this.node.scrollLeft) this.node.scrollLeft = left - this.#lefts[0];
    else if (right > this.node.scrollLeft + this.node.clientWidth) this.node.scrollLeft = Math.min(right - this.node.clientWidth, left - this.#lefts[0]);
    this.#syncBar();
    this.draw();
  }

  focusHead(col) {
    this.#go(-1, col, false);
  }

  /** Goes to a row, counted from 0. */
  goTo(index, extend = false) {
    this.#go(Math.max(0, Math.min(this.rows - 1, index)), this.selection.col, extend);
  }

  #detail() {
    const { row, col } = this.selection;
    if (row >= 0 && this.#columns[col]) this.does.detail(row, this.#columns[col]);
  }

  /** Does what a key stands for; says whether it stands for something. */
  key(event) {
    const { selection, place } = this;
    const mod = event.ctrlKey || event.metaKey;
    const last = this.rows - 1;
    const [row, col] = [selection.row, selection.col];
    const column = this.#columns[col];
    const page = Math.max(1, Math.floor(place.view / ROW) - 1);
    const end = this.#columns.length - 1;
    const go = (toRow, toCol) => this.#go(Math.max(-1, Math.min(last, toRow)), Math.max(0, Math.min(end, toCol)), event.shiftKey && toRow >= 0);
    if (row === -1 && column && event.altKey && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
      this.header.resize(column, this.width(column) + (event.key === "ArrowLeft" ? -16 : 16));
    } else if (event.altKey && event.key === "ArrowDown" && column && this.state.can("filter")) this.does.filter(column, this.header.opener(column));
    else if (event.key === "ArrowDown") go(mod ? last : row + 1, col);
    else if (event.key === "ArrowUp") go(mod ? 0 : row - 1, col);
    else if (event.key === "ArrowLeft") go(row, mod ? 0 : col - 1);
    else if (event.key === "ArrowRight") go(row, mod ? end : col + 1);
    else if (event.key === "PageDown") (place.move(place.top + page * ROW), go(Math.max(0, row) + page, col));
    else if (event.key === "PageUp") (place.move(place.top - page * ROW), go(Math.max(0, row - page), col));
    else if (event.key === "Home") go(mod ? 0 : row, 0);
    else if (event.key === "End") go(mod ? last : row, end);
    else if (event.key === "a" && mod) (selection.rows(0, last, this.#columns.length), this.does.selected(), this.draw(), announce(`${count(last + 1)} rows selected.`));
    else if ((event.key === "Enter" || event.key === " ") && row === -1 && column) this.state.turnSort(column.name, event.shiftKey);
    else if (event.key === "Enter") this.#detail();
    else return false;
    return true;
  }
}
