// The page: puts its parts together and begins.

import { Problem, isAbort, pause, whenReady } from "./problem.js";
import { announce, el, icon, iconButton, setText } from "./dom.js";
import { bytes, count, rowsText, span } from "./format.js";
import { Rest, placeOf } from "./rest.js";
import { Host } from "./host.js";
import { Mcp, isUnfinished, newestSet, setOf } from "./mcp.js";
import { followHost, onTheme, setTheme, theme } from "./theme.js";
import { State } from "./state.js";
import { Pages } from "./pages.js";
import { Side, closePopover, openPopover } from "./popover.js";
import { chips, filterText, openFilter } from "./filter.js";
import { cellDetail } from "./cells.js";
import { copySelection, copyText } from "./select.js";
import { Grid } from "./grid.js";
import { columnPanel } from "./columns.js";
import { Chart } from "./chart.js";
import { Exporter, openExport } from "./export.js";
import { TOLD, toldText } from "./told.js";

const KEYS = [
  ["Arrows, Page Up, Page Down", "move"],
  ["Home, End", "first or last column"],
  ["Ctrl + Home, Ctrl + End", "first or last row"],
  ["Shift + arrows", "select"],
  ["Ctrl + C", "copy the selected cells"],
  ["Enter", "show the full cell; on a column header: sort"],
  ["Shift + Enter", "on a column header: add it to the sort columns"],
  ["Alt + Down", "filter the column"],
  ["Alt + Left, Alt + Right", "on a column header: change its width"],
  ["Ctrl + G", "go to a row"],
];

/** The page for one set. */
class App {
  constructor(transport, host) {
    Object.assign(this, { transport, host });
    this.state = new State();
    this.pages = new Pages(transport, this.state, () => this.grid.arrived());
    this.side = new Side((focused) => (this.openColumns?.setAttribute("aria-expanded", "false"), focused && this.grid.node.focus()));
    this.grid = new Grid(this.state, this.pages, {
      detail: (row, column) => this.#detail(row, column),
      filter: (column, opener) => openFilter(this.state, column, opener),
      selected: () => this.#tellModel(),
    });
    this.chart = new Chart(transport, this.state, this.pages);
    this.exporter = new Exporter(transport, this.state, host);
    this.opened = new Set();
    this.#build();
    this.state.on("view", () => (this.pages.reset(), this.grid.draw(), this.#bar(), this.#tellModel()));
    this.state.on("columns", () => (this.pages.reset(), this.grid.draw()));
    this.state.on("manifest total waiting problem", () => this.#bar());
    setInterval(() => this.#countdown(), 1000);
    onTheme(() => this.#themeButton());
  }

  #build() {
    this.title = el("h1", { text: "Result" });
    this.facts = el("p", { class: "facts" });
    this.expiry = el("span", { class: "expiry" });
    this.themeButton = iconButton("moon", "Dark", () => setTheme(theme() === "dark" ? "light" : "dark"));
    this.openColumns = el("button", { type: "button", "aria-label": "Columns", "aria-expanded": "false", onclick: () => this.#columns() }, icon("columns"), el("span", { text: "Columns" }));
    const exports = el("button", { type: "button", class: "main", "aria-label": "Export", "aria-haspopup": "dialog", onclick: () => openExport(exports, this.state, this.exporter) }, icon("download"), el("span", { text: "Export" }));
    const help = iconButton("keys", "Keys", () => openPopover(help, "Keys", [el("h2", { text: "Keys" }), el("dl", { class: "keys" }, ...KEYS.flatMap(([key, what]) => [el("dt", { text: key }), el("dd", { text: what })])), el("div", { class: "buttons" }, el("button", { type: "button", text: "Close", onclick: () => closePopover() }))]), { "aria-haspopup": "dialog" });
    this.tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "View" });
    for (const [name, label] of [["table", "Table"], ["chart", "Chart"]]) this.tabs.append(el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, onclick: () => this.#tab(name) }, icon(name), label));
    this.tabs.addEventListener("keydown", (event) => ["ArrowLeft", "ArrowRight"].includes(event.key) && (this.#tab(this.shown === "table" ? "chart" : "table"), this.tabs.querySelector("[aria-selected=true]").focus()));
    this.full = iconButton("expand", "Full screen", () => this.host?.ask("ui/request-display-mode", { mode: "fullscreen" }).catch(() => {}));
    this.full.hidden = !this.host?.context.availableDisplayModes?.includes("fullscreen");
    const bar = el("header", { class: "bar" }, el("div", { class: "names" }, this.title, this.facts), this.tabs, el("div", { class: "tools" }, this.openColumns, exports, this.full, help, this.themeButton));
    this.notices = el("div", { class: "notices" });
    this.chips = el("div", {});
    this.progress = el("div", { class: "progress", hidden: true }, el("i"), el("span", {}));
    this.goto = el("input", { class: "goto", type: "text", inputmode: "numeric", size: "10", "aria-label": "Go to row", placeholder: "Go to row" });
    this.goto.addEventListener("keydown", (event) => event.key === "Enter" && this.#goTo());
    this.where = el("span", { class: "where" });
    const foot = el("footer", { class: "foot" }, this.where, this.goto);
    this.tablePanel = el("div", { class: "panel", role: "tabpanel", id: "panel-table", "aria-labelledby": "tab-table" }, this.chips, this.grid.node, this.grid.none, this.progress, foot);
    this.chart.node.hidden = true;
    this.chartPanel = el("div", { class: "panel", role: "tabpanel", id: "panel-chart", "aria-labelledby": "tab-chart", hidden: true }, this.chart.node);
    const app = document.getElementById("app");
    app.replaceChildren(bar, this.notices, this.exporter.node, el("div", { class: "work" }, this.tablePanel, this.chartPanel, this.side.node));
    this.grid.node.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("keydown", (event) => (event.ctrlKey || event.metaKey) && event.key === "g" && this.shown === "table" && (event.preventDefault(), this.goto.focus()));
    this.#tab("table");
    this.#themeButton();
  }

  #themeButton() {
    const next = theme() === "dark" ? "Light" : "Dark";
    this.themeButton.replaceChildren(icon(next === "Dark" ? "moon" : "sun"));
    this.themeButton.setAttribute("aria-label", `${next} theme`);
    this.themeButton.title = `${next} theme`;
  }

  #tab(name) {
    this.shown = name;
    for (const tab of this.tabs.children) {
      const on = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
    }
    this.tablePanel.hidden = name !== "table";
    this.chartPanel.hidden = this.chart.node.hidden = name !== "chart";
    if (name === "chart") this.chart.show();
    else this.grid.draw();
  }

  #key(event) {
    const copies = (event.ctrlKey || event.metaKey) && event.key === "c";
    if (copies) copySelection(this.grid.selection, this.pages, this.state.shown).then((text) => this.#say(text)).catch(() => this.#say("The cells could not be copied."));
    if (copies || this.grid.key(event)) event.preventDefault();
    if (event.key === "Escape") this.side.close();
  }

  #say(text) {
    setText(this.where, text);
    announce(text);
  }

  #goTo() {
    const row = Number(this.goto.value.replace(/[^\d]/g, ""));
    if (row < 1) return;
    this.goto.value = "";
    this.grid.goTo(row - 1);
    this.grid.node.focus();
  }

  #columns() {
    if (this.side.kind === "columns") return this.side.close();
    this.side.show("columns", "Columns", ...columnPanel(this.state, this.opened));
    this.openColumns.setAttribute("aria-expanded", "true");
  }

  async #detail(index, column) {
    const row = this.pages.row(index);
    if (!row) return;
    const nodes = cellDetail(this.state, index, row, column, (text) => copyText(text));
    this.side.show("cell", column.name, ...nodes.filter(Boolean));
    this.openColumns.setAttribute("aria-expanded", "false");
    this.side.node.querySelector(".inside").focus();
  }

  #bar() {
    const { state } = this;
    const { manifest } = state;
    if (!manifest) return;
    const name = manifest.name || manifest.id || "Result";
    setText(this.title, name);
    document.title = name;
    const whole = rowsText(manifest.rows, manifest.exact !== false);
    const shown = state.filter.length ? `${state.total === null ? "…" : count(state.total)} of ${whole}` : whole;
    const facts = [shown, `${count(state.columns.length)} columns`, manifest.bytes ? bytes(manifest.bytes) : null];
    this.facts.replaceChildren(...facts.filter(Boolean).map((text) => el("span", { text })), this.expiry);
    this.#countdown();
    this.#notices(manifest);
    const fresh = chips(state);
    const held = this.chips.contains(document.activeElement);
    this.chips.replaceWith(fresh);
    this.chips = fresh;
    if (held) (fresh.querySelector("button") ?? this.grid.node).focus();
    const waits = state.waiting;
    this.progress.hidden = !waits;
    const doing = state.sort.length ? "Sorting" : state.filter.length ? "Filtering" : "Preparing";
    if (waits) setText(this.progress.lastChild, `${doing}… ${waits.seconds} s`);
    if (!waits) setText(this.where, state.total === 0 ? "No rows" : state.sort.length ? `Sorted by ${state.sort.map((by) => `${by.field} ${by.order === "asc" ? "↑" : "↓"}`).join(", ")}` : "Original order");
  }

  #notices(manifest) {
    const notices = [];
    const add = (kind, text, ...more) => notices.push(el("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, icon("warn"), el("span", { text }), ...more));
    const limits = { row_limit: "The row limit was reached", byte_limit: "The size limit was reached" };
    if (manifest.status === "writing") add("info", `Rows are still being written${manifest.rows ? `: ${count(manifest.rows)} so far` : ""}. The table appears when all rows are stored.`);
    if (manifest.status === "failed") add("bad", `Writing the rows failed${manifest.failure ? `: ${manifest.failure}` : ""}. Run the tool again.`);
    if (manifest.truncated) add("bad", `${limits[manifest.truncated] ?? "A limit was reached"}: these are the first ${count(manifest.rows)} rows, and there were more.`);
    if (this.state.problem) add("bad", this.state.problem.message, el("button", { type: "button", text: "Try again", onclick: () => (this.state.setProblem(null), this.grid.draw()) }));
    const text = notices.map((it) => it.textContent).join();
    if (text === this.noticed) return;
    this.noticed = text;
    this.notices.replaceChildren(...notices);
  }

  #countdown() {
    const until = this.state.manifest?.expires_at;
    const left = until ? (Date.parse(until) - Date.now()) / 1000 : null;
    const text = left === null ? "" : left <= 0 ? "expired" : `expires in ${span(left)}`;
    setText(this.expiry, text);
    this.expiry.classList.toggle("soon", left !== null && left < 300);
  }

  /** Tells the model what the person looks at, when they have come to rest. */
  #tellModel() {
    if (!this.host?.capabilities.updateModelContext) return;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.#tell().catch(() => {}), 400);
  }

  async #tell() {
    const { state, grid } = this;
    const { rows, cols } = grid.selection.box;
    const picked = grid.selection.many ? await this.pages.slice(rows[0], Math.min(TOLD, rows[1] - rows[0] + 1)) : [];
    const names = state.shown.slice(cols[0], cols[1] + 1).map((column) => column.name);
    const chosen = picked.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])));
    const lines = [];
    if (state.filter.length) lines.push(`Filtered by: ${state.filter.map((it) => filterText(it, state.column(it.column))).join("; ")}.`);
    if (state.sort.length) lines.push(`Sorted by: ${state.sort.map((by) => `${by.field} ${by.order}`).join(", ")}.`);
    const text = toldText(this.transport.set?.id ?? "", lines, chosen.length ? { first: rows[0] + 1, last: rows[1] + 1, rows: chosen } : null);
    await this.host.ask("ui/update-model-context", { content: [{ type: "text", text }] });
  }

  /** Begins: what the set is, then its rows, then what is in its columns. */
  async begin() {
    for (;;) {
      const manifest = await whenReady(() => this.transport.manifest());
      this.state.setManifest(manifest);
      if (manifest.status !== "writing") break;
      await pause(1000);
    }
    if (this.state.manifest.status === "failed") return;
    this.grid.draw();
    if (!this.state.can("stats")) return;
    document.documentElement.classList.add("stats");
    try {
      const { columns } = await whenReady(() => this.transport.stats());
      this.state.stats = new Map(columns.map((stats) => [stats.name, stats]));
      this.state.emit("stats");
    } catch (error) {
      // The table is as good without.
      if (!isAbort(error)) console.info("no statistics:", error.message);
    }
  }
}

function sorry(error) {
  const text = error instanceof Problem ? error.message : "Something went wrong. Reload the page.";
  document.getElementById("app").replaceChildren(el("div", { class: "sorry", role: "alert" }, icon("warn"), el("p", { text })));
}

async function openPage(place) {
  if (place.link) history.replaceState({ link: place.link }, "", location.pathname);
  const app = new App(new Rest(place.base, place.link), null);
  await app.begin();
}

/** How long a host has to deliver anything about the call, in milliseconds. */
const DELIVERY = 1500;

/** The set in a result that was delivered. */
function delivered(result) {
  const set = setOf(result);
  if (set) return set;
  if (isUnfinished(result)) throw new Problem("UNFINISHED", "The tool has not finished. The rows are shown with its result.");
  throw new Problem("NO_RESULT", "This tool's result has no rows to show.");
}

/** The set that the caller received last. */
function undelivered(host) {
  return newestSet(host).catch((error) => {
    console.info("no newest set:", error.message);
    throw new Problem("NO_RESULT", "The host did not deliver the result. Run the tool again, or open the result by its link.");
  });
}

async function openInHost() {
  const host = new Host(window.parent);
  const result = new Promise((resolve) => host.on("ui/notifications/tool-result", resolve));
  // A host that tells of the call delivers its result, too, however long the tool takes.
  let told = false;
  for (const method of ["ui/notifications/tool-input", "ui/notifications/tool-input-partial"]) host.on(method, () => void (told = true));
  host.on("ui/notifications/host-context-changed", (context) => followHost(Object.assign(host.context, context)));
  host.on("ui/resource-teardown", () => ({}));
  host.on("ui/notifications/tool-cancelled", () => sorry(new Problem("CANCELLED", "The tool was cancelled: there is no result to show.")));
  await host.begin();
  document.documentElement.classList.add("hosted");
  followHost(host.context);
  const size = () => host.tell("ui/notifications/size-changed", { width: document.documentElement.scrollWidth, height: document.body.offsetHeight });
  new ResizeObserver(size).observe(document.body);
  let shown = null;
  const show = async (set) => {
    if (set.id === shown) return;
    shown = set.id;
    await new App(new Mcp(host, set), host).begin();
  };
  const first = await Promise.race([result, pause(DELIVERY).then(() => (told ? result : null))]);
  if (first) return show(delivered(first));
  // A result that comes late is the one that this page was opened for, so it replaces the newest.
  result.then((late) => show(delivered(late))).catch(sorry);
  const newest = await undelivered(host);
  if (!shown) await show(newest);
}

const opened = placeOf(location);
const begun = opened ? openPage(opened) : window.parent !== window ? openInHost() : Promise.reject(new Problem("NOWHERE", "This page shows a result when it is opened by a link to one."));
begun.catch(sorry);
