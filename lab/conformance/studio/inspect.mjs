// The parts of the page beside the run: messages, standard error, prompts and resources, and replies by hand.

import assert from "node:assert/strict";

import { checkNames } from "./look.mjs";

/** `program` is a command that serves the example `hello` over standard input and output. */
export async function checkInspect(page, program) {
  await page.getByRole("heading", { name: "Choose a server" }).waitFor();
  await page.getByLabel("Address or command").fill(program);
  // A server with a prompt and a resource, as its lists are drawn.
  const answers = {
    prompts: [{ name: "review", description: "Asks for a review", arguments: [{ name: "code", required: true }] }],
    resources: { resources: [{ uri: "talk://motto", name: "motto" }], templates: [{ uriTemplate: "talk://{name}", name: "any" }] },
    prompt: { messages: [{ role: "user", content: { type: "text", text: "Review this: 1 + 1" } }] },
    resource: { contents: [{ uri: "talk://motto", text: "call and response" }] },
  };
  const lists = /\/api\/session\/\w+\/(prompts?|resources?)$/;
  await page.route(lists, (route) => route.fulfill({ json: answers[new URL(route.request().url()).pathname.split("/").pop()] }));
  await page.getByRole("button", { name: "Connect" }).click();
  await page.locator("#tool-title").waitFor();

  await page.locator("#stderr-box summary").click();
  await page.locator("#stderr").getByText("serving hello").waitFor();
  await page.locator("#frames-box > summary").click();
  const listed = page.locator("#frames li.sent", { hasText: "tools/list" }).first();
  await listed.locator("summary").click();
  assert.match(await listed.locator("pre").textContent(), /"jsonrpc": "2.0"/);

  await page.locator("#prompts").getByRole("button", { name: "review" }).click();
  await page.getByRole("button", { name: "Get the prompt" }).click();
  assert.equal(await page.locator("#tool .error:visible").count(), 1, "a required argument can be left out");
  await page.locator("#tool").getByLabel("code").fill("1 + 1");
  await page.getByRole("button", { name: "Get the prompt" }).click();
  await page.locator("#result").getByText("Review this: 1 + 1").waitFor();
  await checkNames(page);

  await page.locator("#resources").getByRole("button", { name: "motto" }).click();
  await page.getByRole("button", { name: "Read the resource" }).click();
  await page.locator("#result").getByText("call and response").waitFor();
  await page.locator("#resources").getByRole("button", { name: "any" }).click();
  assert.equal(await page.getByLabel("URI").inputValue(), "talk://{name}");
  await checkByHand(page);
  await page.unroute(lists);
  await page.getByRole("button", { name: "Disconnect" }).click();
}

/** Cards for sampling requests that the user answers, and the answers that they send. */
async function checkByHand(page) {
  const sent = [];
  await page.route(/\/api\/ask\//, (route) => {
    sent.push(route.request().postDataJSON());
    return route.fulfill({ status: 204 });
  });
  const tool = (name) => ({ name, inputSchema: { type: "object", properties: { place: { type: "string" } }, required: ["place"] } });
  const show = (ask, more) => page.evaluate(async ([ask, more]) => {
    const { Asks } = await import("/asks.js");
    const place = document.getElementById("asks");
    const asks = new Asks(place, "sky", "user");
    const request = { messages: [{ role: "user", content: { type: "text", text: "Say a word" } }], maxTokens: 10, ...more };
    asks.add({ ask, kind: "sample", byHand: true, request });
  }, [ask, more]);
  const card = page.locator(".card.ask");
  const reply = () => card.getByRole("button", { name: "Reply", exact: true }).click();
  const answered = async (content) => {
    await page.waitForFunction(() => !document.querySelector(".card[aria-busy]"));
    assert.deepEqual(sent.at(-1)?.content, content);
  };

  await show("1", {});
  await card.getByLabel("Reply", { exact: true }).fill("hello");
  await checkNames(page);
  await reply();
  await answered({ text: "hello" });

  await show("2", { tools: [tool("__schema__")], toolChoice: { mode: "required" } });
  assert.equal(await card.getByLabel("Reply with").count(), 0);
  await reply();
  assert.equal(await card.locator(".error:visible").count(), 1, "a required field can be left out");
  await card.getByLabel("place").fill("Bern");
  await reply();
  await answered({ tool: "__schema__", input: { place: "Bern" } });

  await show("3", { tools: [tool("look_up"), tool("look_down")] });
  await card.getByLabel("Reply with").selectOption("Call look_down");
  await card.getByLabel("place").fill("ground");
  await reply();
  await answered({ tool: "look_down", input: { place: "ground" } });
  assert.equal(sent.length, 3);
  await page.unroute(/\/api\/ask\//);
  await page.evaluate(() => document.getElementById("asks").replaceChildren());
}
