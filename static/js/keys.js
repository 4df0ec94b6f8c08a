// The keyboard: Ctrl-K goes anywhere, one letter a page, / for search, j and k for rows, v and * choose them, i copies,
// digits act, ? for help.

import { copyHere } from "./copying.js";
import { openPalette } from "./palette.js";

// Single letters can be switched off by whoever types or speaks them unawares (WCAG 2.1.4); Ctrl-K and Escape stay.
const KEPT = "keys";

function areOff() {
  try {
    return localStorage.getItem(KEPT) === "off";
  } catch {
    return false;
  }
}

function startSwitch(button) {
  const say = () => {
    button.textContent = areOff() ? button.dataset.wordOn : button.dataset.wordOff;
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEPT, areOff() ? "on" : "off");
    say();
    sayDigits();
  });
  say();
}

const rows = () => [...document.querySelectorAll("main .table tbody tr")].filter((row) => row.querySelector("a"));

function isTyping(target) {
  return target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null;
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  next.querySelector("a").focus();
  next.scrollIntoView({ block: "nearest" });
}

// Every digit asks for a preview at most: what it does is said there before anything is done.
const acting = () => [
  ...document.querySelectorAll("main button[name=kind]:not(:disabled), main form[action*=undo] button:not(:disabled)"),
].slice(0, 9);

function act(number) {
  acting()[number - 1]?.click();
}

// Each says its digit. A counter of the style would begin anew in every sheet: what is sized by itself counts by itself.
function sayDigits() {
  const all = areOff() ? [] : acting();
  for (const old of document.querySelectorAll("main [data-digit]")) if (!all.includes(old)) delete old.dataset.digit;
  all.forEach((button, at) => {
    if (button.dataset.digit !== String(at + 1)) button.dataset.digit = at + 1;
  });
}

const choices = {
  v: () => document.activeElement.closest("tr")?.querySelector("input[type=checkbox]")?.click(),
  i: copyHere,
  "*": () => document.querySelector("main input[name=scope][value=matching]")?.click(),
};

function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return openPalette();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const help = document.getElementById("help");
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]") || areOff()) return;
  const key = event.key.toLowerCase();
  const page = document.querySelector(`.rail a[data-key="${CSS.escape(key)}"]`);
  if (key === "/") document.getElementById("find")?.focus();
  else if (key === "?") help?.showModal();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (choices[key]) choices[key]();
  else if (key >= "1" && key <= "9") act(Number(key));
  else if (key === "t") document.querySelector("[data-theme-switch]")?.click();
  else if (page && !event.shiftKey) return page.click();
  else return;
  event.preventDefault();
}

export function startKeys() {
  document.addEventListener("keydown", onKey);
  for (const button of document.querySelectorAll("[data-keys-switch]")) startSwitch(button);
  sayDigits();
  const watched = { subtree: true, childList: true, attributeFilter: ["data-digit", "disabled"] };
  new MutationObserver(sayDigits).observe(document.querySelector("main"), watched);
}
