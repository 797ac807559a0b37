// The same page inside a host of MCP Apps: by the host's hands, and past it where it allows that.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { readFile } from "node:fs/promises";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { build } from "esbuild";

import { LONG, checkAxe, fit, head, openFilter, settled, shownCount, soon } from "./see.mjs";
import { watch } from "../studio/look.mjs";

/** How many rows are asked for here: as many as take a moment to write. */
const ROWS = 600_000;

/** The parts of a result that hosts pass on to an app. */
const DELIVERIES = {
  "all of it, as specified": (result) => result,
  "only `content`": ({ content }) => ({ content }),
  "no `_meta`, and the JSON of the structured content as text": ({ structuredContent }) => ({ content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent }),
  "no `_meta`": ({ content, structuredContent }) => ({ content, structuredContent }),
  nothing: () => null,
};

const newClient = () => new Client({ name: "test-host", version: "1.0.0" }, { capabilities: { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } } });

/** The page shows the rows, whatever part of the result the host passes on. Returns the number of hosts. */
export async function checkDeliveries({ browser, explore }) {
  assert(explore, "EXPLORE must be the program of the example `explore`");
  const client = newClient();
  // Over stdio there is one caller, so the server can tell which set is its newest.
  await client.connect(new StdioClientTransport({ command: explore, args: [], stderr: "ignore" }));
  const app = await readApp(client);
  const host = await serveHost(app);
  const deliveries = Object.entries(DELIVERIES);
  try {
    for (const [at, [name, deliver]] of deliveries.entries()) {
      // Each set has its own number of rows, so that none is mistaken for another.
      const rows = 1000 + at;
      const { page, frame, complaints } = await open({ browser, client, app, host }, [], { rows, deliver });
      assert.equal(await shownCount(frame), rows, name);
      assert.equal((await settled(frame, LONG))[0].cells.id, "1", name);
      assert.deepEqual(complaints, [], name);
      await page.context().close();
    }
  } finally {
    host.close();
    await client.close();
  }
  return deliveries.length;
}

export async function checkHost({ browser, server, shoot }) {
  const client = newClient();
  await client.connect(new StreamableHTTPClientTransport(new URL(server.mcp)));
  const app = await readApp(client);
  const host = await serveHost(app);
  try {
    const took = await throughHost({ browser, client, app, host, shoot });
    await pastHost({ browser, client, app, host });
    return took;
  } finally {
    host.close();
    await client.close();
  }
}

/** The tool, the page it brings, and that models are not shown what only the page needs. */
async function readApp(client) {
  const { tools } = await client.listTools();
  const tool = tools.find(({ name }) => name === "search_sales");
  const uri = tool._meta.ui.resourceUri;
  assert.match(uri, /^ui:\/\/antiphon\/result\/[0-9a-f]{16}$/);
  for (const name of ["result_manifest", "result_page", "result_stats", "result_aggregate", "result_link"]) {
    assert.deepEqual(tools.find((it) => it.name === name)?._meta?.ui?.visibility, ["app"], name);
  }
  const { contents: [content] } = await client.readResource({ uri });
  assert.equal(content.mimeType, "text/html;profile=mcp-app");
  const html = process.env.VIEWER ? await readFile(process.env.VIEWER, "utf8") : content.text;
  return { tool, html, domains: content._meta?.ui?.csp?.connectDomains ?? [] };
}

/** Serves the host's page, and the app with the policy that the specification has for it. */
async function serveHost(app) {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const bundle = await build({ entryPoints: [`${folder}host.js`], bundle: true, format: "iife", write: false, absWorkingDir: folder });
  const script = bundle.outputFiles[0].text.replaceAll("</script", "<\\/script");
  const page = `<!doctype html><html lang="en"><head><title>Host</title><style>body{margin:0;background:Canvas;color-scheme:light dark}iframe{border:0;width:100vw;height:100vh}</style></head><body><iframe title="Result" sandbox="allow-scripts"></iframe><script>${script}</script></body></html>`;
  let granted = [];
  const http = createServer((request, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    if (request.url === "/app") {
      response.setHeader("content-security-policy", `default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src ${granted.join(" ") || "'none'"}; sandbox allow-scripts`);
      response.end(app.html);
    } else if (request.url === "/") response.end(page);
    else response.writeHead(204).end();
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${http.address().port}/`, grant: (domains) => (granted = domains), close: () => http.close() };
}

async function open({ browser, client, app, host }, domains, { rows = ROWS, deliver = DELIVERIES["all of it, as specified"] } = {}) {
  host.grant(domains);
  const context = await browser.newContext({ viewport: { width: 900, height: 640 }, deviceScaleFactor: 2, colorScheme: "light", locale: "en-US" });
  const page = await context.newPage();
  const complaints = await watch(page);
  await page.exposeFunction("callTool", (params) => client.callTool(params, { timeout: LONG }));
  await page.goto(host.url);
  const result = await client.callTool({ name: "search_sales", arguments: { rows } }, { timeout: LONG });
  // Some hosts deliver nothing if there is a link.
  assert.deepEqual(result.content.map(({ type }) => type), ["text"]);
  const begun = Date.now();
  await page.evaluate((told) => window.show(told), { result: deliver(result), tool: app.tool, granted: domains, theme: "light" });
  const frame = page.frameLocator("iframe");
  await frame.locator(".grid").waitFor({ timeout: LONG });
  await settled(frame, LONG);
  return { page, frame, complaints, took: Date.now() - begun };
}

async function throughHost(told) {
  const { page, frame, complaints, took } = await open(told, []);
  const asked = () => page.evaluate(() => window.asked);
  await head(frame, "amount").locator(".spark .bar").first().waitFor({ timeout: LONG });
  const total = await shownCount(frame);
  await frame.locator(".grid").focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.press("Home");
  await frame.locator(`.row[aria-rowindex="${total + 1}"]`).waitFor();
  await soon(async () => assert.equal((await settled(frame, LONG)).at(-1).cells.id, String(total)));
  await page.keyboard.press("Control+Home");
  const form = await openFilter(frame, "channel");
  await form.getByRole("checkbox", { name: /^partner/ }).check();
  await form.getByRole("button", { name: "Apply" }).click();
  await settled(frame, LONG);
  await soon(async () => {
    const rows = await settled(frame);
    assert(rows.every((row) => row.cells.channel === "partner"), JSON.stringify(rows[0]));
  });
  // The model hears of what the person has chosen.
  await frame.locator(".gutter").nth(1).click();
  await page.waitForFunction(() => window.asked.contexts.some(({ content }) => /^Selected are rows \d+ to \d+, which follow\.$[^]*^<data-(\w+)>\nFiltered by: channel is partner\.\n\{.*\}\n<\/data-\1>$/m.test(content[0].text)));
  // The host fetches files: a frame cannot.
  await frame.getByRole("button", { name: "Export" }).click();
  await frame.locator('[data-format="csv"]').click();
  await page.waitForFunction(() => window.asked.downloads.length);
  const [link] = (await asked()).downloads[0];
  assert.equal(link.type, "resource_link");
  const text = await (await fetch(link.uri)).text();
  assert.equal(text.trimEnd().split("\n").length, (await shownCount(frame)) + 1);
  await frame.getByRole("button", { name: "Full screen" }).click();
  await page.waitForFunction(() => window.asked.modes.includes("fullscreen"));
  const { tools, sizes } = await asked();
  for (const name of ["result_manifest", "result_page", "result_stats", "result_link"]) assert(tools.includes(name), name);
  assert(sizes.length && sizes.at(-1).height >= 400, JSON.stringify(sizes));
  await frame.getByRole("tab", { name: "Chart" }).click();
  await frame.locator(".drawing").waitFor({ timeout: LONG });
  await frame.getByRole("tab", { name: "Table" }).click();
  // The host's theme is ours.
  await page.evaluate(() => window.turn("dark"));
  await frame.locator('html[data-theme="dark"]').waitFor();
  await page.evaluate(() => window.turn("light"));
  await frame.locator('html[data-theme="light"]').waitFor();
  await checkAxe(page, "the page in a host");
  await frame.locator(".exporting").getByRole("button", { name: "Close" }).click();
  await fit(page, frame, 6, 560);
  await told.shoot("host", { where: page });
  await page.evaluate(() => window.leave());
  assert.deepEqual(complaints, [], "the browser complained");
  await page.context().close();
  return took;
}

/** Where the host grants the server's domain, rows come from there; where that does not work after all, by tools. */
async function pastHost(told) {
  assert(told.app.domains.length, "the page asks for no domain");
  const { page, frame } = await open(told, told.app.domains);
  await frame.locator(".grid").focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.press("Home");
  const total = await shownCount(frame);
  await frame.locator(`.row[aria-rowindex="${total + 1}"]`).waitFor();
  await soon(async () => assert.equal((await settled(frame, LONG)).at(-1).cells.id, String(total)));
  const { tools } = await page.evaluate(() => window.asked);
  assert(tools.includes("result_link"), "no link was asked for");
  // A server that lets no other page read from it is asked by tools, and the rows are the same.
  const lets = await fetch(told.app.domains[0], { method: "OPTIONS", headers: { origin: "null", "access-control-request-method": "POST" } });
  if (lets.headers.has("access-control-allow-origin")) assert(!tools.includes("result_page"), "rows came by tools");
  else assert(tools.includes("result_page"), "no rows were asked for");
  await page.context().close();
}
