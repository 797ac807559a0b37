// The form by itself, with scripted replies instead of a server: fields, problems, states and errors.

import assert from "node:assert/strict";

import { openForm, soon, submit, title } from "./see.mjs";

export const ID = `t_${"ab".repeat(16)}`;
const ALL = { serverTools: {}, message: { text: {} }, updateModelContext: { text: {} } };

export const reply = (structuredContent, isError = false) => ({ content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent, isError });
const failure = (code) => reply({ error: { code, message: `scripted ${code}` } }, true);
const ends = (status) => reply({ status, id: ID, server: "Onboarding", tool: "Takes on a colleague" });

export const asks = (questions, more) => reply({
  status: "input_required",
  id: ID,
  ticket: "ticket-1",
  expires_at: "2026-11-17T05:20:00Z",
  server: "Onboarding",
  tool: "Takes on a colleague",
  arguments: { name: "Grace" },
  for: "ada@example.com",
  questions,
  ...more,
});
export const one = (properties, required = [], more = {}) => ({ approval: { message: "May they start?", schema: { type: "object", properties, required }, context: null, ...more } });
const DESK = { desk: { type: "string", title: "Which desk?" } };

/** A result that names the task in one place. */
export const result = { content: [{ type: "text", text: `The form is shown (task ${ID}).` }], isError: false };

/** Opens the form with a list of replies. The last one is for all further calls. */
export async function scripted(env, replies, shown = {}) {
  const calls = [];
  const left = [...replies];
  const callTool = async (params) => {
    calls.push(params);
    return left.length > 1 ? left.shift() : left[0];
  };
  const form = await openForm(env, { callTool, capabilities: ALL, input: { id: ID }, result, ...shown });
  return { ...form, calls };
}

const FIELDS = {
  plain: { type: "string", title: "Plain", minLength: 2, maxLength: 5 },
  lines: { type: "string", title: "Lines", maxLength: 400 },
  mail: { type: "string", title: "Mail", format: "email" },
  page: { type: "string", title: "Web page", format: "uri" },
  day: { type: "string", title: "Day", format: "date" },
  moment: { type: "string", title: "Moment", format: "date-time" },
  whole: { type: "integer", title: "Whole", minimum: -3, maximum: 8 },
  real: { type: "number", title: "Real" },
  sure: { type: "boolean", title: "Sure" },
  few: { type: "string", title: "Few", enum: ["s", "m"], enumNames: ["Small", "Medium"] },
  many: { type: "string", title: "Many", oneOf: ["a", "b", "c", "d", "e", "f"].map((it) => ({ const: it, title: `Choice ${it}` })) },
  list: { type: "array", title: "List", items: { anyOf: [{ const: "x", title: "Ex" }, { const: "y", title: "Why" }, { const: "z", title: "Zed" }] }, minItems: 1, maxItems: 2 },
  odd: { type: "object", title: "Odd" },
  left: { type: "string", title: "Left out" },
};

async function readsFields(env) {
  const { frame, calls } = await scripted(env, [asks(one(FIELDS)), ends("completed")]);
  await frame.getByLabel("Plain").fill("ab cd");
  await frame.getByLabel("Lines").fill("one\ntwo");
  await frame.getByLabel("Mail").fill("ada@example.com");
  await frame.getByLabel("Web page").fill("https://example.com/");
  await frame.getByLabel("Day").fill("2026-12-01");
  await frame.getByLabel("Moment").fill("2026-12-01T10:30");
  await frame.getByLabel("Whole").fill("-3");
  await frame.getByLabel("Real").fill("2.5");
  await frame.getByLabel("Sure").check();
  await frame.getByRole("radio", { name: "Medium" }).check();
  await frame.getByLabel("Many").selectOption("Choice f");
  for (const name of ["Ex", "Zed"]) await frame.getByRole("checkbox", { name }).check();
  await frame.getByLabel("Odd").fill('{"a": [1]}');
  assert.deepEqual(await frame.locator(".name").allTextContents(), Object.values(FIELDS).map((it) => it.title), "the order of the fields");
  await submit(frame);
  await title(frame, "Done");
  const { name, arguments: input } = calls[1];
  assert.equal(name, "ask_answer");
  assert.deepEqual([input.id, input.ticket], [ID, "ticket-1"]);
  assert.deepEqual(input.responses, {
    approval: {
      action: "accept",
      content: {
        plain: "ab cd", lines: "one\ntwo", mail: "ada@example.com", page: "https://example.com/", day: "2026-12-01", moment: "2026-12-01T10:30:00.000Z",
        whole: -3, real: 2.5, sure: true, few: "m", many: "f", list: ["x", "z"], odd: { a: [1] },
      },
    },
  });
}

async function submitsDefaults(env) {
  const defaults = { plain: "abc", moment: "2026-12-01T10:30:00Z", whole: 4, sure: true, few: "s", many: "c", list: ["y"] };
  const properties = Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, { ...FIELDS[name], default: value }]));
  const { frame, calls } = await scripted(env, [asks(one(properties)), ends("completed")]);
  await submit(frame);
  await title(frame, "Done");
  const { content } = calls[1].arguments.responses.approval;
  assert.deepEqual({ ...content, moment: new Date(content.moment).getTime() }, { ...defaults, moment: Date.parse(defaults.moment) });
}

async function showsProblems(env) {
  const { frame, page, calls, inside } = await scripted(env, [asks(one(FIELDS, Object.keys(FIELDS)))]);
  await submit(frame);
  const shown = () => frame.locator(".problem:visible").allTextContents();
  // A checkbox always has a value.
  await soon(async () => assert.equal((await shown()).length, Object.keys(FIELDS).length - 1));
  assert.equal(await inside().evaluate(() => document.activeElement.labels[0].textContent), "Plain required", "the focus is not on the first problem");
  assert.equal(await frame.getByRole("status").textContent(), `Answers to correct: ${Object.keys(FIELDS).length - 1}`);
  for (const [label, value, expected] of [
    ["Plain", "a", "Allowed: at least 2, at most 5 characters."],
    ["Plain", "abcdef", "Allowed: at least 2, at most 5 characters."],
    ["Mail", "ada", "Enter an email address."],
    ["Web page", "example", "Enter a URL."],
    ["Whole", "1.5", "Enter a whole number."],
    ["Whole", "9", "Allowed: at least -3, at most 8."],
    ["Whole", "9007199254740993", "Enter a whole number."],
    ["Real", "many", "Enter a number."],
    ["Odd", "{", "Enter valid JSON."],
  ]) {
    const input = frame.getByLabel(label);
    await input.fill(value);
    assert.equal(await input.getAttribute("aria-invalid"), null, "a changed answer has no problem yet");
    await submit(frame);
    const problem = frame.locator(`[id="${(await input.getAttribute("aria-describedby")).split(" ").at(-1)}"]`);
    await soon(async () => assert.equal(await problem.textContent(), expected, `${label}: ${value}`));
    assert.equal(await input.getAttribute("aria-invalid"), "true");
  }
  for (const name of ["Ex", "Why", "Zed"]) await frame.getByRole("checkbox", { name }).check();
  await submit(frame);
  await soon(async () => assert((await shown()).includes("Allowed: at least 1, at most 2 of these."), JSON.stringify(await shown())));
  assert.deepEqual(calls.map((it) => it.name), ["ask_open"], "a wrong answer was sent");
  await env.axe(page, "the form with problems");
}

/** Text that would be dangerous as markup. */
const MARKUP = '<img src="x" onerror="parent.postMessage(1)"><a href="https://example.com">link</a><b>bold</b>';

async function keepsDataAsText(env) {
  const properties = { desk: { type: "string", title: MARKUP, description: MARKUP, enum: [MARKUP, "b"] }, other: { type: "string", title: "Other", default: MARKUP } };
  const questions = one(properties, [], { message: MARKUP, context: { [MARKUP]: MARKUP } });
  const { frame, inside } = await scripted(env, [asks(questions, { server: MARKUP, tool: MARKUP, for: MARKUP, arguments: { [MARKUP]: MARKUP } })]);
  await frame.getByRole("heading", { level: 2 }).waitFor();
  const tags = await inside().evaluate(() => [...new Set([...document.querySelectorAll("main *")].map((it) => it.localName))]);
  for (const tag of ["img", "a", "b", "script", "iframe"]) assert(!tags.includes(tag), `the form has a <${tag}>`);
  assert.equal(await frame.getByRole("heading", { level: 2 }).textContent(), MARKUP);
}

async function ignoresUntrustedClicks(env) {
  const { frame, calls, inside, page } = await scripted(env, [asks(one(DESK))]);
  await frame.getByRole("button", { name: "Submit", disabled: false }).waitFor();
  for (const name of ["Submit", "Decline"]) {
    await inside().evaluate((text) => [...document.querySelectorAll("button")].find((it) => it.textContent === text).click(), name);
  }
  await page.waitForTimeout(300);
  assert.deepEqual(calls.map((it) => it.name), ["ask_open"]);
}

const LINK = { pay: { message: "Pay 12 euros", url: "https://shop.example/pay?order=4711", host: "shop.example" } };
const OPENS = { ...ALL, openLinks: {} };

async function opensALinkIfTheUserAgrees(env) {
  const { frame, page, calls, asked, inside } = await scripted(env, [asks(LINK), ends("completed")], { capabilities: OPENS });
  await frame.getByRole("heading", { name: "Pay 12 euros" }).waitFor();
  for (const shown of ["shop.example", LINK.pay.url]) await frame.getByText(shown, { exact: true }).first().waitFor();
  await submit(frame);
  await frame.getByText("Open the link, or select Decline.").waitFor();
  await inside().evaluate(() => [...document.querySelectorAll("button")].find((it) => it.textContent.startsWith("Open")).click());
  await page.waitForTimeout(300);
  assert.deepEqual([(await asked()).links, calls.map((it) => it.name)], [[], ["ask_open"]], "the form opened the link without the user");
  await env.axe(page, "the form with a link");
  await frame.getByRole("button", { name: "Open shop.example" }).click();
  await title(frame, "Done");
  assert.deepEqual((await asked()).links, [LINK.pay.url]);
  assert.deepEqual(calls[1].arguments.responses, { pay: { action: "accept", content: {} } });
}

async function keepsALinkThatTheHostRefuses(env) {
  const { frame, calls } = await scripted(env, [asks(LINK), ends("completed")], { capabilities: OPENS, refusesLinks: true });
  await frame.getByRole("button", { name: "Open shop.example" }).click();
  await frame.getByText("The host did not open the link.").first().waitFor();
  assert.deepEqual(calls.map((it) => it.name), ["ask_open"], "a link that was not opened counts as opened");
  await submit(frame);
  await title(frame, "Done");
}

async function showsALinkInAHostThatOpensNone(env) {
  const { frame, calls, asked } = await scripted(env, [asks({ ...one(DESK), ...LINK }), ends("completed")]);
  await frame.getByText("Open the address in a browser, then select Submit.").waitFor();
  assert.equal(await frame.getByRole("button", { name: "Open shop.example" }).count(), 0);
  await frame.getByLabel("Which desk?").fill("4");
  await submit(frame);
  await title(frame, "Done");
  assert.deepEqual(calls[1].arguments.responses, { approval: { action: "accept", content: { desk: "4" } }, pay: { action: "accept", content: {} } });
  assert.deepEqual((await asked()).links, []);
}

async function declines(env) {
  const { frame, calls } = await scripted(env, [asks(one(DESK, ["desk"])), ends("failed")]);
  await frame.getByRole("button", { name: "Decline" }).click();
  await title(frame, "Ended with an error");
  assert.deepEqual(calls[1].arguments.responses, { approval: { action: "decline" } });
}

async function showsDetailsAndLongValues(env) {
  const text = "word ".repeat(100);
  const questions = one(DESK, [], { context: { board: ["x", "o"] } });
  const { frame } = await scripted(env, [asks(questions, { arguments: { name: "Grace", letter: text } })]);
  for (const shown of ["Question from Onboarding", "Takes on a colleague", "ada@example.com", "Nov 17, 2026", "May they start?", '"board": [']) await frame.getByText(shown).first().waitFor();
  const letter = frame.locator("dd").last();
  assert((await letter.textContent()).length < 200);
  await letter.getByRole("button", { name: "Show all of letter" }).click();
  assert.equal(await letter.textContent(), `${text} `);
}

async function asksSeveralQuestions(env) {
  const questions = { ...one(DESK), badge: { message: "Which badge?", schema: { type: "object", properties: { color: { type: "string" } } }, context: "blue or red" } };
  const { frame, calls } = await scripted(env, [asks(questions), ends("completed")]);
  await frame.getByRole("region", { name: "May they start?" }).getByLabel("Which desk?").fill("4");
  await frame.getByRole("region", { name: "Which badge?" }).getByLabel("color").fill("red");
  await submit(frame);
  await title(frame, "Done");
  assert.deepEqual(calls[1].arguments.responses, { approval: { action: "accept", content: { desk: "4" } }, badge: { action: "accept", content: { color: "red" } } });
}

async function continuesWithNextQuestions(env) {
  const next = asks({ "approval@2": { message: "Really?", schema: { type: "object", properties: {} }, context: null } }, { ticket: "ticket-2" });
  const { frame, calls, inside } = await scripted(env, [asks(one(DESK)), next, ends("completed")]);
  // The frame does not take the focus from the chat.
  await frame.getByLabel("Which desk?").waitFor();
  assert.equal(await inside().evaluate(() => document.activeElement === document.body), true);
  await frame.getByLabel("Which desk?").fill("4");
  // The second click of a double click is not for the next form.
  await frame.getByRole("button", { name: "Submit" }).dblclick();
  await frame.getByRole("heading", { name: "Really?" }).waitFor();
  assert.equal(await inside().evaluate(() => document.activeElement.localName), "h1");
  assert.equal(calls.length, 2);
  await submit(frame);
  await title(frame, "Done");
  assert.deepEqual([calls[2].arguments.ticket, calls[2].arguments.responses], ["ticket-2", { "approval@2": { action: "accept", content: {} } }]);
}

async function pollsWhileTheToolWorks(env) {
  const { frame, calls, asked } = await scripted(env, [asks(one(DESK)), ends("working"), ends("working"), ends("completed")]);
  await frame.getByLabel("Which desk?").fill("secret desk");
  await submit(frame);
  await title(frame, "The tool is working");
  assert.deepEqual((await asked()).messages, []);
  await title(frame, "Done");
  assert.deepEqual(calls.map((it) => it.name), ["ask_open", "ask_answer", "ask_open", "ask_open"]);
  const text = `I have responded to the form, so call task_result with the id ${ID}.`;
  await soon(async () => {
    const { messages, contexts } = await asked();
    assert.deepEqual([messages.map((it) => [it.role, it.content[0].text]), contexts.map((it) => it.content[0].text)], [[["user", text]], [text]]);
  });
}

async function saysNothingWhenReloaded(env) {
  for (const [status, shown] of [["completed", "Done"], ["failed", "Ended with an error"], ["cancelled", "Cancelled"]]) {
    const { page, frame, asked } = await scripted(env, [ends(status)]);
    await title(frame, shown);
    await frame.getByText("If nothing happens, write: go on").waitFor();
    await page.waitForTimeout(200);
    const { messages, contexts } = await asked();
    assert.deepEqual([messages, contexts], [[], []]);
    await page.context().close();
  }
}

async function respectsMissingCapabilities(env) {
  const { frame, page, asked } = await scripted(env, [asks(one(DESK)), ends("completed")], { capabilities: { serverTools: {} } });
  await submit(frame);
  await title(frame, "Done");
  await page.waitForTimeout(200);
  const { messages, contexts } = await asked();
  assert.deepEqual([messages, contexts], [[], []]);
}

async function findsTheTask(env) {
  const other = `t_${"cd".repeat(16)}`;
  for (const [found, wanted] of [
    [{ content: [], _meta: { "antiphon/task": { id: ID } }, structuredContent: { task: { id: other } } }, ID],
    [{ content: [{ type: "text", text: other }], structuredContent: { task: { id: ID } } }, ID],
    [{ content: [{ type: "text", text: "no task" }, { type: "text", text: `task ${ID}.` }] }, ID],
    [{ content: [{ type: "text", text: "no task" }] }, undefined],
    [null, undefined],
  ]) {
    const { page, frame, calls } = await scripted(env, [asks(one(DESK))], { result: found });
    await frame.getByLabel("Which desk?").waitFor();
    assert.deepEqual(calls.map((it) => [it.name, it.arguments.id]), [["ask_open", wanted]], JSON.stringify(found));
    await page.context().close();
  }
}

async function followsALateResult(env) {
  const { page, frame, calls } = await scripted(env, [reply({ status: "none" }), asks(one(DESK))], { result: null });
  await title(frame, "No open question");
  await page.evaluate((late) => window.deliver({}, late), result);
  await frame.getByLabel("Which desk?").waitFor();
  assert.equal(calls[1].arguments.id, ID);
}

async function offersAChoice(env) {
  const other = `t_${"cd".repeat(16)}`;
  const choices = [{ id: other, tool: "Orders shirts", message: "Which size?", updated_at: "2026-11-17T05:20:00Z" }, { id: ID, tool: "Takes on a colleague", message: "May they start?", updated_at: "2026-11-17T05:21:00Z" }];
  const { frame, calls } = await scripted(env, [reply({ status: "choose", choices }), asks(one(DESK))], { result: null });
  await title(frame, "Several questions are open");
  await frame.getByRole("button", { name: "May they start?" }).click();
  await frame.getByLabel("Which desk?").waitFor();
  assert.equal(calls[1].arguments.id, ID);
}

async function checksAgain(env) {
  const { frame } = await scripted(env, [reply({ status: "none" }), asks(one(DESK))], { result: null });
  await title(frame, "No open question");
  await frame.getByRole("button", { name: "Check again" }).click();
  await frame.getByLabel("Which desk?").waitFor();
}

async function explainsErrors(env) {
  for (const [code, sentence] of [["VIEW", "This form is out of date."], ["NOT_FOUND", "This question was not found."], ["EXPIRED", "This question has expired."], ["OTHER", "The request failed: scripted OTHER"]]) {
    const { page, frame } = await scripted(env, [failure(code)]);
    await title(frame, "The form is not available");
    await frame.getByText(sentence).waitFor();
    assert.equal(await frame.getByRole("button", { name: "Try again" }).count(), code === "OTHER" ? 1 : 0, code);
    await page.context().close();
  }
}

async function renewsTheTicket(env) {
  for (const code of ["TICKET", "EXPIRED"]) {
    const { page, frame, calls } = await scripted(env, [asks(one(DESK)), failure(code), asks(one(DESK), { ticket: "ticket-2" }), ends("completed")]);
    await frame.getByLabel("Which desk?").fill("4");
    await submit(frame);
    await frame.getByText("The form was renewed.").first().waitFor();
    assert.equal(await frame.getByLabel("Which desk?").inputValue(), "4", "the form lost the input");
    await submit(frame);
    await title(frame, "Done");
    assert.deepEqual(calls.map((it) => it.arguments.ticket), [undefined, "ticket-1", undefined, "ticket-2"]);
    await page.context().close();
  }
}

async function saysThatAnAnswerIsUsed(env) {
  const { frame, asked } = await scripted(env, [asks(one(DESK)), reply({ status: "used", id: ID }), ends("completed")]);
  await submit(frame);
  await title(frame, "Done");
  await frame.getByText("This question was already answered.").waitFor();
  assert.deepEqual((await asked()).messages, []);
}

async function showsMisfitsOfTheServer(env) {
  const misfit = reply({ status: "invalid", id: ID, ticket: "ticket-2", problems: { approval: { desk: "is taken", "": "the answer is too large" } } });
  const { frame, calls } = await scripted(env, [asks(one(DESK)), misfit, ends("completed")]);
  await frame.getByLabel("Which desk?").fill("4");
  await submit(frame);
  await frame.getByText("Not accepted: is taken").waitFor();
  await frame.locator(".notice", { hasText: "Not accepted: the answer is too large" }).waitFor();
  await submit(frame);
  await title(frame, "Done");
  assert.equal(calls[2].arguments.ticket, "ticket-2");
}

export const CHECKS = {
  readsFields, submitsDefaults, showsProblems, keepsDataAsText, ignoresUntrustedClicks, opensALinkIfTheUserAgrees, keepsALinkThatTheHostRefuses,
  showsALinkInAHostThatOpensNone, declines, showsDetailsAndLongValues, asksSeveralQuestions,
  continuesWithNextQuestions, pollsWhileTheToolWorks, saysNothingWhenReloaded, respectsMissingCapabilities, findsTheTask, followsALateResult, offersAChoice,
  checksAgain, explainsErrors, renewsTheTicket, saysThatAnAnswerIsUsed, showsMisfitsOfTheServer,
};
