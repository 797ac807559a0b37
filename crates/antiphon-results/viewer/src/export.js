// Rows as files: what is seen, or all of it.

import { announce, el, icon } from "./dom.js";
import { bytes, rowsText } from "./format.js";
import { isAbort, whenReady } from "./problem.js";
import { closePopover, openPopover } from "./popover.js";

const FORMATS = {
  csv: ["CSV", "for spreadsheets", "text/csv"],
  xlsx: ["Excel", "a workbook", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"],
  ndjson: ["NDJSON", "one JSON object per line", "application/x-ndjson"],
  parquet: ["Parquet", "exact, compact, for analysis", "application/vnd.apache.parquet"],
  arrow: ["Arrow", "exact, fast, for programs", "application/vnd.apache.arrow.stream"],
};

/** Opens the choice of what to export, and as what. */
export function openExport(opener, state, exporter) {
  const changed = !state.isWhole || state.hidden.size > 0;
  const scope = (value, text, checked) => el("label", { class: "check" }, el("input", { type: "radio", name: "scope", value, checked }), el("span", { text }));
  const seen = `Current view${state.total === null ? "" : ` (${rowsText(state.total)})`}`;
  const scopes = el("fieldset", {}, el("legend", { text: "Rows" }), scope("view", seen, changed), scope("all", `All rows (${rowsText(state.manifest.rows, state.manifest.exact !== false)})`, !changed));
  scopes.hidden = !changed;
  const start = (format) => {
    const all = scopes.querySelector("input:checked")?.value === "all";
    closePopover();
    exporter.begin(format, all ? {} : state.ask());
  };
  const known = (state.manifest.formats ?? []).filter((format) => FORMATS[format]);
  const order = Object.keys(FORMATS).filter((format) => known.includes(format));
  const buttons = order.map((format) => el("button", { type: "button", class: "format", "data-format": format, onclick: () => start(format) }, el("b", { text: FORMATS[format][0] }), el("small", { text: FORMATS[format][1] })));
  openPopover(opener, "Export", [el("h2", { text: "Export" }), scopes, el("div", { class: "formats" }, ...buttons)]);
}

/** Writes exports, one at a time, and shows how far they are. */
export class Exporter {
  #abort = null;

  /**
   * @param {import("./rest.js").Rest|import("./mcp.js").Mcp} transport
   * @param {import("./state.js").State} state
   * @param {import("./host.js").Host|null} host
   */
  constructor(transport, state, host) {
    Object.assign(this, { transport, state, host });
    this.text = el("span", {});
    this.bar = el("progress", { "aria-label": "Export" });
    this.stop = el("button", { type: "button", text: "Cancel", onclick: () => (this.#abort ? this.#abort.abort() : this.#hide()) });
    this.node = el("div", { class: "exporting", hidden: true }, icon("download"), this.text, this.bar, this.stop);
  }

  async begin(format, view) {
    this.#abort?.abort();
    const abort = (this.#abort = new AbortController());
    const [name, , type] = FORMATS[format];
    this.#show(`Preparing ${name}…`, true);
    const file = `${(this.state.manifest.name || "result").replace(/[^\p{L}\p{N}._ -]+/gu, "_").slice(0, 80)}.${format}`;
    try {
      if (this.host) await this.#throughHost(format, view, file, type);
      // The browser may be sent on to where the rows are stored; this page may not go there.
      else if (this.#isElsewhere(format, view)) await this.#byBrowser(format, view, file, abort.signal);
      else if (typeof window.showSaveFilePicker === "function") await this.#toDisk(format, view, file, type, abort.signal);
      else await this.#byBrowser(format, view, file, abort.signal);
    } catch (error) {
      if (isAbort(error)) this.#end("The export was cancelled.");
      else this.#end(`The export failed. ${error.message}`);
    } finally {
      if (this.#abort === abort) this.#abort = null;
    }
  }

  /** Whether the file is the stored one, and is got from where it is stored. */
  #isElsewhere(format, { sort = [], filter = [], columns = [] }) {
    const whole = !sort.length && !filter.length && !columns.length;
    return format === "parquet" && whole && (this.state.manifest.retrieval ?? "proxy") !== "proxy";
  }

  async #throughHost(format, view, file, type) {
    const address = await this.transport.exportLink(format, view);
    if (this.host.capabilities.downloadFile) {
      const result = await this.host.ask("ui/download-file", { contents: [{ type: "resource_link", uri: address, name: file, mimeType: type }] });
      this.#end(result.isError ? "The host did not download the file." : `${file} was sent to the host.`);
    } else if (this.host.capabilities.openLinks) {
      const result = await this.host.ask("ui/open-link", { url: address });
      this.#end(result.isError ? "The host did not open the download." : "The download was opened.");
    } else throw new Error("This host cannot download files.");
  }

  /** Straight to the disk, however large it is. */
  async #toDisk(format, view, file, type, signal) {
    const handle = await window.showSaveFilePicker({ suggestedName: file, types: [{ accept: { [type]: [`.${format}`] } }] });
    const address = await this.transport.exportLink(format, view);
    const length = await this.#wait(address, signal);
    const response = await this.transport.file(address, signal);
    const writable = await handle.createWritable();
    let written = 0;
    const counted = new TransformStream({
      transform: (chunk, controller) => {
        written += chunk.byteLength;
        this.#progress(written, length);
        controller.enqueue(chunk);
      },
    });
    await response.body.pipeThrough(counted).pipeTo(writable, { signal });
    this.#end(`${file} was saved: ${bytes(written)}.`);
  }

  /** As the browser downloads everything else. */
  async #byBrowser(format, view, file, signal) {
    const address = await this.transport.exportLink(format, view);
    // What is not ready yet would be saved as an error message.
    const length = await this.#wait(address, signal);
    const anchor = el("a", { href: address, download: file, hidden: true });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    this.#end(`The browser downloads ${file}${length ? `, ${bytes(length)}` : ""}.`);
  }

  #wait(address, signal) {
    const onWait = (seconds) => (this.text.textContent = `Preparing… ${seconds} s`);
    return whenReady(() => this.transport.size(address, signal), { signal, onWait });
  }

  #progress(written, length) {
    this.text.textContent = length ? `${bytes(written)} of ${bytes(length)}` : `${bytes(written)} so far`;
    if (length) (this.bar.max = length), (this.bar.value = written);
    else this.bar.removeAttribute("value");
  }

  #show(text, busy) {
    this.node.hidden = false;
    this.text.textContent = text;
    this.bar.hidden = !busy;
    this.bar.removeAttribute("value");
    this.stop.textContent = busy ? "Cancel" : "Close";
    announce(text);
  }

  #end(text) {
    this.#show(text, false);
    this.node.dataset.done = text;
  }

  #hide() {
    this.node.hidden = true;
  }
}
