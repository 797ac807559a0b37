// JSON without loss: whole numbers past 2^53 and decimals keep all their digits.

/** A number that JavaScript's own cannot hold, as it was written. */
export class Exact {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }

  toString() {
    return this.source;
  }

  valueOf() {
    return Number(this.source);
  }

  toJSON() {
    return typeof JSON.rawJSON === "function" ? JSON.rawJSON(this.source) : Number(this.source);
  }
}

/** Whether a number in this text may have more digits than JavaScript's own have. */
const LONG = /[\d.]{16}/;

/** Reads JSON. */
export function parseJson(text) {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => exactly(value, context?.source));
}

function exactly(value, source) {
  if (typeof value !== "number" || source === undefined || source.length < 16) return value;
  return sameNumber(String(value), source) ? value : new Exact(source);
}

function sameNumber(written, source) {
  if (written === source) return true;
  // 1.10 and 1.1 are one number, and so are 1e21 and its long form: only lost digits matter.
  const plain = (text) => text.replace(/^-/, "").replace(/e.*$/i, "").replace(".", "").replace(/^0+|0+$/g, "");
  return plain(written) === plain(source);
}
