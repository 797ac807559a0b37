// What must hold on every page: nothing is blocked, nothing fails, everything has a name.

import assert from "node:assert/strict";

/** Hears what the browser has to complain about, for as long as the page lives. */
export async function watch(page) {
  const complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("response", (response) => response.status() >= 400 && complaints.push(`${response.status()} for ${new URL(response.url()).pathname}`));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`blocked: ${event.violatedDirective} ${event.blockedURI}`));
  });
  return complaints;
}

const NEED_NAMES = ["button", "checkbox", "combobox", "grid", "link", "progressbar", "region", "searchbox", "textbox"];

/** Everything that can be used has a name for those who do not see it: as the browser itself computes it. */
export async function checkNames(page) {
  const devtools = await page.context().newCDPSession(page);
  const { nodes } = await devtools.send("Accessibility.getFullAXTree");
  await devtools.detach();
  const used = nodes.filter((node) => !node.ignored && NEED_NAMES.includes(node.role?.value));
  assert(used.length > 2, "there is nothing to use");
  const nameless = used.filter((node) => !node.name?.value?.trim()).map((node) => node.role.value);
  assert.deepEqual(nameless, [], "these have no name");
  const twice = await page.evaluate(() => {
    const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
    return ids.filter((id, i) => ids.indexOf(id) !== i);
  });
  assert.deepEqual(twice, [], "these ids are there twice");
}
