// Looks at a result set in the viewer, as a person would, and checks everything on the way.
//
//   node drive.mjs READY IMAGES_FOLDER ROWS
//
// READY is what the example `explore` printed. EXPLORE is its program. CHROMIUM names the browser. VIEWER serves the page
// from this file instead, to try changes without a build.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { chromium } from "playwright-core";

import { checkChart } from "./chart.mjs";
import { checkExport } from "./export.mjs";
import { checkDeliveries, checkHost } from "./hosted.mjs";
import { checkKeyboard } from "./keyboard.mjs";
import { checkStates } from "./states.mjs";
import { checkTable } from "./table.mjs";
import { watch } from "../studio/look.mjs";

const [ready, images, count] = process.argv.slice(2);
assert(ready && images && Number(count), "usage: node drive.mjs READY IMAGES_FOLDER ROWS");
const server = JSON.parse(ready);
const rows = Number(count);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Chromium does not sandbox for root, which is who CI and containers are. A frame in a process of its own is drawn as
  // finely as the page only if the browser itself is told so.
  args: ["--force-device-scale-factor=2", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])],
});
const context = await browser.newContext({ viewport: { width: 1200, height: 720 }, deviceScaleFactor: 2, colorScheme: "light", locale: "en-US", acceptDownloads: true });
const page = await context.newPage();
const complaints = await watch(page);
const prepare = async (where) => process.env.VIEWER && where.route(/\/view(\?|$)/, serveFile);
await prepare(page);

const shoot = async (name, { where = page, dark = false } = {}) => {
  // Away from everything that is drawn in another way under the mouse.
  await where.mouse.move(0, 0);
  await where.screenshot({ path: path.join(images, `viewer-${name}.png`) });
  if (!dark) return;
  await where.emulateMedia({ colorScheme: "dark" });
  await where.screenshot({ path: path.join(images, `viewer-${name}-dark.png`) });
  await where.emulateMedia({ colorScheme: "light" });
};
const told = { page, server, rows, shoot };

try {
  const first = await checkTable(told);
  await checkChart(told);
  await checkExport(told);
  await checkKeyboard(told);
  assert.deepEqual(complaints, [], "the browser complained");
  await page.close();
  await checkStates({ ...told, context, prepare });
  const hosted = await checkHost({ ...told, browser });
  const deliveries = await checkDeliveries({ browser, explore: process.env.EXPLORE });
  console.log(`${rows} rows were looked at: the first after ${first} ms, in a host after ${hosted} ms; in ${deliveries} hosts that pass on different parts of a result; nothing to complain about`);
} catch (error) {
  for (const [i, open] of browser.contexts().flatMap((it) => it.pages()).entries()) {
    await open.screenshot({ path: path.join(images, `viewer-failed-${i}.png`) }).catch(() => {});
  }
  if (complaints.length) console.error("the browser complained:", complaints);
  throw error;
} finally {
  await browser.close();
}

/** The page from a file, with the policy that the server would have made for it. */
async function serveFile(route) {
  const body = await readFile(process.env.VIEWER, "utf8");
  const hash = (tag) => `'sha256-${createHash("sha256").update(new RegExp(`<${tag}[^>]*>([^]*?)</${tag}>`).exec(body)[1]).digest("base64")}'`;
  const policy = `default-src 'none'; script-src ${hash("script")}; style-src ${hash("style")}; connect-src 'self'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
  await route.fulfill({ contentType: "text/html; charset=utf-8", headers: { "content-security-policy": policy }, body });
}
