// The answer page: a user opens the link that a model has shown, in a host without forms and apps.

import assert from "node:assert/strict";

import { connect } from "./matrix.mjs";
import { soon } from "./see.mjs";
import { watch } from "../studio/look.mjs";

/** A host without forms, apps and tasks. Its model shows the link to the user. */
const HOST = { client: {}, elicit: null, server: "page" };

const QUESTION = "Which desk does Grace get?";
const textOf = ({ content }) => content.map((part) => part.text ?? "").join("\n");

let users = 0;

/** Calls `onboard`, and returns the link in the text for the model. `user` is `null` for a caller without a name. */
async function ask(env, user = `page-${++users}@example.com`) {
  const model = await connect(env, user, { ...HOST, anonymous: user === null });
  const text = textOf(await model.call({ name: "onboard", input: { name: "Grace" } }));
  const [, link] = /^Show the user this link: (\S+) /m.exec(text) ?? assert.fail(`the text has no link: ${text}`);
  const [id] = /t_[0-9a-f]{32}/.exec(text);
  const result = async (wait) => textOf(await model.call({ name: "task_result", input: { id, wait } }));
  return { user, link, result, close: () => model.client.close() };
}

/** Opens a browser of a user. The header is the session of the application. */
async function browse(env, user, look) {
  const headers = user ? { extraHTTPHeaders: { "x-user": user } } : {};
  return env.browser.newContext({ viewport: { width: 640, height: 760 }, deviceScaleFactor: 2, colorScheme: "light", locale: "en-US", timezoneId: "UTC", ...headers, ...look });
}

/** Opens an address in a new page. `expected` are the error statuses that belong to the check. */
async function visit(env, context, address, expected = []) {
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = await watch(page);
  complaints.push = (text) => (expected.some((status) => text.includes(`${status}`)) ? 0 : Array.prototype.push.call(complaints, text));
  env.opened.push(complaints);
  await page.goto(address);
  return page;
}

const heading = (page, name, level = 1) => page.getByRole("heading", { level, name }).waitFor();
const open = (page) => page.getByRole("button", { name: "Open the question" }).click();
const submit = (page) => page.getByRole("button", { name: "Submit" }).click();

async function answerDesk(page, desk = "B-12") {
  await heading(page, QUESTION, 2);
  await page.getByLabel("Which desk?").fill(desk);
  await submit(page);
}

async function answerStart(page) {
  await heading(page, "When does Grace start?", 2);
  await page.getByLabel("First day").fill("2026-12-01");
  await page.getByLabel("Private address").fill("grace@example.org");
  await submit(page);
  await heading(page, "Done");
}

const RESULT = "Grace has desk B-12 (no note), starts on 2026-12-01, grace@example.org";

async function showsProblemsAndContinues(env) {
  const { user, link, result, close } = await ask(env);
  const page = await visit(env, await browse(env, user), link, [422]);
  await heading(page, "Shirts and Desks has a question");
  await env.keep("page-landing", page);
  await env.axe(page, "the page behind the link");
  await open(page);
  await heading(page, "Question from Shirts and Desks");
  for (const shown of ["Take on a colleague", user, "Grace"]) await page.getByText(shown).first().waitFor();
  await answerDesk(page, "12");
  await soon(async () => assert.equal(await page.getByRole("alert").textContent({ timeout: 1000 }), "Answers to correct: 1"));
  const desk = page.getByLabel("Which desk?");
  assert.equal(await desk.getAttribute("aria-invalid"), "true");
  assert.equal(await desk.inputValue(), "12", "the page lost the input");
  await env.keep("page-problem", page);
  await env.axe(page, "the page with a problem");
  await answerDesk(page);
  await answerStart(page);
  await page.getByText("Go back to the chat and say that you have answered.").waitFor();
  await env.keep("page-done", page);
  assert.equal(await result(10), RESULT);
  await close();
}

async function followsTheThemeAndFitsANarrowScreen(env) {
  const { user, link, close } = await ask(env);
  const page = await visit(env, await browse(env, user), link);
  await open(page);
  await heading(page, QUESTION, 2);
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await env.keep("page-light", page);
  await page.emulateMedia({ colorScheme: "dark" });
  await soon(async () => assert.notEqual(await paper(), light));
  await env.keep("page-dark", page);
  await env.axe(page, "the dark page");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 320, height: 640 });
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert(inner <= outer, `the page is ${inner} px wide on a screen of ${outer} px`);
  await env.keep("page-narrow", page);
  await close();
}

/** The element that has the focus. */
const active = (page) => page.evaluate(() => {
  const it = document.activeElement;
  const name = it.labels?.[0]?.querySelector(".name")?.textContent ?? it.textContent;
  return { name, type: it.type, value: it.value, outlineStyle: getComputedStyle(it).outlineStyle };
});

/** Moves the focus with the tab key until it is on `last`, and types into the fields on the way. */
async function tabTo(page, last, typed = {}) {
  const reached = [];
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    const it = await active(page);
    reached.push(it.name);
    // The parts of a date show the focus themselves.
    if (it.type !== "date") assert.notEqual(it.outlineStyle, "none", `the focus on ${it.name} is not visible`);
    if (it.name === last) return;
    if (Object.hasOwn(typed, it.name) && it.value === "") await page.keyboard.type(typed[it.name]);
  }
  assert.fail(`the keyboard reached ${reached.join(", ")}, and not ${last}`);
}

async function worksWithTheKeyboard(env) {
  const { user, link, result, close } = await ask(env);
  const page = await visit(env, await browse(env, user), link);
  await tabTo(page, "Open the question");
  await page.keyboard.press("Enter");
  await heading(page, QUESTION, 2);
  await tabTo(page, "Submit", { "Which desk?": "B-12" });
  await page.keyboard.press("Enter");
  await heading(page, "When does Grace start?", 2);
  await tabTo(page, "Submit", { "First day": "12012026", "Private address": "grace@example.org" });
  await page.keyboard.press("Enter");
  await heading(page, "Done");
  assert.equal(await result(10), RESULT);
  await close();
}

async function saysThatTheQuestionWasAnswered(env) {
  const { user, link, result, close } = await ask(env);
  const context = await browse(env, user);
  const [first, second] = [await visit(env, context, link), await visit(env, context, link, [409])];
  for (const page of [first, second]) {
    await open(page);
    await heading(page, QUESTION, 2);
  }
  await answerDesk(first);
  await heading(first, "When does Grace start?", 2);
  await answerDesk(second, "C-3");
  await heading(second, "The question was already answered");
  await env.keep("page-used", second);
  await answerStart(first);
  for (const again of [context, await browse(env, user)]) {
    const page = await visit(env, again, link);
    await open(page);
    await heading(page, "Done");
    assert.equal(await page.getByRole("button", { name: "Submit" }).count(), 0);
  }
  assert.equal(await result(10), RESULT);
  await close();
}

async function fetchingALinkAnswersNothing(env) {
  const { user, link, result, close } = await ask(env);
  const context = await browse(env, user);
  for (const address of [link, `${link}/next`]) {
    for (const headers of [{}, { "sec-purpose": "prefetch" }, { "sec-purpose": "prefetch;prerender" }]) {
      const response = await context.request.get(address, { headers });
      assert.equal(response.status(), 200);
      assert.equal(response.headers()["set-cookie"], undefined, "a fetched link has set a cookie");
      const body = await response.text();
      assert(body.includes("Open the question") && !body.includes("Which desk"), body);
    }
  }
  const posted = await context.request.post(link, { form: { action: "accept", "0.desk": "B-12" } });
  assert.equal(posted.status(), 403, "an answer without the form was not rejected");
  assert.match(await result(0), /^NOT FINISHED: /);
  await close();
}

async function refusesFrames(env) {
  const { user, link, close } = await ask(env);
  const page = await (await browse(env, user)).newPage();
  await page.goto(env.host.url);
  for (const address of [link, `${link}/next`]) {
    const frame = await page.evaluateHandle((src) => {
      const it = document.createElement("iframe");
      it.src = src;
      document.body.append(it);
      return new Promise((done) => (it.onload = () => done(it)));
    }, address);
    const inside = await frame.asElement().contentFrame();
    await soon(async () => assert.match(inside.url(), /^chrome-error:/, "a frame shows the page"));
  }
  await close();
}

async function showsTheQuestionToItsUserOnly(env) {
  const { link, result, close } = await ask(env);
  for (const other of ["eve@example.com", null]) {
    const page = await visit(env, await browse(env, other), link, [404]);
    await open(page);
    await heading(page, "No open question");
    assert.equal(await page.getByRole("button").count(), 0);
  }
  assert.match(await result(0), /^NOT FINISHED: /);
  await close();
}

async function takesTheAnswerForAnUnknownCaller(env) {
  const { link, result, close } = await ask(env, null);
  const page = await visit(env, await browse(env, null), link);
  await open(page);
  await answerDesk(page);
  await answerStart(page);
  assert.equal(await result(10), RESULT);
  await close();
}

async function declines(env) {
  const { user, link, result, close } = await ask(env);
  const page = await visit(env, await browse(env, user), link);
  await open(page);
  await page.getByRole("button", { name: "Decline" }).click();
  await heading(page, /^(Done|Ended with an error)$/);
  assert.match(await result(10), /declined/);
  await close();
}

export const PAGES = {
  showsProblemsAndContinues, followsTheThemeAndFitsANarrowScreen, worksWithTheKeyboard, saysThatTheQuestionWasAnswered, fetchingALinkAnswersNothing,
  refusesFrames, showsTheQuestionToItsUserOnly, takesTheAnswerForAnUnknownCaller, declines,
};
