// Which cells are chosen, and how they are copied.

import { announce } from "./dom.js";
import { cellText, count } from "./format.js";

/** The most rows that are copied: more belongs into a file. */
export const MOST_COPIED = 5000;

/** Which cells are chosen: a rectangle between where one began and where one is. */
export class Selection {
  row = 0;
  col = 0;
  #from = null;

  /** Goes to a cell; `extend` keeps where one began. */
  go(row, col, extend = false) {
    if (extend) this.#from ??= { row: this.row, col: this.col };
    else this.#from = null;
    this.row = row;
    this.col = col;
  }

  /** Chooses whole rows. */
  rows(first, last, columns) {
    this.#from = { row: first, col: 0 };
    this.row = last;
    this.col = Math.max(0, columns - 1);
  }

  /** Whether more than one cell is chosen. */
  get many() {
    return this.#from !== null;
  }

  /** The rectangle. */
  get box() {
    const from = this.#from ?? this;
    const order = (a, b) => [Math.max(0, Math.min(a, b)), Math.max(a, b)];
    return { rows: order(from.row, this.row), cols: order(from.col, this.col) };
  }

  has(row, col) {
    const { rows, cols } = this.box;
    return row >= rows[0] && row <= rows[1] && col >= cols[0] && col <= cols[1];
  }
}

/** Rows as a spreadsheet takes them: tabs between cells, and none within. */
export function tsv(rows, columns) {
  const cell = (text) => (/["\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const line = (row) => columns.map((column) => cell(cellText(row?.[column.name], "text"))).join("\t");
  return rows.map(line).join("\n");
}

/** Puts text where it can be pasted, also where a page in a frame may not use the clipboard itself. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    const back = document.activeElement;
    area.select();
    document.execCommand("copy");
    area.remove();
    back?.focus?.();
  }
  announce("Copied.");
}

/** Copies what is chosen; rows that are not here yet are fetched. */
export async function copySelection(selection, pages, columns) {
  const { rows, cols } = selection.box;
  const number = rows[1] - rows[0] + 1;
  if (number > MOST_COPIED) {
    announce(`${count(number)} rows are too many to copy. Export them instead.`);
    return `Only ${count(MOST_COPIED)} rows can be copied. Use Export for more.`;
  }
  const chosen = columns.slice(cols[0], cols[1] + 1);
  await copyText(tsv(await pages.slice(rows[0], number), chosen));
  return `Copied ${count(number)} × ${count(chosen.length)} cells.`;
}
