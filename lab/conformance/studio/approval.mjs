// A refund that waits for an approval. Its pictures are those of the README and of the guide.

import assert from "node:assert/strict";
import path from "node:path";

import { checkNames } from "./look.mjs";

/** How wide the pictures are: three columns need more than 1180 pixels. */
const WIDTH = 1200;

export async function checkApproval(page, server, images) {
  await page.getByRole("heading", { name: "Choose a server" }).waitFor();
  await page.getByLabel("Address or command").fill(server);
  await page.getByRole("button", { name: "Connect" }).click();
  await page.locator("#tool-title").waitFor();
  await page.locator("#call").getByLabel("order").fill("1042");
  await page.getByRole("button", { name: "Call", exact: true }).click();

  const card = page.locator(".card.ask");
  await card.getByText("Pay back 22 euros for order 1042?").waitFor();
  const leg = page.locator(".timeline .event.leg.suspended");
  await leg.locator(".head").click();
  await card.getByLabel("approve").check();
  await card.getByLabel("message").fill("Sorry for the delay.");
  await page.evaluate(() => document.activeElement.blur());
  await checkNames(page);
  await fit(page);
  await page.screenshot({ path: path.join(images, "studio-approval.png") });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.screenshot({ path: path.join(images, "studio-approval-dark.png") });
  await page.emulateMedia({ colorScheme: "light" });

  await leg.locator(".head").click();
  await card.getByRole("button", { name: "Send" }).click();
  await page.locator("#result").getByText(/^22 euros were paid back for order 1042, receipt R-\w+\. Message: Sorry for the delay\.$/).waitFor();
  await checkLegs(page);
  await fit(page, "#run > *");
  const { x, y, width } = await page.locator("#run").boundingBox();
  await page.screenshot({ path: path.join(images, "studio-timeline.png"), clip: { x, y, width, height: page.viewportSize().height - y } });
}

/** Two legs on two replicas: the second replays the step of the first, and makes the rest. Its journal is opened. */
async function checkLegs(page) {
  const line = page.locator(".timeline");
  const made = (leg) => leg.locator(".made").allTextContents();
  const first = line.locator(".event.leg").first();
  const second = line.locator(".event.leg").last();
  assert.deepEqual(await made(first), ["step price"]);
  assert.deepEqual(await made(second), ["elicit approval", "step pay"]);
  assert.equal(await second.locator(".ticks i").count(), 1);
  assert.match(await first.textContent(), /suspended for approval/);
  assert.match(await second.textContent(), /returned/);
  const replica = async (leg) => /replica-[ab]/.exec(await leg.textContent())?.[0];
  assert.notEqual(await replica(first), await replica(second), "both legs ran on one replica");
  assert.equal(await line.locator(".event.ask.answered").count(), 1);
  await second.locator(".head").click();
  await second.locator(".more .entries").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await checkNames(page);
}

/** Makes the window as high as these parts of it, so that a picture cuts nothing. */
async function fit(page, parts = "#side > *, .work > *, #run > *") {
  // High first, because the columns scroll by themselves.
  await page.setViewportSize({ width: WIDTH, height: 2000 });
  await page.mouse.move(0, 0);
  const bottom = await page.evaluate((parts) => {
    const shown = [...document.querySelectorAll(parts)].filter((it) => it.getClientRects().length);
    return Math.max(...shown.map((it) => it.getBoundingClientRect().bottom));
  }, parts);
  await page.setViewportSize({ width: WIDTH, height: Math.ceil(bottom) + 24 });
}
