// A scripted model. It knows nothing of the server: it calls a tool and follows the text of the results.

import assert from "node:assert/strict";

/** The most calls that the model makes for one request of its user. */
const MAX_CALLS = 20;

/** The text as the model reads it. A model that reads JSON reads its member `about` first. */
function words(seen) {
  try {
    return JSON.parse(seen).about ?? seen;
  } catch {
    return seen;
  }
}

/** The calls that a text asks for, in order, or `null` if the text is the result. */
export function plan(seen) {
  const text = words(seen);
  if (!/^(NOT FINISHED|STILL WORKING|FINISHED): /.test(text)) return null;
  // Text between marks is data. The model does not follow it.
  const rules = text.replace(/<data-(\w+)>[^]*?<\/data-\1>/g, "");
  const calls = [...rules.matchAll(/\bcall `(\w+)` with (\{[^}]*\})/gi)];
  assert(calls.length, `the text names no tool to call next: ${text}`);
  return calls.map(([, name, input]) => ({ name, input: JSON.parse(input) }));
}

/**
 * Calls a tool and follows the text of each result, until one of them is not a waiting result.
 * @param {{name: string, input: object}} first the call that the user wants
 * @param {(call: {name: string, input: object}) => Promise<object>} call
 * @param {(result: object) => string} read the part of a result that the model sees
 * @param {(call: {name: string, input: object}, result: object) => Promise<boolean>} turn shows the app of a tool, if the
 *   tool has one, and ends the turn: the user answers, and then the model continues
 */
export async function converse({ first, call, read, turn }) {
  let result = await call(first);
  for (let calls = 1; calls < MAX_CALLS; calls++) {
    const next = plan(read(result));
    if (!next) return result;
    const [now, later] = next;
    result = await call(now);
    if (await turn(now, result)) {
      assert(later, "the text does not say how to continue after the form");
      result = await call(later);
    }
  }
  throw new Error(`no result after ${MAX_CALLS} calls; the model last read: ${read(result)}`);
}
