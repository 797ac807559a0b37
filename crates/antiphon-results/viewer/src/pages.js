// Rows, fetched in pages ahead of the eye, kept for a while, and given up when nobody looks any more.

import { isAbort, whenReady } from "./problem.js";

/** How many pages are kept. */
const KEPT = 60;

/** How many cells a page has at most: a wide table has fewer rows a page. */
const CELLS = 12_000;

const PAGE = 200;

/** The rows of the view that is shown. */
export class Pages {
  #pages = new Map();
  #running = new Map();
  #generation = 0;

  /**
   * @param {import("./rest.js").Transport} transport
   * @param {import("./state.js").State} state
   * @param {() => void} onRows called when there are more
   */
  constructor(transport, state, onRows) {
    Object.assign(this, { transport, state, onRows });
    this.size = PAGE;
  }

  /** Forgets everything: another view is wanted. */
  reset() {
    this.#generation += 1;
    for (const { abort } of this.#running.values()) abort.abort();
    this.#running.clear();
    this.#pages.clear();
    this.size = Math.max(25, Math.min(PAGE, Math.floor(CELLS / Math.max(1, this.state.shown.length))));
    this.state.setWaiting(null);
    this.state.setProblem(null);
  }

  /** A row, if it is there. */
  row(index) {
    return this.#pages.get(Math.floor(index / this.size))?.[index % this.size];
  }

  /** Fetches what is seen and what may be seen next, and stops fetching everything else. */
  want(first, last) {
    if (this.state.problem || this.state.manifest?.status === "failed") return;
    const at = (row) => Math.floor(Math.max(0, row) / this.size);
    const end = this.state.total === null ? 0 : at(Math.max(0, this.state.total - 1));
    const [low, high] = [Math.min(at(first), end), Math.min(at(last), end)];
    const seen = range(low, high);
    const near = [high + 1, low - 1].filter((page) => page >= 0 && page <= end);
    for (const [page, { abort }] of this.#running) {
      if (page < low - 1 || page > high + 1) {
        abort.abort();
        this.#running.delete(page);
      }
    }
    for (const page of [...seen, ...near]) if (!this.#pages.has(page) && !this.#running.has(page)) this.#fetch(page);
    // What is seen now is what is kept longest.
    for (const page of seen) this.#touch(page);
  }

  #touch(page) {
    const rows = this.#pages.get(page);
    if (!rows) return;
    this.#pages.delete(page);
    this.#pages.set(page, rows);
  }

  async #fetch(page) {
    const generation = this.#generation;
    const abort = new AbortController();
    this.#running.set(page, { abort });
    try {
      const rows = await this.read(page * this.size, this.size, { signal: abort.signal });
      if (generation !== this.#generation) return;
      this.#pages.set(page, rows);
      for (const old of this.#pages.keys()) {
        if (this.#pages.size <= KEPT) break;
        this.#pages.delete(old);
      }
      this.onRows();
    } catch (error) {
      if (generation === this.#generation && !isAbort(error)) this.state.setProblem(error);
    } finally {
      if (this.#running.get(page)?.abort === abort) this.#running.delete(page);
      if (generation === this.#generation && !this.#running.size) this.state.setWaiting(null);
    }
  }

  /** So many rows from one on. A server may stop early when rows are large: then it is asked for the rest. */
  async read(offset, limit, { signal, columns } = {}) {
    const generation = this.#generation;
    const ask = { ...this.state.ask(), ...(columns && { columns }) };
    const rows = [];
    while (rows.length < limit) {
      const part = { offset: offset + rows.length, limit: limit - rows.length, ...ask };
      const onWait = (seconds) => generation === this.#generation && this.state.setWaiting({ seconds });
      const body = await whenReady(() => this.transport.rows(part, signal), { signal, onWait });
      if (generation !== this.#generation) throw new DOMException("another view is shown", "AbortError");
      this.state.setTotal(body.total_count);
      rows.push(...body.data);
      if (!body.data.length || offset + rows.length >= body.total_count) break;
    }
    return rows;
  }

  /** Rows that may or may not be here already. */
  async slice(first, count, signal) {
    const rows = [];
    for (let at = first; at < first + count; ) {
      const row = this.row(at);
      if (row) rows.push(row);
      else rows.push(...(await this.read(at, Math.min(PAGE, first + count - at), { signal })));
      if (rows.length === at - first) break;
      at = first + rows.length;
    }
    return rows;
  }
}

function range(from, to) {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
