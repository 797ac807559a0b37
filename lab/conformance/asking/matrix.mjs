// Every tool in every host: the scripted model calls it, the scripted user answers in the form, the model reads the
// result.

import assert from "node:assert/strict";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { converse } from "./model.mjs";
import { openForm, soon } from "./see.mjs";

/** The limit of a call and of a cell, in milliseconds. */
const CALL = 60_000;
const CELL = 90_000;

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** A connection of a host to one of the servers, for one user. */
export async function connect({ urls }, user, profile) {
  const { client: capabilities, revision, server = "short", anonymous } = profile;
  const client = new Client({ name: "asking-test", version: "1.0.0" }, { capabilities, ...(revision && { versionNegotiation: { mode: { pin: revision } } }) });
  const seen = { elicited: 0, cancelled: 0 };
  let running = null;
  if (profile.elicit) {
    client.setRequestHandler("elicitation/create", () => {
      seen.elicited += 1;
      const call = running;
      return profile.elicit(() => {
        seen.cancelled += 1;
        // The reason of a client whose time limit has passed.
        call.abort(new Error("Request timed out"));
      });
    });
  }
  const headers = anonymous ? {} : { "x-user": user };
  await client.connect(new StreamableHTTPClientTransport(new URL(urls[server]), { requestInit: { headers } }));
  if (revision) assert.equal(client.getNegotiatedProtocolVersion(), revision);
  const { tools } = await client.listTools();
  const call = ({ name, input }) => {
    running = new AbortController();
    return client.callTool({ name, arguments: input }, { timeout: CALL, signal: running.signal });
  };
  return { client, tools, call, seen };
}

const metaOf = ({ tools }, name) => tools.find((tool) => tool.name === name)?._meta?.ui ?? {};

/** Reads the form, and checks that models are not shown the tools that are only for the form. */
export async function readForm(env, profile) {
  const host = await connect(env, "reader@example.com", profile);
  try {
    for (const name of ["ask_open", "ask_answer"]) assert.deepEqual(metaOf(host, name).visibility, ["app"], name);
    const uri = metaOf(host, "task_question").resourceUri;
    assert.match(uri, /^ui:\/\/antiphon\/form\/[0-9a-f]{16}$/);
    const { contents: [content] } = await host.client.readResource({ uri });
    assert.equal(content.mimeType, "text/html;profile=mcp-app");
    assert(!content.text.includes("__VIEW_KEY__"), "the form has no view key");
    return content.text;
  } finally {
    await host.client.close();
  }
}

/** Shows the form of a tool call to the scripted user, and returns when the user has answered. */
async function showForm(env, profile, tool, app, { uri, input, result }) {
  const { contents: [content] } = await app.client.readResource({ uri });
  env.host.put(content.text);
  // A host must reject an app's call of a tool that is not for apps.
  const callTool = (params) => {
    const { visibility = ["model", "app"] } = metaOf(app, params.name);
    assert(visibility.includes("app"), `${params.name} is not for apps`);
    return app.client.callTool(params, { timeout: CALL });
  };
  const form = await openForm(env, { callTool, capabilities: profile.capabilities, input, result: profile.toForm(result) });
  await tool.answer(form.frame);
  const { message, updateModelContext } = profile.capabilities;
  await soon(async () => {
    const { messages, contexts } = await form.asked();
    assert.deepEqual([messages.length, contexts.length], [message ? 1 : 0, updateModelContext ? 1 : 0], "the form told the model too much or too little");
    const told = JSON.stringify([messages, contexts]);
    if (message) assert(told.includes(input.id), `the form does not name the task: ${told}`);
    for (const value of tool.entered) assert(!told.includes(value), `the form told the model an answer: ${told}`);
  });
  await form.frame.getByText("If nothing happens, write: go on").waitFor();
  await form.page.context().close();
}

/** Calls a tool in a host. Fails if the model does not get the result. */
async function converseWith(env, name, profile, toolName, tool) {
  const user = `${name}.${toolName}@example.com`;
  // Hosts use one session for the model and another for the app.
  const model = await connect(env, user, profile);
  const app = await connect(env, user, profile);
  let calls = 0;
  const call = async (it) => {
    calls += 1;
    const { cancelled } = model.seen;
    try {
      return await model.call(it);
    } catch (error) {
      if (model.seen.cancelled === cancelled) throw error;
      // The model tries again. Until then, the server has received the cancellation.
      await pause(2_000);
      return model.call(it);
    }
  };
  const turn = async ({ name: called, input }, result) => {
    const uri = metaOf(model, called).resourceUri;
    if (!uri) return false;
    assert(tool.answer, `${toolName} asks nothing, but the model opened a form`);
    await showForm(env, profile, tool, app, { uri, input, result });
    return true;
  };
  try {
    const result = await converse({ first: { name: toolName, input: tool.input }, call, read: profile.toModel, turn });
    assert(!result.isError, `the result is an error: ${JSON.stringify(result.content)}`);
    tool.check(result);
    const least = profile.calls?.[toolName] ?? tool.calls;
    assert(least === 1 ? calls === 1 : calls >= least, `the model made ${calls} calls`);
    // After the first question, the server does not ask this client again.
    assert.equal(model.seen.elicited, profile.elicit && tool.answer ? 1 : 0, "the client was asked too often, or not at all");
  } finally {
    await Promise.allSettled([model.client.close(), app.client.close()]);
  }
}

/** Returns why a cell failed, or `null`. */
async function cell(env, ...what) {
  let timer;
  const late = new Promise((done) => (timer = setTimeout(done, CELL, new Error(`no result after ${CELL / 1000} s`))));
  try {
    return await Promise.race([converseWith(env, ...what).then(() => null), late]);
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Tries all pairs of a profile and a tool. A profile with `tools` is tried with these only.
 * @returns {Promise<Map<string, Map<string, Error|null>>>} why a tool failed in a profile
 */
export async function tryAll(env, profiles, tools) {
  const found = new Map(Object.keys(profiles).map((name) => [name, new Map()]));
  const pairs = Object.entries(tools).flatMap(([toolName, tool]) => Object.entries(profiles).map(([name, profile]) => [name, profile, toolName, tool]))
    .filter(([, profile, toolName]) => profile.tools?.includes(toolName) ?? true);
  const [forms, plain] = [pairs.filter((pair) => pair[3].answer), pairs.filter((pair) => !pair[3].answer)];
  // Without a form, most of the time is spent waiting.
  await Promise.all(plain.map(async (pair) => found.get(pair[0]).set(pair[2], await cell(env, ...pair))));
  for (const pair of forms) {
    const thrown = await cell(env, ...pair);
    const reported = env.complaint();
    const failed = thrown ?? reported;
    found.get(pair[0]).set(pair[2], failed);
    if (failed) await env.keep(`failed-${pair[0]}-${pair[2]}`);
    for (const context of env.browser.contexts()) await context.close();
  }
  return found;
}
