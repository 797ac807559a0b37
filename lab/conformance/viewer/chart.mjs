// The charts: a default that makes sense, and each kind.

import assert from "node:assert/strict";

import { LONG, checkAxe, soon } from "./see.mjs";

export async function checkChart({ page, shoot }) {
  await page.getByRole("tab", { name: "Chart" }).click();
  const drawn = async (kind) => page.locator(`.charts[data-drawn="${kind}"]:not(.busy) .drawing`).waitFor({ timeout: LONG });
  const pick = (key, value) => page.locator(`[data-pick="${key}"]`).selectOption(value);
  // There is a time and a number: so there is a line, of as many points as can be told apart.
  await drawn("line");
  await soon(async () => assert.equal(await page.locator('[data-pick="x"]').inputValue(), "sold_at"));
  await page.getByText("Show as table").click();
  await page.locator(".twin tbody tr").first().waitFor();
  await soon(async () => {
    const points = await page.locator(".twin tbody tr").count();
    assert(points >= 20 && points <= 200, `${points} points`);
  });
  await page.getByText("Show as table").click();
  // What each channel sells in a month: ever more is sold on the web.
  await pick("measure", "sum");
  await pick("bucket", "month");
  await pick("group", "channel");
  await page.locator(".legend li").nth(3).waitFor({ timeout: LONG });
  await page.locator(".charts:not(.busy)").waitFor({ timeout: LONG });
  const { x, y, width, height } = await page.locator(".canvas").boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await soon(async () => assert.match(await page.locator(".tip").textContent(), /\d{4}-\d\d-\d\d.*web: [\d.,]+/s));
  await page.setViewportSize({ width: 1000, height: 600 });
  await page.locator(".tip").waitFor({ state: "hidden" });
  await shoot("chart");
  await page.setViewportSize({ width: 1200, height: 720 });
  await checkAxe(page, "the chart");

  await pick("type", "bar");
  await drawn("bar");
  const bars = await page.locator(".drawing rect.fill").count();
  assert(bars > 1, `${bars} bars`);
  await pick("x", "channel");
  await page.locator('.drawing text:text-is("partner")').waitFor({ timeout: LONG });

  await pick("type", "scatter");
  await drawn("scatter");
  const dots = await page.locator(".drawing circle").count();
  assert(dots > 500 && dots <= 2000, `${dots} dots`);
  await page.locator(".charts > .note", { hasText: /evenly spread over/ }).waitFor();

  await pick("type", "histogram");
  await drawn("histogram");
  await pick("x", "rating");
  await page.locator('.drawing text:text-is("rating")').waitFor();
  await soon(async () => assert((await page.locator(".drawing rect.fill").count()) > 4));
  await page.getByRole("tab", { name: "Table" }).click();
}
