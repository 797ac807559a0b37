// What is shown: the set, and how the person wants to see it.

import { announce } from "./dom.js";
import { kindOf, rowsText } from "./format.js";

/**
 * @typedef {{name: string, type: string, kind: string, index: number, description?: string, format?: string}} Column
 * @typedef {{column: string, op: string, value?: any}} Filter
 * @typedef {{field: string, order: "asc"|"desc"}} Sort
 */

/** How many columns may be sorted by. */
const MAX_SORTS = 4;

/** What is shown. It fires `view` when other rows are wanted, `columns`, `total`, `stats`, `waiting`, `problem`, `manifest`. */
export class State extends EventTarget {
  manifest = null;
  /** @type {Column[]} */
  columns = [];
  hidden = new Set();
  widths = new Map();
  /** @type {Sort[]} */
  sort = [];
  /** @type {Filter[]} */
  filter = [];
  /** How many rows the view has; `null` while nobody knows. */
  total = null;
  stats = new Map();
  /** What is waited for, and for how many seconds. */
  waiting = null;
  problem = null;

  emit(name) {
    this.dispatchEvent(new Event(name));
  }

  on(names, listener) {
    for (const name of names.split(" ")) this.addEventListener(name, listener);
  }

  setManifest(manifest) {
    const had = this.columns.length;
    this.manifest = manifest;
    this.columns = (manifest.columns ?? []).map((column, index) => ({ ...column, index, kind: kindOf(column) }));
    if (!this.filter.length) this.setTotal(manifest.status === "ready" ? manifest.rows : null);
    this.emit("manifest");
    if (had !== this.columns.length) this.emit("columns");
  }

  /** Whether the server can do something: sort, filter, aggregate, stats. */
  can(what) {
    return this.manifest?.can?.[what] === true;
  }

  /** The columns that are shown. */
  get shown() {
    return this.columns.filter((column) => !this.hidden.has(column.name));
  }

  column(name) {
    return this.columns.find((column) => column.name === name);
  }

  /** Whether the set is seen as it is. */
  get isWhole() {
    return !this.sort.length && !this.filter.length;
  }

  setTotal(total) {
    if (this.total === total) return;
    this.total = total;
    this.emit("total");
    if (total !== null && this.filter.length) announce(rowsText(total));
  }

  setWaiting(waiting) {
    this.waiting = waiting;
    this.emit("waiting");
  }

  setProblem(problem) {
    this.problem = problem;
    this.emit("problem");
    if (problem) announce(problem.message);
  }

  /** Which way a column is sorted, and as which of several. */
  sortOf(name) {
    const at = this.sort.findIndex((by) => by.field === name);
    return at < 0 ? null : { order: this.sort[at].order, place: this.sort.length > 1 ? at + 1 : 0 };
  }

  /** From the least, from the greatest, not at all; beside the other columns, or instead of them. */
  turnSort(name, beside = false) {
    if (!this.can("sort")) return;
    const now = this.sortOf(name);
    const next = !now ? "asc" : now.order === "asc" ? "desc" : null;
    const by = next && { field: name, order: next };
    if (beside) {
      const at = this.sort.findIndex((it) => it.field === name);
      if (at < 0) this.sort = [...this.sort, by].slice(-MAX_SORTS);
      else this.sort = by ? this.sort.with(at, by) : this.sort.toSpliced(at, 1);
    } else this.sort = by ? [by] : [];
    this.emit("view");
    const words = this.sort.map((it) => `${it.field}, ${it.order === "asc" ? "ascending" : "descending"}`);
    announce(words.length ? `Sorted by ${words.join("; then ")}.` : "Original order.");
  }

  filtersOf(name) {
    return this.filter.filter((it) => it.column === name);
  }

  /** Puts these in the place of what was asked of a column. */
  setFilters(name, filters) {
    this.filter = [...this.filter.filter((it) => it.column !== name), ...filters];
    this.setTotal(this.filter.length ? null : (this.manifest?.rows ?? null));
    this.emit("view");
    if (!this.filter.length) announce("No filters.");
  }

  clearFilters() {
    this.filter = [];
    this.setTotal(this.manifest?.rows ?? null);
    this.emit("view");
    announce("No filters.");
  }

  setHidden(names) {
    this.hidden = new Set(names);
    this.emit("columns");
  }

  /** How the rows are asked for. */
  ask() {
    const ask = {};
    if (this.sort.length) ask.sort = this.sort;
    if (this.filter.length) ask.filter = this.filter;
    if (this.hidden.size) ask.columns = this.shown.map((column) => column.name);
    return ask;
  }
}
