// Everything without a mouse.

import assert from "node:assert/strict";

import { LONG, settled, shownCount, soon } from "./see.mjs";

export async function checkKeyboard({ page, server, rows }) {
  await page.goto(server.view);
  await settled(page);
  await page.locator(".hspark > *").first().waitFor({ timeout: LONG });
  await tabTo(page, ".grid");
  const at = () => page.locator("#active").evaluate((it) => [it.closest("[role=row]").getAttribute("aria-rowindex"), it.getAttribute("aria-colindex")].map(Number));
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  };
  const active = (...expected) => soon(async () => assert.deepEqual(await at(), expected));
  await active(2, 2);
  await press("ArrowDown", "ArrowRight", "ArrowRight");
  await active(3, 4);
  await press("Control+End");
  await active(rows + 1, 9);
  await soon(async () => assert.equal((await settled(page)).at(-1).cells.id, String(rows)));
  await press("Control+Home");
  await press("PageDown");
  await soon(async () => {
    const [down] = await at();
    assert(down > 10 && down < 40, `a page is ${down} rows`);
  });
  await press("PageUp", "ArrowUp");
  // On the head: sort, and filter.
  await press("Control+Home", "ArrowUp");
  await active(1, 2);
  await press("Enter", "Enter");
  await settled(page, LONG);
  await soon(async () => assert.equal((await settled(page))[0].cells.id, String(rows)));
  await press("Enter", "Alt+ArrowDown");
  await page.getByRole("dialog", { name: "Filter id" }).waitFor();
  await page.keyboard.press("Tab");
  assert(await page.evaluate(() => document.activeElement.closest("[role=dialog]") !== null), "Tab leaves the form");
  await page.keyboard.type("7");
  await page.keyboard.press("Enter");
  await settled(page, LONG);
  await soon(async () => assert.equal(await shownCount(page), 7));
  // What is selected can be pasted elsewhere.
  await soon(async () => assert(await page.evaluate(() => document.activeElement.matches(".grid")), "the focus is not back in the table"));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await press("Control+Home", "Shift+ArrowDown", "Shift+ArrowDown", "Control+c");
  await page.getByText("Copied 3 × 1 cells.").first().waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "1\n2\n3");
  await press("Enter");
  await page.locator(".side").waitFor();
  await press("Escape");
  // The tabs and the theme.
  await tabTo(page, "[role=tab][aria-selected=true]", "Shift+Tab");
  await press("ArrowRight");
  await page.locator(".drawing").waitFor({ timeout: LONG });
  await press("ArrowLeft");
  await tabTo(page, '[aria-label="Dark theme"]');
  await press("Enter");
  await page.locator('html[data-theme="dark"]').waitFor();
  await press("Enter");
  await page.locator('html[data-theme="light"]').waitFor();
}

/** Goes to the next control until it is the one that is meant. */
async function tabTo(page, selector, key = "Tab", most = 30) {
  for (let i = 0; i < most; i += 1) {
    if (await page.evaluate((it) => document.activeElement?.matches(it), selector)) return;
    await page.keyboard.press(key);
  }
  assert.fail(`${key} does not lead to ${selector}`);
}
