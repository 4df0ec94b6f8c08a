// Choosing rows of a table: all of the page at once, and how many are chosen.

function count(form) {
  const chosen = form.querySelectorAll('tbody input[type="checkbox"]:checked').length;
  for (const place of form.querySelectorAll("[data-select-count]")) place.textContent = chosen ? String(chosen) : "";
}

export function startSelection() {
  for (const all of document.querySelectorAll("[data-select-all]")) {
    const form = all.closest("form");
    all.addEventListener("change", () => {
      for (const box of form.querySelectorAll('tbody input[type="checkbox"]')) box.checked = all.checked;
    });
    form.addEventListener("change", () => count(form));
    count(form);
  }
}
