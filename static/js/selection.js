// Choosing rows of a table: all of the page at once, a range with Shift, and how many are chosen.

const BOXES = 'tbody input[type="checkbox"]';

function count(form) {
  const chosen = form.querySelectorAll(`${BOXES}:checked`).length;
  for (const place of form.querySelectorAll("[data-select-count]")) place.textContent = chosen ? String(chosen) : "";
}

// From the box that was pressed last to this one all become as this one is.
function chooseRange(form, last, box) {
  const boxes = [...form.querySelectorAll(BOXES)];
  const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((one, other) => one - other);
  if (from < 0) return;
  for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
}

export function startSelection() {
  for (const all of document.querySelectorAll("[data-select-all]")) {
    const form = all.closest("form");
    let last = null;
    all.addEventListener("change", () => {
      for (const box of form.querySelectorAll(BOXES)) box.checked = all.checked;
    });
    form.addEventListener("click", (event) => {
      if (!event.target.matches?.(BOXES)) return;
      if (event.shiftKey && last) chooseRange(form, last, event.target);
      last = event.target;
      count(form);
    });
    form.addEventListener("change", () => count(form));
    count(form);
  }
}
