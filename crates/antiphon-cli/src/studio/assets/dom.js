// Builds elements. Text from servers goes in as text, never as markup: there is no `innerHTML` on this page.

/** Makes an element: `h("p", {class: "help"}, "text", child)`. Functions are listeners, `null` is left out. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same for SVG. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, ...children);
  return element;
}

/** Adds children; what is null is left out. */
export function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

export const byId = (id) => document.getElementById(id);

let last = 0;
/** An id that no other element has. */
export const fresh = (name) => `${name}-${(last += 1)}`;

/** Tells those who do not see the page. */
export function say(text) {
  const place = byId("say");
  place.textContent = "";
  // A change is announced, the same text again is not.
  requestAnimationFrame(() => (place.textContent = text));
}

/** A time that people can read. */
export function duration(ms) {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** A value as JSON that can be opened and closed. */
export function tree(value, name = null, depth = 0) {
  const label = name === null ? null : h("span", { class: "key" }, `${name}: `);
  if (value === null || typeof value !== "object") {
    return h("div", { class: "leaf" }, label, h("span", { class: `json ${kind(value)}` }, JSON.stringify(value)));
  }
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  const simple = list && value.every((it) => it === null || typeof it !== "object");
  if (entries.length === 0 || (simple && JSON.stringify(value).length < 60)) {
    return h("div", { class: "leaf" }, label, h("span", { class: "json" }, JSON.stringify(value)));
  }
  const about = list ? `[${entries.length}]` : `{${plural(entries.length, "member")}}`;
  const box = h("details", { class: "branch", open: depth < 1 }, h("summary", {}, label, h("span", { class: "help" }, about)));
  // Large values are only drawn when somebody looks.
  const draw = () => box.childElementCount === 1 && put(box, entries.map(([key, it]) => tree(it, key, depth + 1)));
  if (box.open) draw();
  box.addEventListener("toggle", draw);
  return box;
}

const kind = (value) => (value === null ? "null" : typeof value);
