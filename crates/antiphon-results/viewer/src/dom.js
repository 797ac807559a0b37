// Elements, made without a line of markup: whatever is in the data stays text.

/**
 * Makes an element. `class`, `text`, `on…` and `data` are what they say; everything else is an attribute, and one that
 * is `null` or `false` is left out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node|string|null|undefined|false)} children
 */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

const SVG = "http://www.w3.org/2000/svg";

/** The same, for drawings. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name === "text") node.textContent = value;
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child || child === "") node.append(child);
  return node;
}

/** Sets an attribute, or takes it away; does nothing if it is so already. */
export function attr(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

/** Sets the text, if it is another. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const ICONS = {
  asc: "M8 13V3M4 7l4-4 4 4",
  desc: "M8 3v10M4 9l4 4 4-4",
  filter: "M2 3.5h12L9.5 8.8V13l-3-1.5V8.8z",
  close: "M4 4l8 8M12 4l-8 8",
  sun: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.5A5.5 5.5 0 016.5 3 5.5 5.5 0 1013 9.5z",
  columns: "M2 3h12v10H2zM6 3v10M10 3v10",
  download: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  expand: "M9.5 2.5h4v4M13.5 2.5l-5 5M6.5 13.5h-4v-4M2.5 13.5l5-5",
  keys: "M1.5 4h13v8h-13zM4 6.5h.1M7 6.5h.1M10 6.5h.1M4.5 9.5h7",
  table: "M2 3h12v10H2zM2 6.5h12M2 10h12M6.5 6.5V13",
  chart: "M2.5 2.5v11h11M5.5 11V8M8.5 11V5M11.5 11V6.5",
  warn: "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.5v.1",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
};

/** A small drawing. Those who do not see it miss nothing: what it stands for is said beside it. */
export function icon(name) {
  const path = svg("path", { d: ICONS[name] });
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

/** A button with a drawing, and a name for those who do not see it. */
export function iconButton(name, label, onclick, props = {}) {
  return el("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick, ...props }, icon(name));
}

/** Says something to those who listen rather than look. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live.textContent === text) live.textContent = "";
  live.textContent = text;
}

/** Runs at most once a frame. */
export function eachFrame(run) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      run();
    });
  };
}
