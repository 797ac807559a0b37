// The host that shows this page inside a conversation: JSON-RPC over messages between windows, as MCP Apps have it.

import { Problem } from "./problem.js";

const VERSION = "2026-01-26";

/** A connection to the host. */
export class Host {
  #asked = new Map();
  #next = 1;
  #heard = new Map();

  /** @param {Window} parent */
  constructor(parent) {
    this.parent = parent;
    this.capabilities = {};
    this.context = {};
    addEventListener("message", (event) => {
      if (event.source === parent && event.data?.jsonrpc === "2.0") this.#take(event.data);
    });
  }

  /** Says who we are, and hears what the host can do. */
  async begin() {
    const hello = await this.ask("ui/initialize", {
      appInfo: { name: "antiphon-viewer", title: "Result viewer", version: "1.0.0" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: VERSION,
    });
    this.capabilities = hello.hostCapabilities ?? {};
    this.context = hello.hostContext ?? {};
    this.tell("ui/notifications/initialized", {});
  }

  /** Hears a notification, or answers a request. */
  on(method, handler) {
    this.#heard.set(method, handler);
  }

  tell(method, params) {
    this.parent.postMessage({ jsonrpc: "2.0", method, params }, "*");
  }

  /** @returns {Promise<any>} */
  ask(method, params, signal) {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.#asked.delete(id);
        this.tell("notifications/cancelled", { requestId: id, reason: "no longer needed" });
        reject(signal.reason);
      };
      signal?.addEventListener("abort", giveUp, { once: true });
      const settle = (message) => {
        signal?.removeEventListener("abort", giveUp);
        if (message.error) reject(new Problem("HOST", `The host refused: ${message.error.message ?? "no reason given"}.`));
        else resolve(message.result ?? {});
      };
      this.#asked.set(id, settle);
      this.parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
    });
  }

  #take(message) {
    if (message.method === undefined) {
      this.#asked.get(message.id)?.(message);
      this.#asked.delete(message.id);
      return;
    }
    const handler = this.#heard.get(message.method);
    const result = handler?.(message.params ?? {});
    if (message.id === undefined) return;
    const known = handler || message.method === "ping";
    const answer = known ? { result: result ?? {} } : { error: { code: -32_601, message: "this view does not know the method" } };
    this.parent.postMessage({ jsonrpc: "2.0", id: message.id, ...answer }, "*");
  }
}
