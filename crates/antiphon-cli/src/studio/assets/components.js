// Forms with a way of their own, by the key their server gives them.

import { board } from "./board.js";

/**
 * A component is `(ask, answer) => {element, focus, rest}` or null, if it cannot show this form after all.
 * `answer(action, content)` sends; `rest` is called when it was answered and stays on the page to be looked at.
 */
export const components = new Map([["pickMove", board]]);
