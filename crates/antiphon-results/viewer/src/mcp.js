// The way to the data through a host: by tools that only this page calls, and past the host where it allows that.

import { Problem, isAbort } from "./problem.js";
import { Rest } from "./rest.js";

/** A set's ID inside a text: in a sentence, in a URI or in JSON. */
const SET_ID = /\brs_[0-9A-Za-z]{16,64}\b/;

/**
 * The set that a tool's result names: `null` if it names none. Hosts leave out different parts of a result, so every
 * part that can name the set is read.
 */
export function setOf(result) {
  const blocks = Array.isArray(result?.content) ? result.content : [];
  const texts = blocks.filter((block) => block?.type === "text").map((block) => String(block.text));
  const meta = result?._meta?.["antiphon/result"];
  // Some hosts replace the text with the JSON of the structured content.
  const resource = (result?.structuredContent ?? texts.map(parsed).find((value) => value?.resource))?.resource;
  const links = blocks.filter((block) => block?.type === "resource_link").map((block) => String(block.uri));
  const named = String(resource?.uri ?? "").split(/[/:]/).pop();
  const id = meta?.id || named || [...links, ...texts].map((text) => SET_ID.exec(text)?.[0]).find(Boolean);
  return id ? { id, url: meta?.url ?? resource?.url ?? null } : null;
}

/** Whether the result says only that the tool has not finished. */
export function isUnfinished(result) {
  return Boolean(result?._meta?.["antiphon/task"] ?? result?.structuredContent?.task);
}

/** The set that the caller received last, for a host that does not deliver the result. */
export async function newestSet(host) {
  const result = await host.ask("tools/call", { name: "result_manifest", arguments: {} });
  const { id } = answered(result);
  return { id, url: null };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The structured content of a tool's result. Throws the problem that the tool reports. */
function answered(result) {
  if (!result.isError) return result.structuredContent ?? {};
  const error = result.structuredContent?.error;
  const said = typeof error === "object" && error ? error : { code: result.structuredContent?.code, ...result.structuredContent };
  const text = said.message ?? result.content?.find((part) => part.type === "text")?.text;
  throw new Problem(said.code ?? "TOOL", text ? `The server says: ${text}` : "The server could not do that.", said.retry_after ?? result.structuredContent?.retry_after);
}

/** The way to one set. @implements {import("./rest.js").Transport} */
export class Mcp {
  /** The way past the host, or that there is none, once somebody has looked for it. */
  #way = null;

  /**
   * @param {import("./host.js").Host} host
   * @param {{id: string, url: string|null}} set
   */
  constructor(host, set) {
    this.host = host;
    this.set = set;
  }

  manifest(signal) {
    return this.#call("result_manifest", {}, signal);
  }

  rows(ask, signal) {
    return this.#directly((rest) => rest.rows(ask, signal), () => this.#call("result_page", ask, signal));
  }

  stats(signal) {
    return this.#directly((rest) => rest.stats(signal), () => this.#call("result_stats", {}, signal));
  }

  aggregate(ask, signal) {
    return this.#directly((rest) => rest.aggregate(ask, signal), () => this.#call("result_aggregate", ask, signal));
  }

  async exportLink(format, view) {
    const { url } = await this.#call("result_link", {});
    return Rest.from(url).exportAddress(format, view);
  }

  async #directly(direct, through) {
    const way = (this.#way ??= this.#find());
    const rest = await way;
    if (!rest) return through();
    try {
      return await direct(rest);
    } catch (error) {
      const ended = [401, 403, 404].includes(error?.status);
      if (isAbort(error) || (!ended && error?.code !== "NETWORK")) throw error;
      // A link lives shorter than its set, so the next call asks for another. Whom the network or the host does not let
      // through at all goes by tools from now on.
      if (this.#way === way) this.#way = ended ? null : Promise.resolve(null);
      return through();
    }
  }

  /** The way past the host, if it has granted our domain and a link can be had. */
  async #find() {
    if (!this.set.url || !grants(this.host.capabilities.sandbox?.csp?.connectDomains, this.set.url)) return null;
    try {
      const { url } = await this.#call("result_link", {});
      return Rest.from(url);
    } catch {
      return null;
    }
  }

  async #call(name, ask, signal) {
    return answered(await this.host.ask("tools/call", { name, arguments: { id: this.set.id, ...ask } }, signal));
  }
}

/** Whether one of the domains is that of the address; `https://*.example.com` stands for all below it. */
export function grants(domains, address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return false;
  }
  return (domains ?? []).some((domain) => {
    if (domain === url.origin || domain === url.host) return true;
    const [scheme, rest] = domain.includes("://") ? domain.split("://") : [url.protocol.slice(0, -1), domain];
    return rest.startsWith("*.") && `${scheme}:` === url.protocol && url.host.endsWith(rest.slice(1));
  });
}
