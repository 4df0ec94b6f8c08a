// Ctrl-K: go anywhere by a few letters. The server answers with options; arrow keys choose, Enter goes.

const WAIT_MS = 80;

function options(palette) {
  return [...palette.querySelectorAll('[role="option"]')];
}

function choose(palette, step) {
  const all = options(palette);
  const input = palette.querySelector("input");
  const before = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  const chosen = all[(before + step + all.length) % all.length];
  for (const option of all) option.setAttribute("aria-selected", String(option === chosen));
  if (!chosen) return input.removeAttribute("aria-activedescendant");
  input.setAttribute("aria-activedescendant", chosen.id);
  chosen.scrollIntoView({ block: "nearest" });
}

function answers(palette) {
  let asked = new AbortController();
  return async () => {
    asked.abort();
    asked = new AbortController();
    const text = palette.querySelector("input").value;
    const query = new URLSearchParams({ q: text, part: "1" });
    try {
      const answer = await fetch(`${palette.dataset.source}?${query}`, { signal: asked.signal });
      if (!answer.ok || answer.redirected) return location.assign(palette.dataset.source);
      // the server escapes every name; scripts and inline handlers are refused by the page's policy
      palette.querySelector('[role="listbox"]').innerHTML = await answer.text();
      palette.dataset.shown = text;
      choose(palette, 0);
    } catch (error) {
      if (error.name === "AbortError") return;
      palette.querySelector('[role="listbox"]').replaceChildren();
    }
    if (palette.open && palette.dataset.entered === text) go(palette);
  };
}

export function openPalette() {
  const palette = document.getElementById("palette");
  if (!palette || palette.open) return;
  palette.showModal();
  const input = palette.querySelector("input");
  input.select();
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

// What is chosen; the page of answers where nothing is.
function go(palette) {
  const chosen = palette.querySelector('[aria-selected="true"]');
  if (chosen) chosen.click();
  else palette.querySelector("form").requestSubmit();
}

// Enter before the answer to the last letter has come waits for it: what is shown until then answers another question.
function enter(palette) {
  const text = palette.querySelector("input").value;
  palette.dataset.entered = text;
  if (palette.dataset.shown === text) go(palette);
}

export function startPalette() {
  const palette = document.getElementById("palette");
  if (!palette) return;
  const ask = answers(palette);
  let timer = 0;
  palette.addEventListener("input", () => {
    clearTimeout(timer);
    delete palette.dataset.entered;
    timer = setTimeout(ask, WAIT_MS);
  });
  palette.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(palette, step);
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      enter(palette);
    }
  });
  for (const link of document.querySelectorAll("[data-palette]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      openPalette();
    });
  }
}
