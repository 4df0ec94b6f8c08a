// Dragging over a chart over time opens the page with just that stretch: `from` and `to` in its address, in epoch ms.
// Without it the links beside the chart do the same in whole hours, days and weeks.

const NAMESPACE = "http://www.w3.org/2000/svg";
// What is narrower was a click.
const LEAST = 8;

let drag = null;

function pointOf(svg, event) {
  const [left, right] = svg.dataset.box.split(" ").map(Number);
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return Math.min(right, Math.max(left, point.x));
}

function momentOf(svg, x) {
  const [left, right] = svg.dataset.box.split(" ").map(Number);
  const start = Number(svg.dataset.start), end = Number(svg.dataset.end);
  return Math.round(start + ((x - left) / (right - left)) * (end - start));
}

function begin(event) {
  const svg = event.target.closest?.("svg[data-zoom]");
  // a finger scrolls; a mark leads to its operation
  if (!svg || event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
  event.preventDefault();
  const [, , top, foot] = svg.dataset.box.split(" ").map(Number);
  const band = document.createElementNS(NAMESPACE, "rect");
  const at = { class: "drawn", x: pointOf(svg, event), y: top, width: 0, height: foot - top };
  for (const [name, value] of Object.entries(at)) band.setAttribute(name, value);
  svg.append(band);
  drag = { svg, band, from: pointOf(svg, event) };
}

function move(event) {
  if (!drag) return;
  const to = pointOf(drag.svg, event);
  drag.band.setAttribute("x", Math.min(drag.from, to));
  drag.band.setAttribute("width", Math.abs(to - drag.from));
}

function stop() {
  drag?.band.remove();
  drag = null;
}

function end(event) {
  if (!drag) return;
  const { svg, from } = drag, to = pointOf(svg, event);
  stop();
  if (Math.abs(to - from) < LEAST) return;
  const address = new URL(location.href);
  address.searchParams.delete("over");
  address.searchParams.set("from", momentOf(svg, Math.min(from, to)));
  address.searchParams.set("to", momentOf(svg, Math.max(from, to)));
  address.hash = "over-time";
  location.assign(address);
}

export function startZoom() {
  document.addEventListener("pointerdown", begin);
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerup", end);
  document.addEventListener("pointercancel", stop);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
}
