// Ids, keys, names, bodies and commands to take along: a button with `data-copies` copies what it says there, or, where
// it says nothing, the text of what stands before it. That it was done is said once, for eyes and for screen readers.

const SHOWN_MS = 2000;

// Where the page came by plain HTTP from another machine there is no clipboard to ask for: the older way is left.
function copyBySelection(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

async function copy(text) {
  if (!navigator.clipboard) return copyBySelection(text);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

let timer = 0;

function say(text) {
  const place = document.getElementById("copied");
  place.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => { place.textContent = ""; }, SHOWN_MS);
}

async function onClick(event) {
  const button = event.target.closest?.("[data-copies]");
  if (!button) return;
  const done = await copy(button.dataset.copies || button.previousElementSibling.textContent);
  button.focus({ preventScroll: true });
  const words = document.getElementById("copied").dataset;
  say(done ? words.wordCopied : words.wordFailed);
}

// The key for it: of the row that has the focus, else the first of the page.
export function copyHere() {
  const here = document.activeElement.closest("tr, dd, .quoted") ?? document;
  (here.querySelector("[data-copies]") ?? document.querySelector("main [data-copies]"))?.click();
}

export function startCopying() {
  document.addEventListener("click", onClick);
}
