// Prompts and resources of a server, the messages of its connection, and the standard error of its program.

import { ask, listen } from "./api.js";
import { byId, fresh, h, put, replace } from "./dom.js";
import { form } from "./form.js";
import { block } from "./result.js";

const LINES = 500;

/** Lists the prompts. `open` shows one where tools are shown. */
export async function prompts(session, open) {
  const all = await ask("GET", `/api/session/${session}/prompts`);
  list("prompts", all.map((prompt) => [prompt.name, prompt.title ?? prompt.name, prompt.description, () => open(prompt.name, "prompts", () => promptForm(session, prompt))]));
}

/** Lists the resources, and the templates of resources. */
export async function resources(session, open) {
  const all = await ask("GET", `/api/session/${session}/resources`);
  const item = (uri, it) => [uri, it.title ?? it.name ?? uri, it.description ?? uri, () => open(uri, "resources", () => resourceForm(session, uri, it))];
  list("resources", [...all.resources.map((it) => item(it.uri, it)), ...all.templates.map((it) => item(it.uriTemplate, it))]);
}

function list(id, items) {
  byId(`${id}-box`).hidden = items.length === 0;
  const item = ([name, title, about, click]) => h("li", {}, h("button", { type: "button", "data-name": name, click }, h("strong", {}, title), about ? h("span", { class: "help" }, about.split("\n")[0]) : null));
  replace(byId(id), items.map(item));
}

function promptForm(session, prompt) {
  const properties = {};
  for (const it of prompt.arguments ?? []) properties[it.name] = { type: "string", title: it.title ?? it.name, description: it.description };
  const required = (prompt.arguments ?? []).filter((it) => it.required).map((it) => it.name);
  const fields = form({ type: "object", properties, required });
  const get = (given) => ask("POST", `/api/session/${session}/prompt`, { name: prompt.name, arguments: given });
  return shown(prompt.title ?? prompt.name, prompt.description, fields, "Get the prompt", get, ({ messages }) =>
    h("ol", { class: "messages" }, messages.map((it) => h("li", { class: it.role }, h("span", { class: "role" }, it.role), h("div", {}, block(it.content))))));
}

function resourceForm(session, uri, resource) {
  const input = h("input", { id: fresh("uri"), class: "mono", value: uri, autocomplete: "off", spellcheck: "false" });
  const element = h("div", { class: "field" }, h("label", { for: input.id }, "URI"), input,
    uri.includes("{") ? h("p", { class: "help" }, "Replace the names in braces by values.") : null);
  const fields = { element, focus: () => input.focus(), read: () => input.value.trim() || null };
  const read = (given) => ask("POST", `/api/session/${session}/resource`, { uri: given });
  return shown(resource.title ?? resource.name ?? uri, resource.description, fields, "Read the resource", read, ({ contents }) =>
    contents.length ? contents.map((it) => block({ type: "resource", resource: it })) : h("p", { class: "help" }, "The resource is empty."));
}

/** A form for a prompt or a resource. Its result replaces the result of the last call. */
function shown(title, about, fields, label, request, draw) {
  const button = h("button", { type: "submit", class: "primary" }, label);
  const submit = async (event) => {
    event.preventDefault();
    const given = fields.read();
    if (given === null) return;
    button.disabled = true;
    let card;
    try {
      card = h("article", { class: "card", "aria-label": "Result" }, h("h2", { class: "small" }, "Result"), draw(await request(given)));
    } catch (error) {
      card = h("article", { class: "card failed", role: "alert" }, h("h2", { class: "small" }, "The request failed"), h("p", { class: "prose" }, error.message));
    }
    button.disabled = false;
    replace(byId("result"), card);
    card.scrollIntoView({ block: "nearest" });
  };
  return { focus: fields.focus, element: [h("h2", { id: "tool-title" }, title), about ? h("p", { class: "prose about" }, about) : null,
    h("form", { novalidate: true, submit }, fields.element, h("p", { class: "buttons" }, button))] };
}

/** Shows messages and standard error as they come, until `signal` ends it. */
export function traffic(session, signal) {
  const counts = { frames: 0, stderr: 0 };
  for (const id of Object.keys(counts)) {
    replace(byId(id));
    byId(`${id}-box`).hidden = true;
  }
  const add = (id, item) => {
    const all = byId(id);
    put(all, item);
    if (all.childElementCount > LINES) all.firstElementChild.remove();
    counts[id] += 1;
    byId(`${id}-count`).textContent = String(counts[id]);
    byId(`${id}-box`).hidden = false;
  };
  return listen(session, signal, (event) => {
    if (event.type === "frame") add("frames", frame(event));
    else if (event.type === "stderr") add("stderr", h("li", {}, time(event), h("b", {}, ""), h("span", {}, event.line)));
  }, "traffic");
}

const time = (event) => h("time", {}, new Date(event.at).toLocaleTimeString("en-GB"));

function frame(event) {
  const { id, method, error } = event.message;
  const what = method ?? (error ? "error" : "result");
  const box = h("details", {}, h("summary", {}, time(event), ` ${event.sent ? "→" : "←"} `, h("b", {}, what), id === undefined ? "" : ` ${JSON.stringify(id)}`));
  // Large messages are only drawn when somebody looks.
  box.addEventListener("toggle", () => box.childElementCount === 1 && put(box, h("pre", {}, JSON.stringify(event.message, null, 2))));
  return h("li", { class: event.sent ? "sent" : "received" }, box);
}
