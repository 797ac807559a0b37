// What a person is told when not all is well. The server's own answers are changed on their way, since it does not fail
// when it is asked to.

import assert from "node:assert/strict";

import { settled, soon } from "./see.mjs";

export async function checkStates({ context, server, prepare }) {
  const page = await context.newPage();
  await prepare(page);
  const { pathname } = new URL(server.view);
  const base = pathname.replace(/\/view$/, "");
  const rowsOf = (url) => url.pathname === base;
  const manifests = (change) => page.route((url) => url.pathname === `${base}/manifest`, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: change(await response.json()) });
  });

  await page.goto(server.view.replace(/link=.*/, "link=nothing"));
  assert.match(await page.getByRole("alert").textContent(), /Ask for a new one/);

  await manifests((manifest) => ({ ...manifest, truncated: "row_limit", expires_at: new Date(Date.now() + 90_000).toISOString() }));
  await page.goto(server.view);
  await page.getByText(/The row limit was reached: these are the first [\d,]+ rows, and there were more/).waitFor();
  await page.locator(".expiry.soon", { hasText: "expires in 1 min" }).waitFor();
  await settled(page);

  await page.route(rowsOf, (route) => route.fulfill({ status: 503, json: { error: "storage_failed", message: "gone", code: "STORAGE" } }));
  await page.getByLabel("Go to row").fill("9000");
  await page.keyboard.press("Enter");
  await page.getByText("The server cannot reach its data right now.").first().waitFor();
  await page.unroute(rowsOf);
  await page.getByRole("button", { name: "Try again" }).click();
  await soon(async () => assert((await settled(page)).some((row) => row.cells.id === "9000")));

  let asked = 0;
  await page.unrouteAll();
  await prepare(page);
  await manifests((manifest) => (asked++ < 2 ? { ...manifest, status: "writing", rows: 1000 } : manifest));
  await page.goto(server.view);
  await page.getByText("Rows are still being written: 1,000 so far.").waitFor();
  await page.locator(".notice").waitFor({ state: "detached" });
  await settled(page);

  await page.unrouteAll();
  await prepare(page);
  await manifests((manifest) => ({ ...manifest, status: "failed", failure: "the source broke off" }));
  await page.goto(server.view);
  assert.match(await page.getByRole("alert").textContent(), /failed: the source broke off. Run the tool again/);
  await page.close();
}
