// A field that is needed with a tick: it is required while the box that it names is ticked, and not before. What is
// required inside of a closed part is shown, so that it can be filled in.

function follow(box) {
  for (const field of box.form?.querySelectorAll(`[data-needed-with="${box.name}"]`) ?? []) field.required = box.checked;
}

export function startNeeding() {
  document.addEventListener("change", (event) => {
    if (event.target.type === "checkbox") follow(event.target);
  });
  document.addEventListener("invalid", (event) => {
    const closed = event.target.closest?.("details:not([open])");
    if (closed) closed.open = true;
  }, true);
  for (const field of document.querySelectorAll("[data-needed-with]")) {
    const box = field.form?.elements[field.dataset.neededWith];
    if (box) follow(box);
  }
}
