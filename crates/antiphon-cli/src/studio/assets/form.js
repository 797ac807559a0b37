// A form made from a JSON Schema. What it cannot draw, it takes as JSON.

import { fresh, h, put } from "./dom.js";

/** What is wrong with a field, in words for whoever fills it in. */
class Wrong extends Error {}

/** Objects within objects deeper than this are written as JSON: a schema may lead back to itself. */
const DEEPEST = 4;

/** `{element, read, focus}` of an object's schema. `read` returns the value, or null and says what is wrong. */
export function form(schema) {
  const given = schema && typeof schema === "object" ? schema : {};
  let drawn;
  try {
    const root = plain(given, given);
    drawn = isWhole(root, given) ? whole(root) : separate(members(root, given, 0));
  } catch (error) {
    console.debug("the schema cannot be drawn", error);
    drawn = whole({});
  }
  const element = h("div", { class: "fields" }, drawn.elements.length ? drawn.elements : h("p", { class: "help" }, "There is nothing to fill in."));
  return {
    element,
    focus: () => (element.querySelector("input, select, textarea, button") ?? element.closest("form")?.querySelector("[type=submit]"))?.focus(),
    read() {
      const value = drawn.read();
      const wrong = element.querySelector("[aria-invalid=true]");
      if (wrong) wrong.focus();
      return wrong ? null : value;
    },
  };
}

const separate = (fields) => ({ elements: fields.map((it) => it.element), read: () => readMembers(fields) });

/** Whether there is something to give that separate fields would not ask for. */
function isWhole(schema, root) {
  const known = Object.keys(schema.properties ?? {});
  const branches = ["oneOf", "anyOf", "allOf"].flatMap((word) => (Array.isArray(schema[word]) ? schema[word] : []));
  if (branches.some((it) => Object.keys(plain(it, root).properties ?? {}).some((name) => !known.includes(name)))) return true;
  if (known.length) return false;
  // Without a word about other members all are allowed; with an empty list of its own, the tool hardly means that.
  return Boolean(schema.patternProperties) || Boolean(schema.additionalProperties ?? !schema.properties);
}

/** An object as JSON. */
function whole(schema) {
  const required = Boolean(schema.required?.length);
  const field = json("json", { ...schema, title: "All fields as JSON" }, required, (value) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Wrong('Enter an object, for example {"name": "value"}.');
  });
  return { elements: [field.element], read: () => field.read() ?? {} };
}

/** The fields of an object: what is required comes first. */
function members(schema, root, depth) {
  const required = new Set(schema.required ?? []);
  const all = Object.entries(schema.properties ?? {});
  all.sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)));
  return all.map(([name, it]) => ({ name, ...field(name, it, required.has(name), root, depth) }));
}

function readMembers(fields) {
  const value = {};
  for (const field of fields) {
    const it = field.read();
    if (it !== undefined) value[field.name] = it;
  }
  return value;
}

/** Follows references, and takes `null` out of what may be null: who leaves a field empty says nothing. */
function plain(schema, root, depth = 0) {
  if (typeof schema !== "object" || schema === null || depth > 8) return {};
  if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
    let target = root;
    for (const step of schema.$ref.slice(2).split("/")) target = target?.[step.replaceAll("~1", "/").replaceAll("~0", "~")];
    const { $ref, ...rest } = schema;
    return both(plain(target, root, depth + 1), rest);
  }
  for (const word of ["anyOf", "oneOf", "allOf"]) {
    const rest = schema[word]?.filter?.((it) => it?.type !== "null");
    if (rest?.length === 1) {
      const { [word]: _, ...others } = schema;
      return both(plain(rest[0], root, depth + 1), others);
    }
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    if (types.length === 1) return { ...schema, type: types[0] };
  }
  return schema;
}

/** Two schemas that hold together; where both say something, the second is nearer. */
function both(one, other) {
  const schema = { ...one, ...other };
  if (one.properties && other.properties) schema.properties = { ...one.properties, ...other.properties };
  if (one.required && other.required) schema.required = [...one.required, ...other.required];
  return schema;
}

/** `[{value, title}]`, if only certain values will do. */
function choices(schema) {
  const titled = (schema.oneOf ?? schema.anyOf)?.map((it) => ("const" in (it ?? {}) ? { value: it.const, title: it.title ?? String(it.const) } : null));
  if (titled?.length && titled.every(Boolean)) return titled;
  if (!Array.isArray(schema.enum)) return null;
  return schema.enum.filter((it) => it !== null).map((value, i) => ({ value, title: schema.enumNames?.[i] ?? String(value) }));
}

function field(name, given, required, root, depth) {
  const schema = plain(given, root);
  const options = choices(schema);
  if (options) return chosen(name, schema, required, options);
  switch (schema.type) {
    case "string":
      return text(name, schema, required);
    case "integer":
    case "number":
      return number(name, schema, required);
    case "boolean":
      return required || typeof schema.default === "boolean" ? tick(name, schema) : chosen(name, schema, false, [{ value: true, title: "Yes" }, { value: false, title: "No" }]);
    case "array":
      return array(name, schema, required, root);
    case "object":
      if (Object.keys(schema.properties ?? {}).length && depth < DEEPEST) return nested(name, schema, required, root, depth + 1);
  }
  return json(name, schema, required);
}

/** A labelled control with its help and its error. `check` returns the value, `undefined`, or throws what is wrong. */
function labelled(name, schema, required, control, check, { before = false } = {}) {
  const id = fresh("field");
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  const help = schema.description ? h("p", { class: "help", id: `${id}-help` }, schema.description) : null;
  control.id = id;
  control.setAttribute("aria-describedby", [help && `${id}-help`, `${id}-error`].filter(Boolean).join(" "));
  if (required) control.setAttribute("aria-required", "true");
  const label = h("label", { for: id }, schema.title ?? name, required ? null : h("span", { class: "optional" }, " optional"));
  const element = h("div", { class: before ? "field tick" : "field" }, before ? [control, label] : [label, control], help, error);
  const read = () => {
    let value;
    let wrong = "";
    try {
      value = check();
    } catch (it) {
      if (!(it instanceof Wrong)) throw it;
      wrong = it.message;
    }
    error.textContent = wrong;
    error.hidden = !wrong;
    control.setAttribute("aria-invalid", wrong ? "true" : "false");
    return value;
  };
  // Who has been told what is wrong is told at once when it is right.
  control.addEventListener("input", () => control.getAttribute("aria-invalid") === "true" && read());
  return { element, read };
}

const FORMATS = {
  email: ["email", /^[^\s@]+@[^\s@]+$/, "Enter an email address."],
  uri: ["url", /^[a-z][a-z0-9+.-]*:\S+$/i, "Enter a URL, for example https://example.com."],
  date: ["date", /^\d{4}-\d\d-\d\d$/, "Enter a date, for example 2026-07-28."],
  "date-time": ["text", /^\d{4}-\d\d-\d\dT\d\d:\d\d.*(Z|[+-]\d\d:\d\d)$/i, "Enter a time, for example 2026-07-28T12:00:00Z."],
};

function text(name, schema, required) {
  const [type, pattern, wrong] = schema.writeOnly || schema.format === "password" ? ["password"] : FORMATS[schema.format] ?? ["text"];
  const long = type === "text" && (schema.maxLength ?? 0) > 200;
  const properties = { value: schema.default ?? "", autocomplete: "off", name };
  const control = long ? h("textarea", { rows: 4, ...properties }) : h("input", { type, ...properties });
  return labelled(name, schema, required, control, () => {
    const value = control.value;
    if (value === "") {
      if (required && schema.minLength !== 0) throw new Wrong("Fill this in.");
      return required ? "" : undefined;
    }
    const length = [...value].length;
    if (length < (schema.minLength ?? 0)) throw new Wrong(`At least ${schema.minLength} characters.`);
    if (length > (schema.maxLength ?? Infinity)) throw new Wrong(`At most ${schema.maxLength} characters.`);
    if (pattern && !pattern.test(value)) throw new Wrong(wrong);
    if (schema.pattern && !matches(schema.pattern, value)) throw new Wrong(`Enter a value that matches the pattern ${schema.pattern}`);
    return value;
  });
}

function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // The server knows its pattern better.
  }
}

function number(name, schema, required) {
  const whole = schema.type === "integer";
  const control = h("input", { type: "text", inputmode: whole ? "numeric" : "decimal", value: schema.default ?? "", autocomplete: "off", name });
  return labelled(name, schema, required, control, () => checkNumber(control.value, schema, required));
}

function checkNumber(given, schema, required) {
  const text = given.trim();
  if (text === "") {
    if (required) throw new Wrong("Fill this in.");
    return undefined;
  }
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Wrong("Enter a number.");
  if (schema.type === "integer" && !Number.isInteger(value)) throw new Wrong("Enter a whole number.");
  if (schema.type === "integer" && !Number.isSafeInteger(value)) throw new Wrong("This number is too large to be exact.");
  if (value < (schema.minimum ?? -Infinity)) throw new Wrong(`The minimum is ${schema.minimum}.`);
  if (value > (schema.maximum ?? Infinity)) throw new Wrong(`The maximum is ${schema.maximum}.`);
  return value;
}

function tick(name, schema) {
  const control = h("input", { type: "checkbox", name });
  control.checked = schema.default === true;
  return labelled(name, schema, true, control, () => control.checked, { before: true });
}

function chosen(name, schema, required, options) {
  const control = h("select", { name });
  if (!required || !("default" in schema)) put(control, h("option", { value: "" }, required ? "Choose…" : "Not set"));
  options.forEach((option, i) => {
    const element = h("option", { value: String(i) }, option.title);
    element.selected = "default" in schema && option.value === schema.default;
    put(control, element);
  });
  return labelled(name, schema, required, control, () => {
    if (control.value === "" && required) throw new Wrong("Choose one.");
    return control.value === "" ? undefined : options[Number(control.value)].value;
  });
}

function array(name, schema, required, root) {
  const items = plain(schema.items, root);
  const options = choices(items);
  if (options) return several(name, schema, required, options);
  if (["string", "number", "integer"].includes(items.type)) return list(name, schema, required, items);
  return json(name, schema, required);
}

/** A group of controls that is one field. */
function group(name, schema, required, content, check) {
  const id = fresh("group");
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  const element = h("fieldset", { "aria-describedby": `${id}-error` },
    h("legend", {}, schema.title ?? name, required ? null : h("span", { class: "optional" }, " optional")),
    schema.description ? h("p", { class: "help" }, schema.description) : null, content, error);
  const read = () => {
    let value;
    error.textContent = "";
    try {
      value = check();
    } catch (it) {
      if (!(it instanceof Wrong)) throw it;
      error.textContent = it.message;
    }
    error.hidden = !error.textContent;
    // The first control stands for the group, and which one is first may have changed.
    for (const it of element.querySelectorAll("[aria-invalid]")) it.removeAttribute("aria-invalid");
    if (error.textContent) element.querySelector("input, button")?.setAttribute("aria-invalid", "true");
    return value;
  };
  return { element, read };
}

function count(values, schema, required) {
  if (values.length === 0 && !required) return undefined;
  const least = schema.minItems ?? 0;
  if (values.length < least) throw new Wrong(`At least ${least}.`);
  if (values.length > (schema.maxItems ?? Infinity)) throw new Wrong(`At most ${schema.maxItems}.`);
  return values;
}

function several(name, schema, required, options) {
  const ticks = options.map((option) => {
    const id = fresh("choice");
    const control = h("input", { type: "checkbox", id, name });
    control.checked = (schema.default ?? []).includes(option.value);
    return { control, option, element: h("div", { class: "tick" }, control, h("label", { for: id }, option.title)) };
  });
  const read = () => count(ticks.filter((it) => it.control.checked).map((it) => it.option.value), schema, required);
  return group(name, schema, required, ticks.map((it) => it.element), read);
}

function list(name, schema, required, items) {
  const rows = h("div", { class: "rows" });
  const what = schema.title ?? name;
  const add = (value = "") => {
    const control = h("input", { value, "aria-label": `${what}, one of several`, name, autocomplete: "off" });
    const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove this ${what}`, click: () => row.remove() }, "Remove");
    const row = h("div", { class: "row" }, control, remove);
    put(rows, row);
    return control;
  };
  (schema.default ?? []).forEach((value) => add(value));
  const more = h("button", { type: "button", class: "quiet", click: () => add().focus() }, `Add to ${what}`);
  return group(name, schema, required, [rows, more], () => {
    const given = [...rows.querySelectorAll("input")].map((it) => it.value).filter((it) => it !== "");
    return count(items.type === "string" ? given : given.map((it) => checkNumber(it, items, true)), schema, required);
  });
}

function nested(name, schema, required, root, depth) {
  const fields = members(schema, root, depth);
  const element = h("fieldset", {}, h("legend", {}, schema.title ?? name, required ? null : h("span", { class: "optional" }, " optional")),
    schema.description ? h("p", { class: "help" }, schema.description) : null, fields.map((it) => it.element));
  const isEmpty = () => [...element.querySelectorAll("input, select, textarea")].every((it) => (it.type === "checkbox" ? !it.checked : it.value === ""));
  const read = () => {
    if (required || !isEmpty()) return readMembers(fields);
    // What was wrong with it before is so no more.
    for (const it of element.querySelectorAll("[aria-invalid=true]")) it.setAttribute("aria-invalid", "false");
    for (const it of element.querySelectorAll(".error")) it.hidden = true;
    return undefined;
  };
  return { element, read };
}

function json(name, schema, required, check = () => {}) {
  const value = "default" in schema ? JSON.stringify(schema.default, null, 2) : "";
  const control = h("textarea", { rows: 4, class: "mono", spellcheck: "false", name, value, placeholder: "JSON" });
  return labelled(name, schema, required, control, () => {
    if (control.value.trim() === "") {
      if (required) throw new Wrong("Enter JSON.");
      return undefined;
    }
    let value;
    try {
      value = JSON.parse(control.value, exact);
    } catch (error) {
      throw error instanceof Wrong ? error : new Wrong(`Invalid JSON: ${error.message}`);
    }
    check(value);
    return value;
  });
}

/** Refuses whole numbers that would be sent as others. */
function exact(name, value, context) {
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? String(value))) {
    throw new Wrong("A number is too large to be exact.");
  }
  return value;
}
