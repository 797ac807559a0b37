// The look of the form: themes, narrow hosts, size, and use without a mouse.

import assert from "node:assert/strict";

import { asks, one, reply, scripted, ID } from "./forms.mjs";
import { soon, title } from "./see.mjs";

/** A form with a field of each kind, for the pictures. */
const PROPERTIES = {
  approve: { type: "boolean", title: "They may start", description: "Their account is ready." },
  desk: { type: "string", title: "Which desk?", description: "A letter, a hyphen and a number, such as B-12", minLength: 3, maxLength: 5 },
  floor: { type: "integer", title: "Floor", minimum: 0, maximum: 8, default: 2 },
  contract: { type: "string", title: "Contract", oneOf: [{ const: "full", title: "Full time" }, { const: "part", title: "Part time" }], default: "full" },
  days: { type: "array", title: "Days in the office", items: { enum: ["Monday", "Tuesday", "Wednesday"] }, minItems: 1, default: ["Monday"] },
  start: { type: "string", title: "First day", format: "date", default: "2026-12-01" },
};
const LETTER = "Dear colleagues, I would like to start in December. ".repeat(8);
const question = (more) => asks(one(PROPERTIES, ["desk", "contract"], { message: "May Grace start in December?", context: { manager: "Ada", notice: "4 weeks" } }), { arguments: { name: "Grace", letter: LETTER }, ...more });

async function open(env, look, shown) {
  const form = await scripted(env, [question(), reply({ status: "completed", id: ID })], { look, ...shown });
  await form.frame.getByRole("button", { name: "Submit", disabled: false }).waitFor();
  return form;
}

const themeOf = (frame) => frame.locator("html").getAttribute("data-theme");

/** Makes the window as tall as the form, and waits until the form is painted at this size. */
async function fit(form, width) {
  const height = await form.inside().evaluate(() => Math.ceil(document.body.getBoundingClientRect().height));
  await form.page.setViewportSize({ width, height });
  await soon(async () => assert.equal(await form.inside().evaluate(() => innerHeight), height));
  await form.inside().evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

async function followsTheThemeOfTheHost(env) {
  const form = await open(env, { colorScheme: "dark" }, { theme: "light" });
  assert.equal(await themeOf(form.frame), "light");
  await fit(form, 640);
  await env.keep("light", form.page);
  await env.axe(form.page, "the light form");
  await form.page.evaluate(() => window.turn("dark"));
  await soon(async () => assert.equal(await themeOf(form.frame), "dark"));
  await env.keep("dark", form.page);
  await env.axe(form.page, "the dark form");
}

async function followsTheThemeOfTheSystem(env) {
  const form = await open(env, { colorScheme: "dark" });
  assert.equal(await themeOf(form.frame), "dark");
  await form.page.emulateMedia({ colorScheme: "light" });
  await soon(async () => assert.equal(await themeOf(form.frame), "light"));
}

async function fitsANarrowHost(env) {
  const long = "Donaudampfschifffahrtsgesellschaft".repeat(4);
  const properties = { [long]: { type: "string", description: long, enum: [long, "b"] }, ...PROPERTIES };
  const replies = [question({ tool: long, arguments: { [long]: long }, questions: one(properties, [], { message: long, context: long }) })];
  for (const shown of [replies, [question()]]) {
    const form = await scripted(env, shown, { look: { viewport: { width: 320, height: 640 } } });
    await form.frame.getByRole("button", { name: "Submit" }).waitFor();
    const [inner, outer] = await form.inside().evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(inner <= outer, `the form is ${inner} px wide in a frame of ${outer} px`);
    if (shown !== replies) {
      await fit(form, 320);
      await env.keep("narrow", form.page);
    }
    await form.page.context().close();
  }
}

async function reportsItsSize(env) {
  const form = await open(env);
  const height = await form.inside().evaluate(() => Math.ceil(document.body.getBoundingClientRect().height));
  await soon(async () => assert.equal((await form.asked()).sizes.at(-1).height, height));
  // Some hosts read the height of the document.
  assert.equal(await form.inside().evaluate(() => document.documentElement.style.minHeight), `${height}px`);
  await form.frame.getByRole("button", { name: "Show all of letter" }).click();
  await soon(async () => assert((await form.asked()).sizes.at(-1).height > height));
}

async function worksWithTheKeyboard(env) {
  const form = await open(env);
  const { keyboard } = form.page;
  const active = () => form.inside().evaluate(() => {
    const it = document.activeElement;
    const { outlineStyle } = getComputedStyle(it);
    return { name: it.getAttribute("aria-label") ?? it.labels?.[0]?.querySelector(".name, span").textContent ?? it.textContent, type: it.type, outlineStyle };
  });
  const reached = [];
  await form.frame.getByRole("button", { name: "Show all of letter" }).focus();
  for (let i = 0; i < 30; i++) {
    await keyboard.press("Tab");
    const it = await active();
    reached.push(it.name);
    // The parts of a date show the focus themselves.
    if (it.type !== "date") assert.notEqual(it.outlineStyle, "none", `the focus on ${it.name} is not visible`);
    if (it.name === "They may start") await keyboard.press("Space");
    if (it.name === "Which desk?") await keyboard.type("B-12");
    if (it.name === "Full time") await keyboard.press("ArrowDown");
    if (it.name === "Tuesday") await keyboard.press("Space");
    if (it.name === "Submit") break;
  }
  assert.equal(reached.at(-1), "Submit", `the keyboard reached ${reached.join(", ")}`);
  await keyboard.press("Enter");
  await title(form.frame, "Done");
  assert.deepEqual(form.calls[1].arguments.responses.approval.content, { approve: true, desk: "B-12", floor: 2, contract: "part", days: ["Monday", "Tuesday"], start: "2026-12-01" });
}

async function hasNoMotion(env) {
  const form = await open(env, { reducedMotion: "reduce" });
  assert.equal(await form.inside().evaluate(() => document.getAnimations().length), 0);
  const moving = await form.inside().evaluate(() => [...document.querySelectorAll("*")].some((it) => getComputedStyle(it).transitionDuration !== "0s" || getComputedStyle(it).animationName !== "none"));
  assert.equal(moving, false);
}

export const LOOKS = { followsTheThemeOfTheHost, followsTheThemeOfTheSystem, fitsANarrowHost, reportsItsSize, worksWithTheKeyboard, hasNoMotion };
