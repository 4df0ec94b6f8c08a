// Dragging over a chart over time opens the page with just that stretch: `from` and `to` in its address, in epoch ms.
// Without it the links beside the chart do the same in whole hours, days and weeks.

const NAMESPACE = "http://www.w3.org/2000/svg";
// What is narrower, in pixels, was a click.
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

function placeOf(svg, moment) {
  const [left, right] = svg.dataset.box.split(" ").map(Number);
  const start = Number(svg.dataset.start), end = Number(svg.dataset.end);
  return Math.min(right, Math.max(left, left + ((moment - start) / (end - start)) * (right - left)));
}

const drawings = () => [...document.querySelectorAll("svg[data-zoom]")];

// A live page's next frame takes the band off its drawing, or another drawing in its place, and moves it on by a minute.
const watcher = new MutationObserver(() => {
  if (!drag.svg.isConnected) drag.svg = drawings()[drag.number] ?? drag.svg;
  if (!drag.band.isConnected) drag.svg.append(drag.band);
  draw();
});

function draw() {
  const from = placeOf(drag.svg, drag.since), to = placeOf(drag.svg, drag.until);
  drag.band.setAttribute("x", Math.min(from, to));
  drag.band.setAttribute("width", Math.abs(to - from));
}

function begin(event) {
  const svg = event.target.closest?.("svg[data-zoom]");
  // a finger scrolls; a mark leads to its operation
  if (!svg || event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
  event.preventDefault();
  const [, , top, foot] = svg.dataset.box.split(" ").map(Number);
  const band = document.createElementNS(NAMESPACE, "rect");
  for (const [name, value] of Object.entries({ class: "drawn", y: top, height: foot - top })) band.setAttribute(name, value);
  svg.append(band);
  const since = momentOf(svg, pointOf(svg, event));
  drag = { svg, band, since, until: since, begun: event.clientX, number: drawings().indexOf(svg) };
  watcher.observe(document.querySelector("main"), { childList: true, subtree: true });
}

function move(event) {
  if (!drag) return;
  drag.until = momentOf(drag.svg, pointOf(drag.svg, event));
  draw();
}

function stop() {
  watcher.disconnect();
  drag?.band.remove();
  drag = null;
}

function end(event) {
  if (!drag) return;
  move(event);
  const { since, until, begun } = drag;
  stop();
  if (Math.abs(event.clientX - begun) < LEAST) return;
  const address = new URL(location.href);
  address.searchParams.delete("over");
  address.searchParams.set("from", Math.min(since, until));
  address.searchParams.set("to", Math.max(since, until));
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
