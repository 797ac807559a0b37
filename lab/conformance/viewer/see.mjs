// What is to be seen in the table, and how one gets there.

import assert from "node:assert/strict";

import { AxeBuilder } from "@axe-core/playwright";

/** Sorting ten million rows takes minutes on a small machine, without optimisations. */
export const LONG = 600_000;

/** The rows that are seen, from the top: number and cells by column. */
export function seen(where) {
  return where.locator(".grid").evaluate(async (grid) => {
    // What was done last is seen from the next frame on.
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const names = new Map([...grid.querySelectorAll(".hcell")].map((it) => [it.getAttribute("aria-colindex"), it.querySelector(".label").textContent]));
    const box = grid.querySelector(".body").getBoundingClientRect();
    const rows = [...grid.querySelectorAll(".row:not([hidden])")].map((row) => ({
      index: Number(row.getAttribute("aria-rowindex")) - 2,
      number: row.querySelector(".gutter").textContent,
      loading: row.classList.contains("loading"),
      whole: row.getBoundingClientRect().top >= box.top - 1 && row.getBoundingClientRect().bottom <= box.bottom + 1,
      cells: Object.fromEntries([...row.querySelectorAll(".cell:not([hidden])")].map((cell) => [names.get(cell.getAttribute("aria-colindex")), cell.textContent])),
    }));
    return rows.sort((a, b) => a.index - b.index);
  });
}

/** Waits until all rows in view are there, and gives them back. */
export async function settled(where, timeout = 15_000) {
  const until = Date.now() + timeout;
  for (;;) {
    const rows = await seen(where);
    if (rows.length && rows.every((row) => !row.loading)) return rows;
    assert(Date.now() < until, `rows do not come: ${JSON.stringify(rows.slice(0, 2))}`);
    await where.locator(".row.loading:not([hidden])").first().waitFor({ state: "detached", timeout: 200 }).catch(() => {});
  }
}

/** Tries until it holds: what follows a click or a key may take a frame, or a moment. */
export async function soon(check, timeout = 15_000) {
  const until = Date.now() + timeout;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() >= until) throw error;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** The head of a column. */
export function head(where, name) {
  return where.locator(".hcell", { has: where.locator(`.label:text-is("${name}")`) });
}

/** Opens a column's filter. */
export async function openFilter(where, name) {
  await head(where, name).locator(".hname").hover();
  await where.getByRole("button", { name: `Filter ${name}` }).click();
  return where.getByRole("dialog", { name: `Filter ${name}` });
}

/** How many rows the bar says that there are. */
export async function shownCount(where) {
  const text = await where.locator("p.facts > span").first().textContent();
  return Number(text.split(" of ")[0].replace(/[^\d]/g, ""));
}

/**
 * Makes the window so large that the table ends with a whole column and a whole row, and that an open panel at the side
 * is seen to its end: a picture cuts nothing. `where` is the page, or the frame that fills it.
 */
export async function fit(page, where, columns, height) {
  // Wide first, because columns that are not in view are not drawn.
  await page.setViewportSize({ width: 2000, height });
  await seen(where);
  const width = await where.locator(".grid").evaluate((grid, columns) => {
    const rights = [...grid.querySelectorAll(".hcell")].map((it) => Number.parseFloat(it.style.left) + Number.parseFloat(it.style.width));
    return innerWidth - grid.clientWidth + rights.sort((a, b) => a - b)[columns - 1];
  }, columns);
  await page.setViewportSize({ width: Math.ceil(width), height });
  await seen(where);
  const more = await where.locator(".grid").evaluate((grid) => {
    const panel = document.querySelector(".side:not([hidden]) .inside");
    const hidden = panel ? panel.scrollHeight - panel.clientHeight : 0;
    const rows = grid.clientHeight + hidden - grid.querySelector(".head").offsetHeight;
    return hidden + (28 - (rows % 28)) % 28;
  });
  await page.setViewportSize({ width: Math.ceil(width), height: height + more });
  await settled(where);
}

/** Nothing that would keep somebody from using the page. */
export async function checkAxe(page, what) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const words = grave.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`);
  assert.deepEqual(words, [], `${what} is hard to use for some`);
}
