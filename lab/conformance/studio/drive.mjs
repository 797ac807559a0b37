// Plays a game of tic-tac-toe and approves a refund on the studio page, as a person would, and looks at everything on
// the way.
//
//   node drive.mjs STUDIO_URL GAME_URL REFUND_URL IMAGES_FOLDER
//
// STUDIO_URL has the token. With `-` for GAME_URL there is no game, so no model is needed. CHROMIUM names the browser.
// ANTIPHON names the CLI: with it, messages, standard error, prompts, resources and replies by hand are checked, too.
// STUDIO_ASSETS serves the page's files from a folder instead, to try changes without a build.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";

import { chromium } from "playwright-core";

import { checkApproval } from "./approval.mjs";
import { checkForms } from "./forms.mjs";
import { checkInspect } from "./inspect.mjs";
import { checkNames, watch } from "./look.mjs";

const [studio, server, refund, images] = process.argv.slice(2);
assert(studio && server && refund && images, "usage: node drive.mjs STUDIO_URL GAME_URL REFUND_URL IMAGES_FOLDER");
const MINUTE = 60_000;
const GAME = 8 * MINUTE;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Chromium does not sandbox for root, which is who CI and containers are.
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
});
const page = await browser.newPage({ viewport: { width: 1200, height: 720 }, deviceScaleFactor: 2, colorScheme: "light" });
const complaints = await watch(page);
if (process.env.STUDIO_ASSETS) {
  await page.route(/\/([a-z]+\.(js|css|svg))?(\?.*)?$/, async (route) => {
    const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
    const response = await route.fetch();
    await route.fulfill({ response, body: await readFile(path.join(process.env.STUDIO_ASSETS, name)) });
  });
}

try {
  await arrive();
  await checkForms(page);
  const game = server === "-" ? "no game was played" : `a game of ${await checkGame()} moves of ours was played to its end`;
  if (process.env.ANTIPHON) await checkInspect(page, `'${process.env.ANTIPHON}' serve hello`);
  await checkApproval(page, refund, images);
  assert.deepEqual(complaints, [], "the browser complained");
  console.log(`${game}, and a refund was approved; nothing to complain about`);
} catch (error) {
  await page.screenshot({ path: path.join(images, "studio-failed.png") }).catch(() => {});
  if (complaints.length) console.error("the browser complained:", complaints);
  throw error;
} finally {
  await browser.close();
}

/** Plays to the end, and leaves the server. */
async function checkGame() {
  await connectByKeyboard();
  await callByKeyboard();
  await checkLost();
  const moves = await play();
  await checkEnd(moves);
  await checkTimeline();
  await checkReload();
  await page.getByRole("button", { name: "Disconnect" }).click();
  return moves;
}

async function arrive() {
  const response = await page.goto(studio);
  assert.match(response.headers()["content-security-policy"], /default-src 'none'/);
  await page.getByRole("heading", { name: "Choose a server" }).waitFor();
  assert(!page.url().includes("token"), `the token is still in the address: ${page.url()}`);
}

/** Goes to the next control until it is the one that is meant. */
async function tabTo(selector, most = 40) {
  for (let i = 0; i < most; i += 1) {
    if (await page.evaluate((it) => document.activeElement?.matches(it), selector)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`Tab does not lead to ${selector}`);
}

async function connectByKeyboard() {
  await tabTo("#server");
  await page.keyboard.type(server);
  await page.keyboard.press("Enter");
  await page.locator("#tool-title").waitFor();
  await checkNames(page);
}

async function callByKeyboard() {
  await tabTo("#call input");
  await page.keyboard.type("three");
  await page.keyboard.press("Enter");
  const wrong = page.locator("#call .error:visible");
  assert.equal(await wrong.textContent(), "Enter a number.");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-invalid")), "true");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("3");
  assert(await wrong.isHidden(), "what is right is still called wrong");
  await page.keyboard.press("Enter");
}

/** Clicks on the first free cell until the game is over; one move is made with the keyboard. */
async function play() {
  const turn = page.locator(".card.ask .board:not(.still)");
  const sample = page.locator(".card.ask.sample");
  const over = page.locator("#result .card");
  const until = Date.now() + GAME;
  let moves = 0;
  let approved = false;
  for (;;) {
    assert(Date.now() < until, "the game does not end");
    await turn.or(sample).or(over).first().waitFor({ timeout: GAME });
    if (await over.count()) return moves;
    if (await sample.count()) {
      assert(!approved, "a sample is shown although all were approved");
      approved = true;
      await checkSample(sample);
      continue;
    }
    const free = turn.locator(".cell[aria-disabled=false]");
    if (moves === 1) await checkNarrow();
    const focused = () => page.evaluate(() => document.activeElement?.dataset.cell ?? null);
    const first = await free.first().getAttribute("data-cell");
    if (moves === 1) {
      assert.equal(await focused(), first, "the board has the focus");
      await page.keyboard.press("ArrowRight");
      assert.notEqual(await focused(), first);
      await page.keyboard.press("ArrowLeft");
      await page.keyboard.press("Enter");
    } else await free.first().click();
    moves += 1;
    const picked = page.locator(`.board.still [data-cell="${first}"] svg`);
    await picked.or(over).first().waitFor();
  }
}

async function checkSample(sample) {
  const words = await sample.textContent();
  for (const part of ["play_offensive", "You play tic-tac-toe", "tokens"]) assert(words.includes(part), `the sample does not say ${part}: ${words}`);
  assert(await page.evaluate(() => document.activeElement?.matches(".ask.sample")), "the focus is on the question");
  await sample.getByRole("button", { name: "Approve all of this call" }).click();
  await sample.waitFor({ state: "detached" });
}

/** On a telephone. */
async function checkNarrow() {
  await checkNames(page);
  await page.setViewportSize({ width: 380, height: 780 });
  assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page is wider than a phone");
  await page.setViewportSize({ width: 1200, height: 720 });
}

async function checkEnd(moves) {
  const ended = page.locator("#result .game.ended");
  assert.equal(await ended.count(), 1, `the result shows no board: ${await page.locator("#result").textContent()}`);
  const outcome = await ended.locator(".outcome").textContent();
  const won = await ended.locator(".cell.won").count();
  assert(["You win", "The model wins", "A draw"].includes(outcome), outcome);
  assert.equal(won, outcome === "A draw" ? 0 : 3, `${outcome} with ${won} cells in a line`);
  assert(moves >= 3 && moves <= 5, `${moves} moves`);
  await page.locator("#asks > *").first().waitFor({ state: "detached" });
}

async function checkTimeline() {
  const line = page.locator(".timeline");
  const count = (selector) => line.locator(selector).count();
  assert.equal(await count(".event.call"), 1);
  assert.equal(await count(".event.end"), 1);
  assert((await count(".event.ask.answered")) >= 3, "our moves are on the timeline");
  assert((await count(".event.sample.answered")) >= 4, "the model's replies are on the timeline");
  assert((await count(".event.leg")) >= 3, "the rounds are on the timeline, with what the server did");
  assert((await count(".ticks i")) > 0, "what was replayed is on the timeline");
  assert.match(await page.locator("#run-sum").textContent(), /round.*replay/);
  // The round in which the call became a task had no answer yet.
  if (await count(".event.task")) assert.equal(await line.locator(".event.round", { hasText: "the result" }).count(), 0);
  // Each entry of the journal is shown as new once, by the leg or the task that made it.
  const last = line.locator(".event.leg, .event.task").last();
  await last.locator(".head").click();
  assert.equal(await count(".made"), await last.locator(".entries tr.new, .entries tr.again").count());
  await last.locator(".head").click();
  // Each has details, and is reached with the keyboard.
  const leg = line.locator(".event.leg.suspended .head").nth(2);
  await leg.focus();
  await page.keyboard.press("Enter");
  assert.equal(await leg.getAttribute("aria-expanded"), "true");
  const journal = await line.locator(".more .entries").first().textContent();
  assert(journal.includes("replayed") && journal.includes("new"), journal);
  await page.keyboard.press("ArrowDown");
  assert.equal(await leg.evaluate((it) => document.activeElement !== it), true);
  await checkNames(page);
}

/** A page whose events were too many to keep still shows what is asked, and that a call is under way. */
async function checkLost() {
  const cards = page.locator(".card.ask");
  await cards.first().waitFor({ timeout: GAME });
  const events = /\/events$/;
  const gap = JSON.stringify({ type: "gap", lost: 5000, at: Date.now() });
  await page.route(events, (route) => route.fulfill({ contentType: "text/event-stream", body: `id: 5000\ndata: ${gap}\n\n` }));
  await page.reload();
  await page.getByText("The studio dropped 5000 events").waitFor();
  assert.equal(await cards.count(), 1);
  assert(await page.locator("#call [type=submit]").isDisabled(), "the call seems to have ended");
  await page.unroute(events);
  await page.reload();
  await page.locator(".timeline .event.call").waitFor();
  assert.equal(await cards.count(), 1);
}

/** A page that is loaded again is where it was, and the token is still not in its address. */
async function checkReload() {
  const rows = await page.locator(".timeline .event").count();
  await page.reload();
  await page.locator("#result .game.ended").waitFor();
  assert.equal(await page.locator(".timeline .event").count(), rows);
  assert(!page.url().includes("token"));
}
