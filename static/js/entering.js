// Enter in the reason of an operation confirms it, once all that it asks for is there; Shift-Enter is a new line.

function confirm(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  const field = event.target.closest("textarea[data-enter]");
  const button = field?.form.querySelector("button:is(.go, .harm):not(:disabled)");
  if (!button) return;
  event.preventDefault();
  button.click();
}

export function startEntering() {
  document.addEventListener("keydown", confirm);
}
