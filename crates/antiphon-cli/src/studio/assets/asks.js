// Questions to the person, each as a card.

import { ask as send } from "./api.js";
import { components } from "./components.js";
import { fresh, h, put, replace, say } from "./dom.js";
import { form } from "./form.js";
import * as samples from "./sample.js";

/** The cards of a session. */
export class Asks {
  constructor(place, server, model) {
    Object.assign(this, { place, server, model, open: new Map(), settled: new Set(), resting: null });
    replace(place);
  }

  /** Puts a question on the table. */
  add(event) {
    // It may be told of twice: as what is open, and as an event.
    if (event.unseen || this.settled.has(event.ask)) return;
    if (this.open.has(event.ask)) {
      if (this.resting?.key === event.key) this.clear();
      return;
    }
    const answer = (action, content, more = {}) => this.#answer(event.ask, { action, content, ...more });
    const card = (event.key && components.get(event.key)?.(event, answer)) || this.#card(event, answer);
    const title = fresh("ask");
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const element = h("article", { class: `card ask ${event.kind}`, tabindex: -1, "aria-labelledby": title, "data-ask": event.ask },
      h("header", {}, h("h2", { id: title, class: "small" }, this.#title(event)), event.key ? h("code", { class: "keyed" }, event.key) : null), card.element, error);
    // A board that was answered makes room for the next one where it stood.
    if (this.resting && this.resting.key === event.key) {
      this.resting.element.replaceWith(element);
      this.resting = null;
    } else put(this.place, element);
    this.open.set(event.ask, { event, card, element, error });
    say(`${this.#title(event)}. ${event.message ?? ""}`);
    // Who is answering something else is not interrupted.
    const answering = [...this.open.values()].some((it) => it.element !== element && it.element.contains(document.activeElement));
    if (!answering) focus(this.open.get(event.ask));
    element.scrollIntoView({ block: "nearest" });
  }

  /** Which questions are on the table. */
  ids() {
    return [...this.open.keys()];
  }

  /** A question was answered, or is no more. */
  settle(event) {
    this.settled.add(event.ask);
    const it = this.open.get(event.ask);
    if (!it) return;
    this.open.delete(event.ask);
    const hadFocus = it.element.contains(document.activeElement);
    if (it.card.rest && event.how === "accept") {
      it.card.rest();
      it.element.querySelector("header h2").textContent = this.server;
      this.resting?.element.remove();
      this.resting = { key: it.event.key, element: it.element };
    } else it.element.remove();
    const next = [...this.open.values()][0];
    if (hadFocus && next) focus(next);
    else if (hadFocus) this.place.focus({ preventScroll: true });
    if (event.how === "withdrawn") say("The question was withdrawn.");
  }

  /** Takes away the board that was answered: the call has ended, or the next one is there. */
  clear() {
    this.resting?.element.remove();
    this.resting = null;
  }

  async #answer(id, body) {
    const it = this.open.get(id);
    if (!it || it.sending) return;
    it.sending = true;
    it.element.setAttribute("aria-busy", "true");
    try {
      await send("POST", `/api/ask/${id}`, body);
    } catch (error) {
      it.error.textContent = error.message;
      it.error.hidden = false;
    }
    it.sending = false;
    it.element.removeAttribute("aria-busy");
  }

  #title({ kind, byHand }) {
    switch (byHand ? "hand" : kind) {
      case "hand":
        return `${this.server} asks a model. You reply`;
      case "page":
        return `${this.server} asks you to open a web page`;
      case "sample":
        return `${this.server} asks your model`;
      case "reply":
        return "Your model has replied";
      default:
        return `${this.server} asks you`;
    }
  }

  #card(event, answer) {
    switch (event.kind) {
      case "page":
        return page(event, answer);
      case "sample":
        return event.byHand ? byHand(event, answer) : this.#sample(event, answer);
      case "reply":
        return reply(event, answer);
      default:
        return asked(event, answer);
    }
  }

  #sample(event, answer) {
    const review = h("input", { type: "checkbox", id: fresh("review") });
    const approve = (all) => () => answer("accept", undefined, { all, review: review.checked });
    return {
      element: h("div", {},
        h("p", {}, "If you approve, the request goes to ", h("strong", {}, this.model ?? "your model"), ". It asks for ", samples.subject(event.request), "."),
        samples.request(event.request),
        h("div", { class: "tick" }, review, h("label", { for: review.id }, "Show me the reply before the server gets it")),
        h("p", { class: "buttons" },
          h("button", { type: "button", class: "primary", click: approve(false) }, "Approve"),
          event.inCall ? h("button", { type: "button", click: approve(true) }, "Approve all of this call") : null,
          h("button", { type: "button", class: "quiet", click: () => answer("decline") }, "Decline"))),
    };
  }
}

/** Into the card: to where it is answered, or to its top if it should be read first. */
const focus = ({ card, element }) => (card.focus ? card.focus() : element.focus());

/** A sampling request that the user answers in place of a model: with text, the fields of a schema, or a tool call. */
function byHand({ request }, answer) {
  const tools = request.toolChoice?.mode === "none" ? [] : request.tools ?? [];
  const schema = tools.find((tool) => tool.name === samples.SCHEMA);
  const replies = schema ? [["", "Data", data(schema)]] : tools.map((tool) => [tool.name, `Call ${tool.name}`, data(tool)]);
  if (!schema && (tools.length === 0 || request.toolChoice?.mode !== "required")) replies.push(["", "Text", text()]);
  const place = h("div", {});
  const select = h("select", { id: fresh("kind") }, replies.map(([, label], index) => h("option", { value: String(index) }, label)));
  const chosen = () => replies[Number(select.value)][2];
  const draw = () => replace(place, chosen().element);
  select.addEventListener("change", draw);
  draw();
  const submit = (it) => {
    it.preventDefault();
    const content = chosen().read();
    if (content) answer("accept", content);
  };
  return {
    focus: () => chosen().focus(),
    element: h("div", {}, samples.request(request),
      h("form", { novalidate: true, submit, class: "by-hand" },
        replies.length > 1 ? h("div", { class: "field" }, h("label", { for: select.id }, "Reply with"), select) : null,
        place,
        h("p", { class: "buttons" },
          h("button", { type: "submit", class: "primary" }, "Reply"),
          h("button", { type: "button", class: "quiet", click: () => answer("decline") }, "Decline")))),
  };
}

/** The input of a tool, as a part of a reply. */
function data(tool) {
  const fields = form(tool.inputSchema);
  return { ...fields, read() {
    const input = fields.read();
    return input && { tool: tool.name, input };
  } };
}

function text() {
  const input = h("textarea", { id: fresh("reply"), rows: 4 });
  const element = h("div", { class: "field" }, h("label", { for: input.id }, "Reply"), input);
  return { element, focus: () => input.focus(), read: () => ({ text: input.value }) };
}

/** A form, drawn from its schema. */
function asked(event, answer) {
  const fields = form(event.schema);
  const submit = (it) => {
    it.preventDefault();
    const content = fields.read();
    if (content) answer("accept", content);
  };
  const element = h("form", { novalidate: true, submit },
    h("p", { class: "question" }, event.message),
    event.context ? h("details", { class: "context", open: true }, h("summary", {}, "Context"), h("pre", {}, typeof event.context === "string" ? event.context : JSON.stringify(event.context, null, 2))) : null,
    fields.element,
    h("p", { class: "buttons" },
      h("button", { type: "submit", class: "primary" }, "Send"),
      h("button", { type: "button", click: () => answer("decline") }, "Decline"),
      h("button", { type: "button", class: "quiet", click: () => answer("cancel") }, "Cancel")));
  return { element, focus: fields.focus };
}

/** A page to visit. It is opened by the person's own click, and by nothing else. */
function page(event, answer) {
  let address = null;
  try {
    address = new URL(event.url);
  } catch {
    // Shown below as what it is.
  }
  const web = address && ["https:", "http:"].includes(address.protocol);
  const link = web ? h("a", { class: "button primary", href: address.href, target: "_blank", rel: "noopener noreferrer", click: () => answer("accept") }, `Open ${address.host}`) : null;
  return {
    element: h("div", {},
      h("p", { class: "question" }, event.message),
      web ? h("p", { class: "host" }, address.host) : h("p", { class: "error" }, "The address is not a web page, so the studio does not open it."),
      h("p", { class: "url mono" }, event.url),
      web && address.protocol === "http:" ? h("p", { class: "help" }, "The connection to this web page is not encrypted.") : null,
      h("p", { class: "buttons" }, link, h("button", { type: "button", click: () => answer("decline") }, "Decline"))),
  };
}

/** What the model said, before the server hears it. */
function reply(event, answer) {
  return {
    element: h("div", {}, h("div", { class: "sampled" }, samples.content(event.reply.content)),
      h("p", { class: "buttons" },
        h("button", { type: "button", class: "primary", click: () => answer("accept") }, "Send it to the server"),
        h("button", { type: "button", class: "quiet", click: () => answer("decline") }, "Discard"))),
  };
}
