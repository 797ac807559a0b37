// What a server asks of the model, and what the model replies.

import { h, tree } from "./dom.js";

const blocks = (content) => (Array.isArray(content) ? content : [content]).filter(Boolean);

/** One message or reply, as people read it. */
export function content(given) {
  return blocks(given).map((block) => {
    switch (block.type) {
      case "text":
        return h("p", { class: "prose" }, block.text);
      case "tool_use":
        return h("div", { class: "used" }, h("p", {}, "calls ", h("code", {}, block.name)), tree(block.input ?? {}));
      case "tool_result":
        return h("div", { class: "used" }, h("p", {}, "receives"), blocks(block.content).map((it) => h("p", { class: "prose" }, it.text ?? JSON.stringify(it))));
      default:
        return h("p", { class: "help" }, `(${block.type})`);
    }
  });
}

/** The tool by which a server asks for data of a schema. */
export const SCHEMA = "__schema__";

/** What is asked, in a few words. */
export function subject(request) {
  const tools = (request.tools ?? []).map((tool) => tool.name);
  if (tools.includes(SCHEMA)) return "data";
  if (tools.length === 0) return "text";
  return tools.length === 1 ? `a call of ${tools[0]}` : `one of ${tools.join(", ")}`;
}

/** A reply, in a few words. */
export function gist(reply) {
  const first = blocks(reply?.content)[0];
  if (!first) return "nothing";
  if (first.type === "tool_use") return `${first.name === SCHEMA ? "" : `${first.name} `}${JSON.stringify(first.input ?? {})}`;
  return first.text ?? `(${first.type})`;
}

/** All of a request. */
export function request(it) {
  const messages = it.messages ?? [];
  const tools = it.tools ?? [];
  const last = messages.length - 1;
  const message = (message) => h("li", { class: message.role }, h("span", { class: "role" }, message.role === "assistant" ? "model" : "server"), h("div", {}, content(message.content)));
  return h("div", { class: "sampled" },
    it.systemPrompt ? h("div", {}, h("p", { class: "small" }, "System prompt"), h("p", { class: "prose" }, it.systemPrompt)) : null,
    last > 0 ? h("details", {}, h("summary", {}, `${last} earlier message${last === 1 ? "" : "s"}`), h("ol", { class: "messages" }, messages.slice(0, last).map(message))) : null,
    h("ol", { class: "messages" }, messages.slice(Math.max(last, 0)).map(message)),
    tools.length ? h("details", {}, h("summary", {}, "Tools for the model: ", tools.map((tool) => tool.name).join(", ")),
      h("ul", {}, tools.map((tool) => h("li", {}, h("code", {}, tool.name), tool.description ? ` ${tool.description}` : "", tree(tool.inputSchema ?? {}, null, 1))))) : null,
    h("p", { class: "help" }, `At most ${it.maxTokens} tokens.`));
}
