// Forms from schemas, in the browser that draws them.

import assert from "node:assert/strict";

/** Name, schema, what is done to the form, what it reads as: null if it must be refused. */
const FORMS = [
  ["nothing filled in", { properties: { a: { type: "string" }, b: { type: "integer" } } }, {}, {}],
  ["required", { properties: { a: { type: "string" } }, required: ["a"] }, {}, null],
  ["defaults", { properties: { a: { type: "string", default: "x" }, n: { type: "number", default: 1.5 }, b: { type: "boolean", default: true } } }, {}, { a: "x", n: 1.5, b: true }],
  ["whole numbers", { properties: { n: { type: "integer" } } }, { n: "1.5" }, null],
  ["bounds", { properties: { n: { type: "integer", minimum: 0, maximum: 8 } } }, { n: "9" }, null],
  ["may be null", { properties: { n: { type: ["integer", "null"] }, s: { anyOf: [{ type: "string" }, { type: "null" }] } } }, { n: "4", s: "x" }, { n: 4, s: "x" }],
  ["formats", { properties: { mail: { type: "string", format: "email" } } }, { mail: "ada" }, null],
  ["patterns", { properties: { code: { type: "string", pattern: "^[A-Z]{2}$" } } }, { code: "de" }, null],
  ["enums", { properties: { size: { enum: ["S", "M"], enumNames: ["Small", "Medium"] } }, required: ["size"] }, { size: "1" }, { size: "M" }],
  ["references", { properties: { size: { $ref: "#/$defs/Size" } }, $defs: { Size: { oneOf: [{ const: "s", title: "Small" }, { const: "m" }] } } }, { size: "0" }, { size: "s" }],
  ["yes, no, not said", { properties: { sure: { type: "boolean" }, loud: { type: "boolean" } } }, { sure: "1" }, { sure: false }],
  ["nested", { properties: { who: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } } }, { name: "Ada" }, { who: { name: "Ada" } }],
  ["nested and left out", { properties: { who: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } } }, {}, {}],
  ["anything else is JSON", { properties: { any: { type: "array", items: { type: "object" } } } }, { any: '[{"a": 1}]' }, { any: [{ a: 1 }] }],
  ["a boolean that may be null and is left alone", { properties: { sure: { anyOf: [{ type: "boolean" }, { type: "null" }], default: null } } }, {}, {}],
  ["numbers that would be rounded", { properties: { n: { type: "integer" } } }, { n: "9007199254740993" }, null],
  ["numbers that would be rounded, in JSON", { properties: { any: {} } }, { any: "[9007199254740993]" }, null],
  ["large numbers that are exact", { properties: { n: { type: "integer" }, any: {} } }, { n: "9007199254740991", any: "[1e300]" }, { n: 9007199254740991, any: [1e300] }],
  ["a reference as the whole", { $ref: "#/$defs/Who", $defs: { Who: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } } }, { name: "Ada" }, { name: "Ada" }],
  ["all of two", { type: "object", properties: { a: { type: "string" } }, required: ["a"], allOf: [{ properties: { b: { type: "string" } }, required: ["b"] }] }, { a: "x" }, null],
  ["one of several as the whole", { type: "object", oneOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }, { json: '{"a": 1}' }, { a: 1 }],
  ["members of any name", { type: "object", additionalProperties: { type: "string" } }, { json: '{"a": "x"}' }, { a: "x" }],
  ["any object", { type: "object" }, {}, {}],
  ["the whole is an object", { type: "object" }, { json: "[1]" }, null],
  ["what cannot be drawn", { properties: { tags: { type: "array", items: { type: "string" }, default: 5 } } }, { json: '{"tags": []}' }, { tags: [] }],
  ["what is no JSON", { properties: { any: {} } }, { any: "{" }, null],
];

export async function checkForms(page) {
  const read = await page.evaluate(async (forms) => {
    const { form } = await import("/form.js");
    return forms.map(([, schema, filled]) => {
      const made = form(schema);
      document.body.append(made.element);
      for (const [name, value] of Object.entries(filled)) made.element.querySelector(`[name="${name}"]`).value = value;
      const read = made.read();
      const refused = read === null && made.element.querySelector(".error:not([hidden])").textContent.length > 0;
      made.element.remove();
      return read === null && !refused ? "refused without a word" : read;
    });
  }, FORMS);
  FORMS.forEach(([name, , , expected], i) => assert.deepEqual(read[i], expected, `form: ${name}`));
  const lists = await page.evaluate(async () => {
    const { form } = await import("/form.js");
    const made = form({ properties: { tags: { type: "array", items: { type: "string" }, minItems: 1 }, sizes: { type: "array", items: { enum: ["S", "M"] } } }, required: ["tags"] });
    document.body.append(made.element);
    const refused = made.read();
    [...made.element.querySelectorAll("button")].find((it) => it.textContent.startsWith("Add")).click();
    made.element.querySelector(".rows input").value = "red";
    made.element.querySelectorAll("[type=checkbox]")[1].checked = true;
    const read = made.read();
    made.element.remove();
    return { refused, read };
  });
  assert.deepEqual(lists, { refused: null, read: { tags: ["red"], sizes: ["M"] } });
  await checkOdd(page);
}

/** Schemas without end and without fields, and fields that become right by being left out. */
async function checkOdd(page) {
  const odd = await page.evaluate(async () => {
    const { form } = await import("/form.js");
    const draw = (schema) => {
      const made = form(schema);
      const submit = document.createElement("button");
      submit.type = "submit";
      const around = document.createElement("form");
      around.append(made.element, submit);
      document.body.append(around);
      return { ...made, around, submit };
    };
    const node = { type: "object", properties: { name: { type: "string" }, next: { $ref: "#/$defs/Node" } } };
    const endless = draw({ ...node, $defs: { Node: node } });
    const deepest = [...endless.element.querySelectorAll("textarea")];
    deepest[0].value = '{"name": "deep"}';
    const deep = JSON.stringify(endless.read());
    const nothing = ["{}", '{"additionalProperties": false}'].map((more) => draw({ type: "object", properties: {}, ...JSON.parse(more) }));
    nothing[1].focus();
    const focused = document.activeElement === nothing[1].submit;
    const who = draw({ properties: { who: { type: "object", properties: { name: { type: "string" }, age: { type: "integer" } }, required: ["name"] } } });
    const age = who.element.querySelector("[name=age]");
    age.value = "4";
    const half = who.read();
    age.value = "";
    const left = who.read();
    const complaints = who.element.querySelectorAll(".error:not([hidden])").length;
    for (const it of [endless, ...nothing, who]) it.around.remove();
    return { depth: deepest.length, deep, nothing: nothing.map((it) => it.element.textContent), focused, half, left, complaints };
  });
  assert.deepEqual(odd, {
    depth: 1, deep: '{"next":{"next":{"next":{"next":{"next":{"name":"deep"}}}}}}',
    nothing: ["There is nothing to fill in.", "There is nothing to fill in."], focused: true, half: null, left: {}, complaints: 0,
  });
}
