// A run, as it went between the client and the server: time goes down.

import { duration, h, plural, put, replace } from "./dom.js";
import { content, gist, request, subject } from "./sample.js";

/** More ticks than this are a number. */
const TICKS = 48;

export class Timeline {
  constructor(place, sum) {
    Object.assign(this, { place, sum });
    this.clear();
  }

  clear() {
    Object.assign(this, {
      rows: new Map(), began: null, ended: null, open: 0, last: null, run: null, answer: null, task: null, status: null, events: 0, entries: 0,
      seen: { rounds: 0, replayed: 0, fresh: 0, replicas: new Set(), legs: 0 },
    });
    this.list = h("ol", { class: "timeline" });
    this.list.addEventListener("keydown", (event) => this.#move(event));
    replace(this.place, h("p", { class: "help empty" }, "Call a tool to see its run here: the client on one line, the server on the other."));
    this.sum.textContent = "";
  }

  hear(event) {
    const write = WRITERS[event.type];
    if (!write) return;
    if (event.type === "call" || (event.type === "gap" && this.began === null)) {
      this.clear();
      this.began = event.at;
      replace(this.place, this.#heads(), this.list, legend());
    }
    if (this.began === null) return;
    write(this, event);
    this.#summary(event.at);
  }

  /** Adds a row. `lane` is where it happens, `arrow` where it leads, `busy` who is at work after it. */
  add(event, { lane, mark, kind, arrow = null, busy = null, title, note = "", body = [], more = null }) {
    const detail = h("div", { class: "more", hidden: true });
    const what = h("span", { class: "what" }, title);
    const noted = h("span", { class: "note" }, note);
    const head = h("button", { type: "button", class: "head", "aria-expanded": "false" }, h("span", { class: "unseen" }, `${lane}: `), what, noted);
    const lanes = h("div", { class: "lanes", "aria-hidden": "true" }, h("i", { class: "busy" }), h("i", { class: "arrow" }), h("i", { class: "mark" }, mark));
    const row = h("li", { class: `event ${lane} ${kind}` },
      h("time", {}, `${((event.at - this.began) / 1000).toFixed(1)}`), lanes, h("div", { class: "item" }, head, body, detail));
    if (arrow) row.classList.add(`to-${arrow}`);
    if (busy) row.classList.add(`busy-${busy}`);
    head.addEventListener("click", () => {
      // Drawn anew each time: there may be more to tell by now.
      if (detail.hidden) replace(detail, more ? more() : facts([["Time", clock(event.at)], ["Description", noted.textContent]]));
      detail.hidden = !detail.hidden;
      head.setAttribute("aria-expanded", String(!detail.hidden));
    });
    // Who looks at the end goes on looking at the end.
    const box = this.place.closest(".run");
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    put(this.list, row);
    if (follows) box.scrollTop = box.scrollHeight;
    this.last = { row, what, noted, kind, at: event.at };
    return this.last;
  }

  #heads() {
    return h("div", { class: "lane-heads", "aria-hidden": "true" }, h("span", {}, "s"), h("span", { class: "lanes" }, h("b", {}, "client"), h("b", {}, "server")), h("span", {}));
  }

  #summary(at) {
    const { rounds, replayed, fresh, replicas, legs } = this.seen;
    const parts = [];
    if (rounds > 1) parts.push(plural(rounds, "round"));
    if (legs > rounds) parts.push(plural(legs, "leg"));
    if (replicas.size > 1) parts.push(`${replicas.size} replicas`);
    if (fresh) parts.push(plural(fresh, "entry", "entries"));
    if (replayed) parts.push(plural(replayed, "replay"));
    parts.push(duration((this.ended ?? at) - this.began));
    this.sum.textContent = parts.join(" · ");
  }

  /** Arrow keys go from row to row. */
  #move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.matches(".head")) return;
    const heads = [...this.list.querySelectorAll(".head")];
    const next = heads[heads.indexOf(event.target) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}

const WRITERS = {
  call(line, event) {
    const given = event.arguments?.length ? `with ${event.arguments.join(", ")}` : "";
    line.add(event, { lane: "client", mark: "", kind: "call", arrow: "server", busy: "server", title: `Call ${event.tool}`, note: given });
  },

  round(line, event) {
    const { trace, asks = [], number } = event;
    line.seen.rounds += 1;
    const waits = asks.map(name).join(", ");
    const turn = { lane: "server", arrow: asks.length ? "client" : null, busy: asks.length ? "client" : null };
    if (!trace) {
      const row = line.add(event, { ...turn, mark: "", kind: "round", title: `Round ${number}`, note: waits ? `asks for ${waits}` : "the result" });
      line.answer = asks.length ? null : row;
      return;
    }
    count(line.seen, trace);
    line.run = trace.run;
    const ended = ENDED[trace.ended] ?? ENDED.returned;
    line.add(event, {
      ...turn, mark: ended.mark, kind: `leg ${trace.ended}`, title: `Leg ${trace.leg ?? number}`,
      note: [waits ? `${ended.word} for ${waits}` : ended.word, trace.replica, duration(trace.tookMs ?? 0)].filter(Boolean).join(" · "),
      body: strip(trace.entries ?? []),
      more: () => [facts([["Run", trace.run], ["Round", trace.round ?? number], ["Replica", trace.replica], ["Started", clock(trace.startedAt)], ["Duration", duration(trace.tookMs ?? 0)], ["Asks for", waits]]), entries(trace.entries ?? [])],
    });
  },

  ask(line, event) {
    if (event.kind === "reply") return;
    line.open += 1;
    const sample = event.kind === "sample";
    const title = sample ? "Model" : event.kind === "page" ? "Web page" : "User";
    const note = sample ? `asked for ${subject(event.request)}` : event.key ?? event.message;
    const state = { began: event.at, reply: null, error: null };
    const row = line.add(event, {
      lane: "client", mark: "", kind: sample ? "sample" : "ask", busy: "client", title, note,
      more: () => (sample
        ? [request(event.request), state.reply ? h("div", { class: "reply" }, h("p", { class: "small" }, "Reply"), content(state.reply.content)) : null, state.error ? h("p", { class: "error" }, state.error) : null]
        : facts([["Question key", event.key], ["Message", event.message], ["Host", host(event.url)], ["Fields", Object.keys(event.schema?.properties ?? {}).join(", ")]])),
    });
    line.rows.set(event.ask, Object.assign(row, { state, first: note, sample }));
  },

  settled(line, event) {
    const row = line.rows.get(event.ask);
    if (!row) return;
    const after = duration(event.at - row.state.began);
    if (row.sample && event.how === "accept") return;
    line.open -= 1;
    row.noted.textContent = `${row.first} · ${{ accept: "answered", decline: "declined", cancel: "cancelled", withdrawn: "withdrawn" }[event.how] ?? event.how} after ${after}`;
    row.row.classList.add(event.how === "accept" ? "answered" : "unanswered", "to-server");
    if (line.open === 0) row.row.classList.replace("busy-client", "busy-server");
  },

  sampled(line, event) {
    const row = line.rows.get(event.ask);
    if (!row) return;
    line.open -= 1;
    Object.assign(row.state, { reply: event.reply ?? null, error: event.error ?? null });
    row.noted.textContent = event.error ? `${row.first} · failed: ${event.error}` : `${duration(event.tookMs)} · ${gist(event.reply)}`;
    row.row.classList.add(event.error ? "unanswered" : "answered", "to-server");
    if (line.open === 0) row.row.classList.replace("busy-client", "busy-server");
  },

  progress(line, event) {
    const note = [event.total ? `${event.progress} of ${event.total}` : String(event.progress), event.message].filter(Boolean).join(" · ");
    // One row tells of all the progress between two other things.
    if (line.last?.kind === "progress") {
      line.last.noted.textContent = note;
      return;
    }
    line.add(event, { lane: "server", mark: "", kind: "progress", title: "Progress", note });
  },

  task(line, event) {
    const { trace, status, task } = event;
    const events = trace?.events ?? [];
    const all = trace?.entries ?? [];
    const first = line.task !== task;
    // A call that becomes a task on the way takes its journal along: that much was told in rounds.
    if (first && line.answer) line.answer.noted.textContent = "continues as a task";
    if (first) Object.assign(line, { events: 0, entries: trace && trace.run === line.run ? line.seen.fresh : 0 });
    const news = events.slice(line.events);
    const made = all.slice(line.entries);
    if (!first && news.length === 0 && made.length === 0 && line.status === status) return;
    Object.assign(line, { task, status, events: events.length, entries: all.length });
    line.seen.fresh += made.length;
    line.seen.legs = Math.max(line.seen.legs, trace?.legs ?? 0);
    for (const it of events) {
      const replica = /\bat (\S+?),/.exec(it.detail ?? "")?.[1];
      if (replica) line.seen.replicas.add(replica);
    }
    const words = { working: "working", input_required: "suspended, waits for input", completed: "completed", failed: "failed", cancelled: "cancelled" };
    const marks = { input_required: ENDED.suspended.mark, completed: ENDED.returned.mark, failed: ENDED.failed.mark, cancelled: ENDED.failed.mark };
    line.add(event, {
      lane: "server", mark: marks[status] ?? "", kind: `task ${status}`, busy: status === "working" ? "server" : status === "input_required" ? "client" : null,
      arrow: status === "input_required" ? "client" : null, title: first ? "Becomes a task" : "Task", note: words[status] ?? status,
      body: [made.length ? strip(made) : null, news.length ? h("ul", { class: "told" }, news.map((it) => h("li", {}, h("b", {}, it.what), it.detail ? ` ${it.detail}` : ""))) : null],
      more: () => [facts([["Task", task], ["Run", trace?.run], ["Legs", trace?.legs], ["Description", event.message]]),
        events.length ? h("table", { class: "entries" }, h("caption", {}, "Events"), h("tbody", {}, events.map((it) => h("tr", {}, h("td", {}, clock(Date.parse(it.at))), h("td", {}, it.what), h("td", {}, it.detail ?? ""))))) : null,
        all.length ? entries(all) : null],
    });
  },

  result(line, event) {
    line.ended = event.at;
    const failed = event.result?.isError;
    line.add(event, { lane: "server", mark: failed ? ENDED.failed.mark : ENDED.returned.mark, kind: failed ? "end failed" : "end", arrow: "client", title: failed ? "Error" : "Result", note: event.result?.structuredContent?.outcome?.toString?.().replaceAll("_", " ") ?? "" });
  },

  failed(line, event) {
    line.ended = event.at;
    line.add(event, { lane: "server", mark: ENDED.failed.mark, kind: "end failed", arrow: "client", title: "Failed", note: event.error });
  },

  cancelled(line, event) {
    line.ended = event.at;
    line.add(event, { lane: "client", mark: ENDED.failed.mark, kind: "end", arrow: "server", title: "Cancelled", note: "by you" });
  },

  gap(line, event) {
    line.add(event, { lane: "client", mark: "", kind: "note", title: "Dropped", note: `${plural(event.lost, "event")} before this one` });
  },

  reconnected(line, event) {
    line.add(event, { lane: "client", mark: "", kind: "note", title: "Reconnected", note: "the connection was lost" });
  },
};

const ENDED = {
  suspended: { mark: "‖", word: "suspended" },
  returned: { mark: "✓", word: "returned" },
  failed: { mark: "×", word: "failed" },
};

function count(seen, trace) {
  seen.legs += 1;
  if (trace.replica) seen.replicas.add(trace.replica);
  for (const entry of trace.entries ?? []) seen[entry.replayed ? "replayed" : "fresh"] += 1;
}

/** The author's name in a key. */
const name = (key) => key.split("/").pop().split(/[#~]/)[0];

function host(url) {
  try {
    return url ? new URL(url).host : null;
  } catch {
    return null;
  }
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const clock = (ms) => (Number.isFinite(ms) ? CLOCK.format(ms) : null);

/** A leg's journal in one line: what was replayed as ticks, what is new by name. */
function strip(all) {
  const replayed = all.filter((entry) => entry.replayed);
  const made = all.filter((entry) => !entry.replayed);
  if (all.length === 0) return null;
  return h("div", { class: "strip" },
    replayed.length ? h("span", { class: "replayed" }, h("span", { class: "ticks", "aria-hidden": "true" }, replayed.slice(0, TICKS).map(() => h("i", {}))), `${replayed.length} replayed`) : null,
    made.map((entry) => h("span", { class: "made" }, h("b", {}, entry.op), ` ${name(entry.key ?? "")}`)));
}

/** How an entry ended, and through which channel the user answered, unless the client showed the question itself. */
function outcome({ outcome: ended = "", via }) {
  return via && via !== "client" ? `${ended} (${via})` : ended;
}

function entries(all) {
  return h("table", { class: "entries" }, h("caption", {}, "Journal"),
    h("thead", {}, h("tr", {}, ["Key", "Kind", "Outcome", ""].map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, all.map((entry) => h("tr", { class: entry.replayed ? "again" : "new" }, h("td", {}, entry.key ?? ""), h("td", {}, entry.op), h("td", {}, outcome(entry)), h("td", {}, entry.replayed ? "replayed" : "new")))));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)]));
}

function legend() {
  const item = (sign, text) => h("li", {}, sign, text);
  return h("ul", { class: "legend", "aria-label": "Legend" },
    item(h("i", { class: "key busy-key" }), "working"),
    item(h("i", { class: "key tick-key" }), "replayed entry"),
    item(h("i", { class: "key made-key" }), "new entry"),
    item(h("span", { class: "key" }, ENDED.suspended.mark), "suspended"),
    item(h("span", { class: "key" }, ENDED.returned.mark), "returned"),
    item(h("span", { class: "key" }, ENDED.failed.mark), "failed"));
}
