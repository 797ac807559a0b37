// The tic-tac-toe board: the form `pickMove`, and the end of a game.

import { fresh, h, svg } from "./dom.js";

const CELLS = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

const isBoard = (cells) => Array.isArray(cells) && cells.length === 9 && cells.every((it) => ["X", "O", ""].includes(it));

/** The person's move. */
export function board(ask, answer) {
  const { board: cells, you, model, lastMove, strategy } = ask.context ?? {};
  if (!isBoard(cells)) return null;
  const title = fresh("board");
  // The server's own words, if they say more than whose turn it is: that a cell was taken, for one.
  const usual = /^Your turn/.test(ask.message ?? "");
  const turn = h("p", { class: "turn" }, h("strong", {}, "Your turn"), usual ? ` You play ${you}, the model plays ${model}.` : ` ${ask.message}`);
  const drawn = grid(cells, { title, you, lastMove, pick });
  const stop = h("button", { type: "button", class: "quiet", click: () => answer("decline") }, "Give up");
  const element = h("div", { class: "game" },
    h("h3", { id: title, class: "unseen" }, "Tic-tac-toe"),
    drawn.element,
    h("div", { class: "beside" }, turn, plan(strategy, cells.includes(model)),
      h("p", { class: "help keys" }, "Arrow keys move, Enter picks."), stop));
  let picked = null;
  function pick(cell) {
    picked = cell;
    answer("accept", { cell });
  }
  return {
    element,
    focus: drawn.focus,
    rest() {
      if (picked !== null) drawn.place(picked, you);
      drawn.still();
      turn.replaceChildren(h("strong", { class: "thinking" }, "The model is thinking"), ` It plays ${model}.`);
      stop.remove();
      element.querySelector(".keys").remove();
    },
  };
}

function plan(strategy, moved) {
  if (!strategy) return h("p", { class: "help" }, moved ? "The model has not said why." : "The model has not moved yet.");
  const [name, ...rest] = String(strategy).split(": ");
  const known = { play_offensive: "It attacks", play_defensive: "It defends" }[name];
  return h("div", { class: "plan" }, h("p", { class: "small" }, "The model's plan"),
    h("p", {}, known ?? name), rest.length && rest.join(": ").trim() ? h("blockquote", {}, rest.join(": ")) : null);
}

/** The end of a game, or null if the result is none. */
export function ending(result) {
  const { board: cells, line, outcome, you, message } = result ?? {};
  if (!isBoard(cells) || typeof outcome !== "string") return null;
  const title = fresh("board");
  const words = { you_win: "You win", model_wins: "The model wins", draw: "A draw", cancelled: "The game was given up" };
  const drawn = grid(cells, { title, you, line: Array.isArray(line) ? line : [] });
  drawn.still();
  return h("div", { class: `game ended ${outcome in words ? outcome : ""}` }, drawn.element,
    h("div", { class: "beside" }, h("h3", { id: title, class: "outcome" }, words[outcome] ?? outcome), h("p", { class: "help" }, message ?? "")));
}

function grid(cells, { title, you, lastMove = null, line = [], pick = () => {} }) {
  const taken = [...cells];
  let live = true;
  const buttons = CELLS.map((cell) =>
    h("button", { type: "button", class: "cell", "data-cell": cell, click: () => live && taken[cell] === "" && pick(cell) }));
  const draw = (cell) => {
    const button = buttons[cell];
    const mark = taken[cell];
    const words = [`Row ${Math.floor(cell / 3) + 1}, column ${(cell % 3) + 1}`, mark ? `${mark}, ${mark === you ? "yours" : "the model's"}` : "free"];
    if (cell === lastMove) words.push("the last move");
    if (line.includes(cell)) words.push("in the winning line");
    button.setAttribute("aria-label", words.join(", "));
    button.setAttribute("aria-disabled", mark || !live ? "true" : "false");
    button.classList.toggle("mine", mark !== "" && mark === you);
    button.classList.toggle("last", cell === lastMove);
    button.classList.toggle("won", line.includes(cell));
    button.replaceChildren(...(mark ? [shape(mark)] : []));
  };
  CELLS.forEach(draw);
  const first = Math.max(taken.indexOf(""), 0);
  const stand = (cell) => buttons.forEach((button, i) => (button.tabIndex = i === cell ? 0 : -1));
  stand(first);
  const rows = [0, 3, 6].map((row) => h("div", { role: "row", class: "row" }, buttons.slice(row, row + 3).map((button) => h("div", { role: "gridcell" }, button))));
  const element = h("div", { class: "board", role: "grid", "aria-labelledby": title }, rows);
  element.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(document.activeElement);
    const move = MOVES[event.key];
    if (at < 0 || !move) return;
    event.preventDefault();
    const row = (Math.floor(at / 3) + move[0] + 3) % 3;
    const column = ((at % 3) + move[1] + 3) % 3;
    const next = row * 3 + column;
    stand(next);
    buttons[next].focus();
  });
  return {
    element,
    focus: () => buttons[first].focus(),
    place(cell, mark) {
      taken[cell] = mark;
      const before = lastMove;
      lastMove = cell;
      if (before !== null) draw(before);
      draw(cell);
    },
    still() {
      live = false;
      element.classList.add("still");
      CELLS.forEach(draw);
    },
  };
}

function shape(mark) {
  const drawing = { viewBox: "0 0 48 48", "aria-hidden": "true", focusable: "false" };
  if (mark === "O") return svg("svg", drawing, svg("circle", { cx: 24, cy: 24, r: 11.5 }));
  return svg("svg", drawing, svg("path", { d: "M14 14 34 34M34 14 14 34" }));
}
