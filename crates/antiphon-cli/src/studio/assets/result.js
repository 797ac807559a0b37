// What a tool returned.

import { ask } from "./api.js";
import { ending } from "./board.js";
import { h, plural, put, tree } from "./dom.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const SHOWN_ROWS = 50;

/** The result of a call, as a card. */
export function result({ call, result, rows }) {
  const failed = result.isError === true;
  const special = failed ? null : ending(result.structuredContent);
  const content = (result.content ?? []).map(block);
  const card = h("article", { class: failed ? "card failed" : "card", "aria-label": "Result" },
    h("h2", { class: "small" }, failed ? "The tool returned an error" : "Result"));
  if (special) put(card, special, h("details", {}, h("summary", {}, "As text"), content));
  else if (rows) put(card, table(rows), rows.viewer ? viewer(call) : null, h("details", {}, h("summary", {}, "As text"), content));
  else put(card, content.length ? content : h("p", { class: "help" }, "The tool returned no content."));
  if (result.structuredContent !== undefined && result.structuredContent !== null) {
    put(card, h("details", { class: "structured", open: !special && !rows && !content.length },
      h("summary", {}, "Structured content"), h("div", { class: "tree" }, tree(result.structuredContent)), copy(result.structuredContent)));
  }
  return card;
}

/** How a call ended that has no result. */
export function failure({ error, hint }) {
  return h("article", { class: "card failed", role: "alert" }, h("h2", { class: "small" }, "The call failed"), h("p", { class: "prose" }, error), hint ? h("p", { class: "help" }, hint) : null);
}

/** A block of content. */
export function block(it) {
  switch (it.type) {
    case "text":
      return h("pre", { class: "text" }, it.text);
    case "image":
      if (!PICTURES.includes(it.mimeType)) break;
      return h("img", { class: "picture", src: `data:${it.mimeType};base64,${it.data}`, alt: "A picture that the tool returned" });
    case "resource_link":
      return h("p", { class: "resource" }, link(it.uri, it.title ?? it.name ?? it.uri), h("span", { class: "mono help" }, it.uri), it.description ? h("span", { class: "help" }, it.description) : null);
    case "resource":
      return h("div", { class: "resource" }, h("p", { class: "mono help" }, it.resource?.uri), it.resource?.text !== undefined ? h("pre", { class: "text" }, it.resource.text) : h("p", { class: "help" }, `${it.resource?.mimeType ?? "data"}, not text`));
  }
  return h("p", { class: "help" }, `${it.type}${it.mimeType ? ` (${it.mimeType})` : ""} cannot be shown here.`);
}

/** Somewhere on the web, gone to by a click; anything else is only named. */
function link(uri, title) {
  return /^https?:\/\//i.test(uri) ? h("a", { href: uri, target: "_blank", rel: "noopener noreferrer" }, title) : h("strong", {}, title);
}

/** The preview of a result set. */
function table(rows) {
  const sample = rows.sample ?? [];
  const names = rows.columns?.length ? rows.columns.map((it) => it.name) : Object.keys(sample[0] ?? {});
  const shown = sample.slice(0, SHOWN_ROWS);
  const cell = (value) => h("td", { class: typeof value === "number" ? "number" : null }, value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  return h("figure", { class: "rows" },
    h("figcaption", {}, h("strong", {}, `${rows.total.toLocaleString("en")} ${rows.total === 1 ? "row" : "rows"}`), rows.name ? ` in ${rows.name}` : "",
      shown.length < rows.total ? `. The table has the first ${shown.length}. Use \`antiphon results\` for all rows.` : ""),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Preview, ${plural(shown.length, "row")}` },
      h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, shown.map((row) => h("tr", {}, names.map((name) => cell(row[name]))))))));
}

/** Leads to the server's own page for a result set. Its address is made when it is wanted, because it ends. */
function viewer(call) {
  const problem = h("span", { class: "help", role: "alert" });
  const button = h("button", { type: "button", click: async () => {
    button.disabled = true;
    try {
      const { url } = await ask("POST", `/api/call/${call}/viewer`);
      problem.textContent = "";
      const there = h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Open in viewer");
      // Where a browser opens nothing by itself, there is a link to click.
      button.replaceWith(there);
      there.focus();
      there.click();
    } catch (error) {
      problem.textContent = error.message;
      button.disabled = false;
    }
  } }, "Open in viewer");
  return h("p", { class: "viewer" }, button, " ", problem);
}

function copy(value) {
  const button = h("button", { type: "button", class: "quiet", click: async () => {
    await navigator.clipboard.writeText(JSON.stringify(value, null, 2));
    button.textContent = "Copied";
  } }, "Copy JSON");
  return button;
}
