// The table: the first rows, the last, everything between; sorted and filtered.

import assert from "node:assert/strict";

import { LONG, checkAxe, fit, head, openFilter, seen, settled, shownCount, soon } from "./see.mjs";
import { checkNames } from "../studio/look.mjs";

/** How soon the first rows must be there. */
const SOON = 1000;

export async function checkTable({ page, server, rows, shoot }) {
  const first = await arrive(page, server);
  await checkFirst(page, rows);
  await checkReload(page);
  await checkScroll(page, rows);
  await fit(page, page, 8, 560);
  await shoot("table", { dark: true });
  await page.setViewportSize({ width: 1200, height: 720 });
  await checkAxe(page, "the table");
  await checkNames(page);
  await checkSort(page, rows);
  await checkFilter(page, rows);
  await checkColumns(page, shoot);
  await checkDetail(page);
  await checkNarrow(page);
  return first;
}

/** The best of three: others use this machine too. */
async function arrive(page, server) {
  await page.addInitScript(() => {
    const look = () => (document.querySelector(".row:not(.loading):not([hidden]) .cell") ? (window.firstRows = performance.now()) : requestAnimationFrame(look));
    requestAnimationFrame(look);
  });
  const times = [];
  for (let i = 0; i < 3; i += 1) {
    await page.goto("about:blank");
    const response = await page.goto(server.view);
    const policy = response.headers()["content-security-policy"];
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe/);
    await page.waitForFunction(() => window.firstRows);
    times.push(Math.round(await page.evaluate(() => window.firstRows)));
  }
  const best = Math.min(...times);
  assert(best < SOON, `the first rows came after ${times.join(", ")} ms`);
  assert(!page.url().includes("link"), `the link is still in the address: ${page.url()}`);
  return best;
}

async function checkFirst(page, rows) {
  const [first, second] = await settled(page);
  assert.deepEqual([first.index, first.number, first.cells.id, second.cells.id], [0, "1", "1", "2"]);
  assert.equal(await shownCount(page), rows);
  assert.equal(await page.locator(".grid").getAttribute("aria-rowcount"), String(rows + 1));
  assert.match(await page.locator("p.facts").textContent(), /8 columns.*expires in/);
  // What is in the columns is drawn in their heads.
  await head(page, "amount").locator(".spark .bar").first().waitFor({ timeout: LONG });
  await head(page, "channel").locator(".top").first().waitFor();
}

/** A page that is loaded again still has its link, and not in the address. */
async function checkReload(page) {
  await page.reload();
  await settled(page);
  assert(!page.url().includes("link"));
  await head(page, "amount").locator(".spark .bar").first().waitFor({ timeout: LONG });
}

async function checkScroll(page, rows) {
  const grid = page.locator(".grid");
  const bar = (share) => grid.evaluate((it, to) => (it.scrollTop = to * (it.scrollHeight - it.clientHeight)), share);
  // The bar, dragged to its end: the last row, and all of it.
  await bar(1);
  await page.locator(`.row[aria-rowindex="${rows + 1}"]`).waitFor();
  await soon(async () => {
    const last = (await settled(page)).at(-1);
    assert.deepEqual([last.index, last.number, last.cells.id, last.whole], [rows - 1, rows.toLocaleString("en-US"), String(rows), true]);
  });
  // To the middle: where half of the rows are above.
  await bar(0.5);
  await page.locator(`.row[aria-rowindex="${rows + 1}"]`).waitFor({ state: "detached" }).catch(() => {});
  const middle = await soon(async () => {
    const found = await settled(page);
    assert(Math.abs(found[0].index - rows / 2) < rows / 100, `the middle is at ${found[0].index}`);
    return found;
  });
  for (const row of middle) assert.equal(row.cells.id, String(row.index + 1));
  // The wheel moves rows, not the bar: a notch is as far among ten million as among ten.
  await grid.hover();
  await grid.evaluate((it) => it.addEventListener("wheel", (event) => (window.wheeled = event.deltaY), { once: true }));
  await page.mouse.wheel(0, 280);
  const top = (before) => Math.min(...[...document.querySelectorAll(".row:not([hidden])")].map((it) => Number(it.getAttribute("aria-rowindex")) - 2)) === before + window.wheeled / 28;
  await page.waitForFunction(top, middle[0].index);
  for (const row of await settled(page)) assert.equal(row.cells.id, String(row.index + 1));
  // By number, then back to the beginning.
  await page.getByLabel("Go to row").fill("123,456");
  await page.keyboard.press("Enter");
  await page.locator('.row[aria-rowindex="123457"] .cell.active').waitFor();
  await soon(async () => assert((await settled(page)).some((row) => row.cells.id === "123456" && row.whole)));
  await bar(0);
  await begins(page);
}

async function checkSort(page, rows) {
  const amount = head(page, "amount");
  const order = (column, expected) => soon(async () => assert.equal(await column.getAttribute("aria-sort"), expected));
  await amount.locator(".label").click();
  await order(amount, "ascending");
  await settled(page, LONG);
  await amount.locator(".label").click();
  await order(amount, "descending");
  await settled(page, LONG);
  const numbers = await soon(async () => {
    const found = (await settled(page)).map((row) => Number(row.cells.amount));
    assert.deepEqual(found, found.toSorted((a, b) => b - a));
    return found;
  });
  await soon(async () => assert.equal(await page.locator("#live").textContent(), "Sorted by amount, descending."));
  // The least is at the other end, which is as near.
  await page.locator(".grid").focus();
  await page.keyboard.press("Control+End");
  await page.locator(`.row[aria-rowindex="${rows + 1}"]`).waitFor();
  await soon(async () => {
    const least = (await settled(page)).map((row) => Number(row.cells.amount));
    assert(least.at(-1) <= least[0] && least[0] <= numbers.at(-1));
  });
  await page.keyboard.press("Control+Home");
  // A second column beside it.
  await head(page, "quantity").locator(".label").click({ modifiers: ["Shift"] });
  await settled(page, LONG);
  await soon(async () => assert.equal(await head(page, "quantity").locator(".mark").textContent(), "2"));
  // Without Shift, alone: the other way round, then not at all.
  await head(page, "quantity").locator(".label").click();
  await head(page, "quantity").locator(".label").click();
  await order(head(page, "quantity"), "none");
  await settled(page, LONG);
  await begins(page);
}

/** The first row is where it was, on top. */
const begins = (page) => soon(async () => assert.equal((await settled(page))[0].cells.id, "1"));

async function checkFilter(page, rows) {
  const form = await openFilter(page, "channel");
  const box = form.getByRole("checkbox", { name: /^partner/ });
  const said = Number((await form.locator(".check", { hasText: "partner" }).locator("small").textContent()).replace(/[^\d]/g, ""));
  await box.check();
  await form.getByRole("button", { name: "Apply" }).click();
  await settled(page, LONG);
  await soon(async () => {
    const some = await settled(page);
    assert(some.every((row) => row.cells.channel === "partner"), JSON.stringify(some[0]));
  });
  await soon(async () => assert.equal(await shownCount(page), said, "as many as the statistics say"));
  // A range beside it, by the form of numbers.
  const range = await openFilter(page, "id");
  await range.getByLabel("To").fill(String(Math.floor(rows / 10)));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /Remove filter: id/ }).waitFor();
  await settled(page, LONG);
  await soon(async () => {
    const fewer = await shownCount(page);
    assert(fewer > 0 && fewer < said, `${fewer} of ${said}`);
  });
  // What nobody has.
  const none = await openFilter(page, "customer");
  await none.getByLabel("Text").fill("nobody is called this");
  await none.getByRole("button", { name: "Apply" }).click();
  await page.getByText("No row passes these filters.").waitFor({ timeout: LONG });
  await soon(async () => assert.equal((await seen(page)).length, 0));
  await page.getByRole("button", { name: "Clear all" }).click();
  await settled(page, LONG);
  await begins(page);
  await soon(async () => assert.equal(await shownCount(page), rows));
  assert.equal(await page.locator(".chip").count(), 0);
}

async function checkColumns(page, shoot) {
  await page.getByRole("button", { name: "Columns" }).click();
  const side = page.locator(".side");
  for (const name of ["rating", "channel"]) await side.locator("summary", { hasText: name }).click();
  await side.locator(".bigspark").waitFor();
  // A column that is opened says what it knows when the browser gets to it: one after the other.
  for (const fact of [/Mean/, /Empty.*%.*web/s]) await side.locator(".known", { hasText: fact }).waitFor();
  await fit(page, page, 5, 560);
  await shoot("stats");
  await page.setViewportSize({ width: 1200, height: 720 });
  await checkAxe(page, "the panel of columns");
  await side.getByRole("checkbox", { name: "Show customer" }).uncheck();
  await soon(async () => assert.equal((await settled(page))[0].cells.customer, undefined));
  assert.equal(await page.locator(".grid").getAttribute("aria-colcount"), "8");
  await side.getByRole("button", { name: "Show all" }).click();
  await soon(async () => assert((await settled(page))[0].cells.customer));
  await side.getByRole("button", { name: "Close" }).click();
}

async function checkDetail(page) {
  await page.locator('.row[aria-rowindex="3"] .cell').nth(1).dblclick();
  const side = page.locator(".side");
  await soon(async () => assert.match(await side.textContent(), /customer.*Row 2 /s));
  await page.keyboard.press("Escape");
  await side.waitFor({ state: "hidden" });
}

/** On a telephone, and with everything twice as large. */
async function checkNarrow(page) {
  for (const [width, height] of [[360, 640], [600, 360]]) {
    await page.setViewportSize({ width, height });
    await soon(async () => assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is wider than ${width}`));
    await soon(async () => {
      const rows = await settled(page);
      assert(rows.filter((row) => row.whole).length >= 2, `${rows.length} rows at ${width} × ${height}`);
    });
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByRole("dialog", { name: "Export" }).getByRole("button", { name: /CSV/ }).waitFor();
    await page.keyboard.press("Escape");
  }
  await page.setViewportSize({ width: 1200, height: 720 });
}
