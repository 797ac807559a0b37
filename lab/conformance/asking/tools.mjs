// The tools of `asking-server`, the answers of the scripted user, and the expected results.

import assert from "node:assert/strict";

import { soon, submit, title } from "./see.mjs";

const textOf = ({ content }) => content.map((part) => part.text ?? "").join("\n");

/** The problem that is shown for a field. */
const problem = (frame, label) => frame.locator(".field", { has: frame.getByLabel(label) }).locator(".problem");

/** Answers two questions in a row. The first answers do not fit: the page finds one problem, the server the other. */
async function answerOnboard(frame) {
  await frame.getByRole("heading", { name: "Which desk does Grace get?" }).waitFor();
  const desk = frame.getByLabel("Which desk?");
  await submit(frame);
  await soon(async () => assert.equal(await problem(frame, "Which desk?").textContent(), "An answer is required."));
  await desk.fill("12");
  await submit(frame);
  await soon(async () => assert.match(await problem(frame, "Which desk?").textContent(), /^Not accepted: /));
  assert.equal(await desk.getAttribute("aria-invalid"), "true");
  assert.equal(await desk.inputValue(), "12", "the form lost the input");
  await desk.fill("B-12");
  await submit(frame);
  await frame.getByRole("heading", { name: "When does Grace start?" }).waitFor();
  await frame.getByLabel("First day").fill("2026-12-01");
  await frame.getByLabel("Private address").fill("grace@example.org");
  await submit(frame);
  await title(frame, "Done");
}

async function answerPick(frame) {
  await frame.getByRole("heading", { name: "Which shirts do you order?" }).waitFor();
  await frame.getByRole("radio", { name: "Medium, 48 to 50" }).check();
  await frame.getByLabel("City").selectOption("Lisbon");
  await frame.getByLabel("Count").fill("12");
  await frame.getByRole("checkbox", { name: "It is a gift" }).check();
  await submit(frame);
  await soon(async () => assert.equal(await problem(frame, "Count").textContent(), "Allowed: at least 1, at most 9."));
  await frame.getByLabel("Count").fill("3");
  for (const color of ["blue", "red"]) await frame.getByRole("checkbox", { name: color }).check();
  await submit(frame);
  await title(frame, "Done");
}

/**
 * `answer` fills in the forms. `entered` must not be in what the form tells the model. `calls` is the least number of
 * calls of the model.
 */
export const TOOLS = {
  onboard: {
    input: { name: "Grace" },
    answer: answerOnboard,
    entered: ["B-12", "2026-12-01", "grace@example.org"],
    calls: 3,
    check: (result) => assert.equal(textOf(result), "Grace has desk B-12 (no note), starts on 2026-12-01, grace@example.org"),
  },
  pick: {
    input: {},
    answer: answerPick,
    entered: ["medium", "Lisbon", "blue"],
    calls: 3,
    check: (result) => assert.deepEqual(result.structuredContent, { size: "medium", city: "Lisbon", count: 3, gift: true, colors: ["blue", "red"] }),
  },
  report: { input: {}, calls: 2, check: (result) => assert.equal(textOf(result), "42 orders, 3 of them late") },
  quiet: { input: {}, calls: 1, check: (result) => assert.equal(textOf(result), "All is well") },
};
