// Light and dark, and what the host wants it to look like.

import { setLocale } from "./format.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
const listeners = [];

/** Which theme is shown. */
export function theme() {
  return chosen ?? (dark.matches ? "dark" : "light");
}

/** Shows a theme; without one, the system's. */
export function setTheme(name) {
  chosen = name === "light" || name === "dark" ? name : null;
  apply();
}

/** Calls when another theme is shown. */
export function onTheme(listener) {
  listeners.push(listener);
}

function apply() {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener(theme());
}

dark.addEventListener("change", apply);

/** What of a host's look we take over: fonts, nothing that could make text hard to read. */
const TAKEN = ["--font-sans", "--font-mono"];

/** Does as the host says: theme, place, fonts, and what is hidden behind its own edges. */
export function followHost(context) {
  if (context.theme) setTheme(context.theme);
  if (context.locale) setLocale(context.locale);
  const root = document.documentElement;
  for (const name of TAKEN) {
    const value = context.styles?.variables?.[name];
    if (typeof value === "string") root.style.setProperty(name, value);
  }
  const insets = context.safeAreaInsets;
  if (insets) document.body.style.padding = ["top", "right", "bottom", "left"].map((side) => `${Number(insets[side]) || 0}px`).join(" ");
}

apply();
