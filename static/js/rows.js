// A row of a list is its link: a click anywhere in it goes where the link goes, with Ctrl or the middle button into a
// new tab. Text can still be selected, and while rows are chosen a click chooses one more. The link stays what the keys
// and screen readers have.

const OWN = "a, button, input, select, textarea, label, summary, [data-copies]";

function linkOf(row) {
  return row.querySelector("td.stretch > a, th > a, a.link.mono") ?? row.querySelector("a");
}

function rowOf(event) {
  const row = event.target.closest?.("main .table > tbody > tr");
  return row && !event.target.closest(OWN) ? row : null;
}

function onClick(event) {
  const row = rowOf(event);
  if (!row || event.defaultPrevented || event.button > 1 || !getSelection().isCollapsed) return;
  const box = row.querySelector("td:first-child > input[type=checkbox]");
  const isChoosing = box?.form?.querySelector("tbody input[type=checkbox]:checked") || box?.parentElement === event.target;
  if (box && (isChoosing || event.shiftKey) && event.button === 0) {
    // as a click on the box itself, which a range ends at
    return box.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: event.shiftKey }));
  }
  const link = linkOf(row);
  if (!link) return;
  if (event.button === 1 || event.ctrlKey || event.metaKey) window.open(link.href, "_blank", "noopener");
  else if (!event.shiftKey && !event.altKey) link.click();
}

export function startRows() {
  document.addEventListener("click", onClick);
  document.addEventListener("auxclick", onClick);
  // the middle button scrolls, and Shift selects text, where nothing keeps them from it
  document.addEventListener("mousedown", (event) => {
    const row = rowOf(event);
    if (row && event.button === 1 && linkOf(row)) event.preventDefault();
    else if (event.shiftKey && row?.querySelector("td:first-child > input[type=checkbox]")) event.preventDefault();
  });
}
