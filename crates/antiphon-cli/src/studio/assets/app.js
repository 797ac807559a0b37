// The page: choose a server, choose a tool, call it.

import { ask, listen } from "./api.js";
import { Asks } from "./asks.js";
import { byId, fresh, h, put, replace, say } from "./dom.js";
import { form } from "./form.js";
import { prompts, resources, traffic } from "./inspect.js";
import { failure, result } from "./result.js";
import { Timeline } from "./timeline.js";

const KEPT = "antiphon-session";
const LOG_LINES = 500;

/** What the page knows: one server at a time. */
const page = { session: null, tool: null, other: false, call: null, asks: null, listening: null, logged: 0, ended: null };
const timeline = new Timeline(byId("timeline"), byId("run-sum"));

function complain(error) {
  const notice = byId("notice");
  notice.textContent = error ? error.message ?? String(error) : "";
  notice.hidden = !error;
}

/** Does something that may be refused, and says so. */
async function attempt(action) {
  complain(null);
  try {
    return await action();
  } catch (error) {
    complain(error);
    return null;
  }
}

// Choosing a server

async function door() {
  const known = await attempt(() => ask("GET", "/api/servers"));
  byId("bench").hidden = true;
  byId("leave").hidden = true;
  byId("where").textContent = "";
  if (!known) return;
  byId("door").hidden = false;
  const choose = (server) => h("li", {}, h("button", { type: "button", click: () => connect(server.name, byId("revision").value) }, h("strong", {}, server.name), h("span", { class: "mono help" }, server.about)));
  replace(byId("known"), known.servers.length ? h("ul", { class: "known" }, known.servers.map(choose)) : null);
  byId("door-model").textContent = known.model
    ? known.hand ? "You reply to sampling requests yourself." : `Sampling requests go to ${known.model} after you approve them.`
    : "No model for sampling. To use one, start the studio with --model. To reply yourself, use --samples hand.";
  if (known.revision) byId("revision").value = known.revision;
  if (known.first) {
    byId("server").value = known.first;
    if (!page.greeted) {
      page.greeted = true;
      await connect(known.first, known.revision ?? "");
      return;
    }
  }
  byId("server").focus();
}

async function connect(server, revision) {
  const button = byId("connect").querySelector("button");
  button.disabled = true;
  button.textContent = "Connecting…";
  const session = await attempt(() => ask("POST", "/api/connect", { server, revision: revision || null }));
  button.disabled = false;
  button.textContent = "Connect";
  if (session) enter(session);
}

byId("connect").addEventListener("submit", (event) => {
  event.preventDefault();
  const server = byId("server").value.trim();
  if (server) connect(server, byId("revision").value);
  else complain("Enter the URL or the command of the server.");
});

byId("leave").addEventListener("click", async () => {
  await attempt(() => ask("DELETE", `/api/session/${page.session.session}`));
  leave();
});

function leave() {
  page.listening?.abort();
  sessionStorage.removeItem(KEPT);
  Object.assign(page, { session: null, tool: null, call: null });
  door();
}

// A server

function enter(session) {
  complain(null);
  sessionStorage.setItem(KEPT, session.session);
  Object.assign(page, { session, tool: null, other: false, call: null, logged: 0, ended: null });
  byId("door").hidden = true;
  byId("bench").hidden = false;
  byId("leave").hidden = false;
  const name = session.name ?? session.server;
  page.asks = new Asks(byId("asks"), name, session.model);
  replace(byId("where"), h("strong", {}, name), ` ${session.revision}`);
  document.title = `${name} · Antiphon studio`;
  replace(byId("about"), h("h2", {}, name, session.version ? h("span", { class: "help" }, ` ${session.version}`) : null),
    h("p", { class: "help" }, `MCP ${session.revision}, questions in ${session.legacy ? "the session" : "rounds"}`),
    h("p", { class: "help" }, session.byHand ? "You reply to sampling requests" : session.model ? `Model for sampling: ${session.model}` : "No model for sampling"),
    session.instructions ? h("details", {}, h("summary", {}, "Instructions"), h("p", { class: "prose" }, session.instructions)) : null);
  timeline.clear();
  for (const place of ["result", "log"]) replace(byId(place));
  byId("log-box").hidden = true;
  byId("progress").hidden = true;
  tools(session.tools);
  attempt(() => prompts(session.session, open));
  attempt(() => resources(session.session, open));
  restore(session);
  page.listening?.abort();
  page.listening = new AbortController();
  const { signal } = page.listening;
  traffic(session.session, signal);
  listen(session.session, signal, hear).then(() => {
    if (signal.aborted) return;
    leave();
    complain("The connection to this server is closed.");
  });
}

/** What is under way, as the program knows it. What the page has heard of since is newer. */
function restore({ running, asks }) {
  if (running && running !== page.ended && running !== page.call) {
    page.call = running;
    busy();
  }
  for (const it of asks) page.asks.add(it);
}

/** Events are lost. What matters now can be asked for. */
async function mend({ lost }) {
  const { call, asks } = page;
  const shown = asks.ids();
  const session = await attempt(() => ask("GET", `/api/session/${page.session.session}`));
  complain(`The studio dropped ${lost} events, because it keeps a limited number.`);
  // The person may have gone on to another server by now.
  if (!session || asks !== page.asks) return;
  for (const id of shown) if (!session.asks.some((it) => it.ask === id)) asks.settle({ ask: id, how: "lost" });
  if (call && call === page.call && call !== session.running) ended({ call }, h("p", { class: "help" }, "The call has ended. Its result is among the dropped events."));
  restore(session);
}

function tools(all) {
  byId("search").hidden = all.length < 9;
  const item = (tool) => h("li", {}, h("button", { type: "button", "data-tool": tool.name, click: () => choose(tool) }, h("strong", {}, tool.title ?? tool.name), tool.description ? h("span", { class: "help" }, tool.description.split("\n")[0]) : null));
  replace(byId("tools"), all.length ? all.map(item) : h("li", { class: "help" }, "This server has no tools."));
  const kept = all.find((tool) => tool.name === page.tool?.name) ?? all[0];
  // A prompt or a resource stays where it is.
  if (page.other) return;
  if (kept) choose(kept, { quiet: true });
  else replace(byId("tool"), h("p", { class: "help" }, "There is no tool to call."));
}

byId("search").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase();
  for (const item of byId("tools").children) item.hidden = !item.textContent.toLowerCase().includes(words);
});

// A tool

/** Marks what is shown, in the lists at the side. */
function mark(chosen) {
  for (const button of byId("side").querySelectorAll(".tools button")) {
    if (button === chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Shows a prompt or a resource in the place of a tool. */
function open(name, list, draw) {
  page.other = true;
  mark([...byId(list).querySelectorAll("button")].find((button) => button.dataset.name === name));
  const { element, focus } = draw();
  replace(byId("tool"), element);
  focus();
}

function choose(tool, { quiet = false } = {}) {
  page.tool = tool;
  page.other = false;
  mark([...byId("tools").querySelectorAll("button")].find((button) => button.dataset.tool === tool.name));
  const fields = form(tool.inputSchema);
  const support = page.session.legacy ? tool._meta?.["antiphon/execution"]?.taskSupport : null;
  const task = support === "optional" || support === "required" ? h("input", { type: "checkbox", id: fresh("task") }) : null;
  if (task) {
    task.checked = support === "required";
    task.disabled = support === "required";
  }
  const submit = (event) => {
    event.preventDefault();
    const given = fields.read();
    if (given && !page.call) call(tool, given, task?.checked ?? false);
  };
  const cancel = h("button", { type: "button", id: "cancel", click: () => page.call && attempt(() => ask("POST", `/api/call/${page.call}/cancel`)) }, "Cancel the call");
  replace(byId("tool"), h("h2", { id: "tool-title" }, tool.title ?? tool.name, tool.title && tool.title !== tool.name ? h("code", {}, tool.name) : null),
    tool.description ? h("p", { class: "prose about" }, tool.description) : null,
    h("form", { novalidate: true, submit, id: "call" }, fields.element,
      task ? h("div", { class: "tick" }, task, h("label", { for: task.id }, "Run as a task, which continues after a disconnect")) : null,
      h("p", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Call"), cancel)));
  busy();
  if (!quiet) fields.focus();
}

/** Shows whether a call is under way. */
function busy() {
  const under = page.call !== null;
  const send = document.querySelector("#call [type=submit]");
  if (send) {
    send.disabled = under;
    send.textContent = under ? "Running…" : "Call";
    byId("cancel").hidden = !under;
  }
  document.body.classList.toggle("under-way", under);
}

async function call(tool, given, task) {
  replace(byId("result"));
  page.call = "";
  busy();
  const begun = await attempt(() => ask("POST", `/api/session/${page.session.session}/call`, { tool: tool.name, arguments: given, task }));
  if (!begun) {
    page.call = null;
    busy();
  }
}

// What happens

function hear(event) {
  timeline.hear(event);
  HEARD[event.type]?.(event);
}

const HEARD = {
  call(event) {
    page.call = event.call;
    replace(byId("result"));
    byId("progress").hidden = true;
    busy();
    say(`${event.tool} is running.`);
  },
  ask(event) {
    page.asks.add(event);
    // What the server was doing, it does no more: now it waits for the person.
    if (!event.unseen) byId("progress").hidden = true;
  },
  settled: (event) => page.asks.settle(event),
  progress,
  log,
  result(event) {
    ended(event, result(event));
    say(event.result.isError ? "The tool returned an error." : "The result is available.");
  },
  failed: (event) => ended(event, failure(event)),
  cancelled(event) {
    ended(event, h("p", { class: "help" }, "The call was cancelled."));
    say("The call was cancelled.");
  },
  async "tools-changed"() {
    const session = await attempt(() => ask("GET", `/api/session/${page.session.session}`));
    if (session) tools(session.tools);
  },
  "prompts-changed": () => attempt(() => prompts(page.session.session, open)),
  "resources-changed": () => attempt(() => resources(page.session.session, open)),
  gap: mend,
};

function ended({ call }, card) {
  page.ended = call;
  page.call = null;
  page.asks.clear();
  byId("progress").hidden = true;
  replace(byId("result"), card);
  busy();
  card.scrollIntoView({ block: "nearest" });
}

function progress(event) {
  const box = byId("progress");
  const known = typeof event.total === "number" && event.total > 0;
  const bar = h("progress", { "aria-label": event.message ?? "Progress", max: known ? event.total : null, value: known ? event.progress : null });
  if (!known) bar.removeAttribute("value");
  replace(box, bar, h("p", { class: "help" }, [event.message, known ? `${event.progress} of ${event.total}` : String(event.progress)].filter(Boolean).join(" · ")));
  box.hidden = false;
}

function log(event) {
  const text = typeof event.data === "string" ? event.data : JSON.stringify(event.data);
  const list = byId("log");
  put(list, h("li", { class: event.level }, h("time", {}, new Date(event.at).toLocaleTimeString("en-GB")), h("b", {}, event.level), h("span", {}, event.logger ? `${event.logger}: ${text}` : text)));
  if (list.childElementCount > LOG_LINES) list.firstElementChild.remove();
  page.logged += 1;
  byId("log-count").textContent = String(page.logged);
  byId("log-box").hidden = false;
}

// Begins where the page was before it was loaded again.
const kept = sessionStorage.getItem(KEPT);
const before = kept ? await ask("GET", `/api/session/${kept}`).catch(() => null) : null;
if (before) enter(before);
else door();
