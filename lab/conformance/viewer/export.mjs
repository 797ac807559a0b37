// Exports: by the browser's own download, and straight to a file; what is shown, and all of it.

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

import { LONG, openFilter, settled } from "./see.mjs";

/** Rows that are exported: every set has at least as many. */
const SOME = 12_345;

export async function checkExport({ page }) {
  const range = await openFilter(page, "id");
  await range.getByLabel("To").fill(String(SOME));
  await range.getByRole("button", { name: "Apply" }).click();
  await settled(page, LONG);
  await byBrowser(page);
  await toDisk(page);
  await page.getByRole("button", { name: /Remove filter/ }).click();
  await settled(page);
}

async function choose(page, format) {
  await page.getByRole("button", { name: "Export" }).click();
  const dialog = page.getByRole("dialog", { name: "Export" });
  assert(await dialog.getByLabel(/Current view \(12,345 rows\)/).isChecked());
  const offered = await dialog.locator(".format b").allTextContents();
  assert.deepEqual(offered, ["CSV", "Excel", "NDJSON", "Parquet", "Arrow"]);
  await dialog.locator(`[data-format="${format}"]`).click();
}

/** Where a page may not write files, the browser downloads them. */
async function byBrowser(page) {
  await page.evaluate(() => (window.showSaveFilePicker = undefined));
  const [download] = await Promise.all([page.waitForEvent("download", { timeout: LONG }), choose(page, "csv")]);
  assert.match(download.suggestedFilename(), /\.csv$/);
  let lines = 0;
  let first;
  for await (const line of createInterface({ input: createReadStream(await download.path()) })) {
    first ??= line;
    lines += 1;
  }
  assert.equal(lines, SOME + 1, "a line a row, and the names");
  assert.match(first, /^"?id"?,"?customer"?,/);
}

/** Where it may, rows stream into the file that the person has picked: here one of the browser's own. */
async function toDisk(page) {
  await page.evaluate(() => {
    window.showSaveFilePicker = async ({ suggestedName }) => {
      const folder = await navigator.storage.getDirectory();
      return (window.picked = await folder.getFileHandle(suggestedName, { create: true }));
    };
  });
  await choose(page, "ndjson");
  await page.locator(".exporting").getByText(/was saved: /).waitFor({ timeout: LONG });
  const { lines, last } = await page.evaluate(async () => {
    const text = await (await window.picked.getFile()).text();
    const all = text.trimEnd().split("\n");
    return { lines: all.length, last: all.at(-1) };
  });
  assert.equal(lines, SOME, "a line a row");
  assert.equal(JSON.parse(last).id, SOME);
  await page.locator(".exporting").getByRole("button", { name: "Close" }).click();
}
