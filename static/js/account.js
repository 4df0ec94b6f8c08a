// The menu behind the reader's name closes as menus do: by Escape, or by a click beside it. It opens without this.

export function startAccount() {
  const menu = document.querySelector("details.account");
  if (!menu) return;
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
}
