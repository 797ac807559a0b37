// What opens over the table and closes again: menus, forms, panels.

import { el, iconButton } from "./dom.js";

let open = null;

/** Closes what is open, and gives the focus back. */
export function closePopover({ focus = true } = {}) {
  const was = open;
  open = null;
  if (!was) return;
  was.box.remove();
  was.opener?.setAttribute?.("aria-expanded", "false");
  if (focus) was.back?.focus?.({ preventScroll: true });
}

/**
 * Opens a box beside what opened it. Escape and a click elsewhere close it; Tab stays in it.
 * @param {Element} opener
 * @param {string} label what it is, for those who do not see it
 * @param {Node[]} content
 */
export function openPopover(opener, label, content) {
  const again = open?.opener === opener;
  closePopover({ focus: false });
  if (again) return null;
  const box = el("div", { class: "popover", role: "dialog", "aria-label": label }, ...content);
  open = { box, opener, back: document.activeElement === document.body ? opener : document.activeElement };
  opener.setAttribute?.("aria-expanded", "true");
  box.addEventListener("keydown", (event) => {
    if (event.key === "Tab") keepTab(box, event);
  });
  document.body.append(box);
  putBeside(box, opener.getBoundingClientRect());
  (box.querySelector("[data-first]") ?? stopsOf(box)[0])?.focus();
  return box;
}

/** What in a box can have the focus. */
function stopsOf(box) {
  return [...box.querySelectorAll("button, input, select")].filter((it) => !it.disabled && it.getClientRects().length);
}

function keepTab(box, event) {
  const stops = stopsOf(box);
  const end = event.shiftKey ? stops[0] : stops.at(-1);
  if (document.activeElement !== end) return;
  event.preventDefault();
  (event.shiftKey ? stops.at(-1) : stops[0]).focus();
}

function putBeside(box, by) {
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(by.left, innerWidth - width - 8));
  const below = by.bottom + 4;
  const top = below + height <= innerHeight - 8 ? below : Math.max(8, Math.min(by.top - height - 4, innerHeight - height - 8));
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}

addEventListener("pointerdown", (event) => {
  if (open && !open.box.contains(event.target) && !open.opener.contains?.(event.target)) closePopover({ focus: false });
});
addEventListener("keydown", (event) => open && event.key === "Escape" && (event.stopPropagation(), closePopover()), true);
addEventListener("resize", () => open && putBeside(open.box, open.opener.getBoundingClientRect()));

/** The panel at the side: one at a time. */
export class Side {
  constructor(onClose) {
    this.node = el("aside", { class: "side", hidden: true });
    this.onClose = onClose;
  }

  show(kind, title, ...content) {
    this.kind = kind;
    const close = iconButton("close", "Close", () => this.close());
    this.node.replaceChildren(el("header", {}, el("h2", { text: title }), close), el("div", { class: "inside", tabindex: "0", role: "region", "aria-label": title }, ...content));
    this.node.setAttribute("aria-label", title);
    this.node.hidden = false;
    this.node.onkeydown = (event) => event.key === "Escape" && (event.stopPropagation(), this.close());
  }

  close() {
    if (this.node.hidden) return;
    const had = this.node.contains(document.activeElement);
    this.node.hidden = true;
    this.kind = null;
    this.onClose(had);
  }
}
