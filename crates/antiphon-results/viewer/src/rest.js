// The way to the data over HTTP: the page was opened by a link.

import { Problem, problemOf } from "./problem.js";
import { parseJson } from "./json.js";

/**
 * What both ways to the data can do.
 * @typedef {object} Transport
 * @property {(signal?: AbortSignal) => Promise<any>} manifest
 * @property {(ask: RowsAsk, signal?: AbortSignal) => Promise<{data: object[], total_count: number}>} rows
 * @property {(signal?: AbortSignal) => Promise<{columns: any[]}>} stats
 * @property {(ask: object, signal?: AbortSignal) => Promise<{data: object[], groups: number}>} aggregate
 * @property {(format: string, view: object) => Promise<string>} exportLink
 *
 * @typedef {{offset: number, limit: number, sort?: object[], filter?: object[], columns?: string[]}} RowsAsk
 */

/** Where a page that was opened by a link gets its rows from; `null` if it was not. */
export function placeOf(location) {
  const found = /^(.*)\/([^/]+)\/view\/?$/.exec(location.pathname);
  if (!found || !/^https?:$/.test(location.protocol)) return null;
  // A page that is loaded again finds the link where it was put, which is not the address.
  const link = new URLSearchParams(location.search).get("link") ?? history.state?.link ?? null;
  return { base: `${location.origin}${found[1]}/${found[2]}`, link };
}

/** The way to one set. @implements {Transport} */
export class Rest {
  /**
   * @param {string} base the set's address
   * @param {string|null} link the token of the link
   */
  constructor(base, link) {
    this.base = base;
    this.link = link;
  }

  /** The way to the set that a signed address leads to. */
  static from(address) {
    const url = new URL(address);
    return new Rest(`${url.origin}${url.pathname.replace(/\/$/, "")}`, url.searchParams.get("link"));
  }

  manifest(signal) {
    return this.#ask("/manifest", { signal });
  }

  rows(ask, signal) {
    return this.#ask("", { signal, body: ask });
  }

  stats(signal) {
    return this.#ask("/stats", { signal });
  }

  aggregate(ask, signal) {
    return this.#ask("/aggregate", { signal, body: ask });
  }

  async exportLink(format, view) {
    return this.exportAddress(format, view);
  }

  /** Where a view can be got in a format. */
  exportAddress(format, { sort = [], filter = [], columns = [] }) {
    const query = { format };
    if (sort.length === 1) Object.assign(query, { sort: sort[0].field, order: sort[0].order });
    if (sort.length > 1) query.sort = sort.map((by) => (by.order === "desc" ? `-${by.field}` : by.field)).join(",");
    if (filter.length) query.filter = JSON.stringify(filter);
    const url = new URL(this.#address("/export", query));
    // A name with a comma in it stays one name.
    for (const name of columns) url.searchParams.append("columns", name);
    return url.href;
  }

  /** Waits until a file can be fetched; how long it is, where that is known. */
  async size(address, signal) {
    const response = await this.#fetch(address, { method: "HEAD", signal });
    const length = response.headers.get("content-length");
    return length === null ? null : Number(length);
  }

  /** A file, to be read as it comes. */
  file(address, signal) {
    return this.#fetch(address, { signal });
  }

  #address(path, query = {}) {
    const url = new URL(this.base + path);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    if (this.link) url.searchParams.set("link", this.link);
    return url.href;
  }

  async #ask(path, { body, signal }) {
    const headers = { accept: "application/json" };
    if (body) headers["content-type"] = "application/json";
    const response = await this.#fetch(this.#address(path), { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) });
    return parseJson(await response.text());
  }

  async #fetch(address, options) {
    let response;
    try {
      response = await fetch(address, { credentials: "same-origin", redirect: "follow", ...options });
    } catch (error) {
      if (error?.name === "AbortError") throw error;
      throw new Problem("NETWORK", "The server cannot be reached. Check the connection, then try again.");
    }
    if (response.ok && response.status !== 202) return response;
    const body = await response.json().catch(() => ({}));
    throw problemOf(response.status, body, Number(response.headers.get("retry-after")) || undefined);
  }
}
