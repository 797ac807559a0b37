// Calls the tools of `asking-server` in scripted hosts, answers their questions in the form, and prints a table.
//
//   node drive.mjs URL PICTURES_FOLDER --defaults URL --page URL [--profile NAME] [--tool NAME]
//
// The first server has short times, `--defaults` names one with the default times, and `--page` one with an answer page.
// CHROMIUM names the browser. FORM names a file that is used for the checks of the form alone, instead of the server's
// form.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

import { CHECKS } from "./forms.mjs";
import { LOOKS } from "./look.mjs";
import { readForm, tryAll } from "./matrix.mjs";
import { PAGES } from "./page.mjs";
import { PROFILES } from "./profiles.mjs";
import { checkAxe, serveHost } from "./see.mjs";
import { TOOLS } from "./tools.mjs";

const options = Object.fromEntries(["defaults", "page", "profile", "tool"].map((name) => [name, { type: "string" }]));
const { values: chosen, positionals: [url, pictures] } = parseArgs({ allowPositionals: true, options });
assert(url && pictures && chosen.defaults && chosen.page, "usage: node drive.mjs URL PICTURES_FOLDER --defaults URL --page URL [--profile NAME] [--tool NAME]");

/** All of `from`, or the one with this name. */
function select(from, name, what) {
  if (name === undefined) return from;
  assert(Object.hasOwn(from, name), `there is no ${what} \`${name}\`; choose one of: ${Object.keys(from).join(", ")}`);
  return { [name]: from[name] };
}
const profiles = select(PROFILES, chosen.profile, "profile");
const tools = select(TOOLS, chosen.tool, "tool");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Chromium has no sandbox for root, which is the user of CI and of containers.
  args: ["--force-device-scale-factor=2", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])],
});
const host = await serveHost();

/** Saves a screenshot of a page, or of the pages that are open. */
async function keep(name, page) {
  const pages = page ? [page] : browser.contexts().flatMap((it) => it.pages());
  for (const it of pages) await it.screenshot({ path: path.join(pictures, `asking-${name}.png`) }).catch(() => {});
}
const env = { browser, host, urls: { short: url, defaults: chosen.defaults, page: chosen.page }, keep, axe: checkAxe, opened: [], complaint };

/** The problems that the browser has reported since the last call, as an error, or `null`. */
function complaint() {
  const found = env.opened.splice(0).flat();
  return found.length ? new Error(`the browser reported: ${found.join(", ")}`) : null;
}

/** The first line of an error, for a cell. */
const why = (error) => String(error?.message ?? error).split("\n")[0].slice(0, 60);

/** Lines with aligned columns. */
function aligned(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((text, column) => text.padEnd(widths[column])).join("  ").trimEnd()).join("\n");
}

/** Makes these checks, and prints how many passed. */
async function checkAll(what, checks) {
  const failed = [];
  for (const [name, check] of Object.entries(checks)) {
    const error = await check(env).then(complaint, (thrown) => (complaint(), thrown));
    if (error) {
      failed.push([name, error]);
      await keep(`failed-${name}`);
    }
    for (const context of browser.contexts()) await context.close();
  }
  const count = Object.keys(checks).length;
  console.log(`${what}: ${count - failed.length} of ${count} checks passed`);
  failures.push(...failed);
  passed += count - failed.length;
}

let passed = 0;
const failures = [];
try {
  const html = await readForm(env, PROFILES["to-the-spec"]);
  const all = chosen.profile === undefined && chosen.tool === undefined;
  if (all) {
    // With scripted replies instead of a server.
    host.put(process.env.FORM ? await readFile(process.env.FORM, "utf8") : html);
    await checkAll("the form alone", { ...CHECKS, ...LOOKS });
    await checkAll("the answer page", PAGES);
    console.log();
  }
  const found = await tryAll(env, profiles, tools);
  const names = Object.keys(tools);
  console.log(aligned([["host", ...names], ...[...found].map(([name, cells]) => [name, ...names.map((tool) => (cells.get(tool) ? `FAILED: ${why(cells.get(tool))}` : cells.has(tool) ? "answered" : "-"))])]));
  for (const [name, cells] of found) {
    for (const [tool, error] of cells) {
      if (error) failures.push([`${name}, ${tool}`, error]);
      else passed += 1;
    }
  }
} finally {
  await browser.close();
  host.close();
}
for (const [what, error] of failures) console.error(`\n${what}: ${error?.stack ?? error}`);
console.log(`\n${passed} passed, ${failures.length} failed`);
// A cell that took too long can still have connections.
process.exit(failures.length ? 1 : 0);
