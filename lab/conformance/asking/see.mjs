// The form in a browser, inside the scripted host.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

import { AxeBuilder } from "@axe-core/playwright";
import { build } from "esbuild";

import { watch } from "../studio/look.mjs";

/** The policy of the frame: the form has one script and one style sheet, and connects to nothing. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; sandbox allow-scripts";

/** Serves the page of the host, and the form that `put` sets. */
export async function serveHost() {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const bundle = await build({ entryPoints: [`${folder}host.js`], bundle: true, format: "iife", write: false, absWorkingDir: folder });
  const script = bundle.outputFiles[0].text.replaceAll("</script", "<\\/script");
  const style = "body{margin:0;background:Canvas;color-scheme:light dark}iframe{display:block;border:0;width:100vw;height:100vh}";
  const page = `<!doctype html><html lang="en"><head><title>Host</title><style>${style}</style></head><body><iframe title="Question" sandbox="allow-scripts"></iframe><script>${script}</script></body></html>`;
  let form = "";
  const http = createServer((request, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    if (request.url === "/app") {
      response.setHeader("content-security-policy", POLICY);
      response.end(form);
    } else if (request.url === "/") response.end(page);
    else response.writeHead(204).end();
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${http.address().port}/`, put: (html) => (form = html), close: () => http.close() };
}

/**
 * Opens the form in the host.
 * @param {{browser: object, host: object, opened: string[][]}} where `opened` gets the problems that the browser reports
 * @param {{callTool: Function, look?: object}} options `look` is for the browser, the rest for the host
 */
export async function openForm({ browser, host, opened }, { callTool, look, ...shown }) {
  const context = await browser.newContext({ viewport: { width: 640, height: 760 }, deviceScaleFactor: 2, colorScheme: "light", locale: "en-US", timezoneId: "UTC", ...look });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const complaints = await watch(page);
  opened.push(complaints);
  await page.exposeFunction("callTool", callTool);
  await page.goto(host.url);
  await page.evaluate((it) => window.show(it), shown);
  const frame = page.frameLocator("iframe");
  return { page, frame, asked: () => page.evaluate(() => window.asked), inside: () => page.frames().find((it) => it.url().endsWith("/app")) };
}

/** The title of the page that the form shows. */
export const title = (frame, name) => frame.getByRole("heading", { level: 1, name }).waitFor();

export const submit = (frame) => frame.getByRole("button", { name: "Submit" }).click();

/** Tries until `check` holds. */
export async function soon(check, timeout = 15_000) {
  const until = Date.now() + timeout;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() >= until) throw error;
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Fails if the page is hard to use for some users. */
export async function checkAxe(page, what) {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const words = grave.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join(" | ")}`);
  assert.deepEqual(words, [], `${what} has problems of accessibility`);
}
