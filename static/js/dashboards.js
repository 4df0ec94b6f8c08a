// Dense time series: a plot takes the place of the drawing once its data is there. Without it the drawing stays.
// Dragging chooses a range, a click leads to what is behind a moment; both are addresses.

import { zone } from "./clocks.js";
import { even, join, pointAt } from "./cursor.js";

const COLOURS = ["--h5", "--brass-fill", "--verd-fill", "--ruby-fill", "--h3", "--ink-3"];
const UNITS = ["B", "kB", "MB", "GB", "TB"];
const HEIGHT = 220;

function bytes(value) {
  let power = 0;
  while (Math.abs(value) >= 1000 && power < UNITS.length - 1) { value /= 1000; power += 1; }
  return `${value.toFixed(power && value < 10 ? 1 : 0)} ${UNITS[power]}`;
}

const written = { bytes, count: (value) => value.toLocaleString("en", { maximumFractionDigits: 0 }) };
const iso = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");

// A canvas knows no variables and no light-dark(): the browser says what a colour is now.
function resolver(host) {
  const probe = host.appendChild(document.createElement("i"));
  const colours = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  return [colours, () => probe.remove()];
}

function options(host, found, width) {
  const style = getComputedStyle(host);
  const [colour, done] = resolver(host);
  const form = written[host.dataset.unit] ?? written.count;
  const label = (name) => name || host.dataset.wordOthers;
  const axis = {
    stroke: colour("--ink-3"), font: `11px ${style.fontFamily}`,
    grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 },
  };
  const local = (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone), day = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}");
  const made = {
    width, height: HEIGHT, tzDate: local,
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    series: [
      { label: host.dataset.wordWhen, value: (_, at) => (at == null ? "–" : day(local(at))) },
      ...found.names.map((name, number) => ({
        label: label(name), stroke: colour(COLOURS[number % COLOURS.length]), width: 1.5, spanGaps: false,
        points: { show: false }, value: (_, value) => (value == null ? "–" : form(value)),
      })),
    ],
    axes: [
      { ...axis, values: [
        [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
        [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
      ] },
      { ...axis, size: 72, values: (_, ticks) => ticks.map(form) },
    ],
    hooks: { setSelect: [(plot) => chosen(plot, found)], setCursor: [(plot) => pointed(plot, host)] },
  };
  done();
  return made;
}

function chosen(plot, found) {
  if (plot.select.width < 4) return;
  const at = (x) => Math.floor(plot.posToVal(x, "x") * 1000 / found.step_ms) * found.step_ms;
  const address = new URL(location.href);
  for (const name of ["series", "name", "at", "step"]) address.searchParams.delete(name);
  address.searchParams.set("from", iso(at(plot.select.left)));
  address.searchParams.set("to", iso(at(plot.select.left + plot.select.width) + found.step_ms));
  address.hash = "";
  location.assign(address);
}

// The mouse moved over the plot, or left it.
function pointed(plot, host) {
  const left = plot.cursor.left;
  pointAt(left == null || left < 0 ? null : plot.posToVal(left, "x") * 1000, host);
}

// What the cursor of the page needs of a plot.
function joined(host, found, plot) {
  const start = found.at_s[0] * 1000, end = found.at_s.at(-1) * 1000 + found.step_ms;
  const form = written[host.dataset.unit] ?? written.count;
  const said = (values) => (at) => (values[at] == null ? "–" : form(values[at]));
  join(host, {
    scale: even(start, end), count: (end - start) / found.step_ms,
    show(ms) {
      const at_s = (start + Math.floor((ms - start) / found.step_ms) * found.step_ms) / 1000;
      plot().setCursor({ left: plot().valToPos(at_s, "x"), top: -10 }, false);
      const at = found.at_s.indexOf(at_s);
      return found.names.map((name, number) => `${name || host.dataset.wordOthers} ${said(found.values[number])(at)}`).join(", ");
    },
    hide: () => plot().setCursor({ left: -10, top: -10 }, false),
  });
}

function draw(host, found) {
  const drawing = host.previousElementSibling;
  host.hidden = false;
  const padding = getComputedStyle(host);
  const room = () => host.clientWidth - parseFloat(padding.paddingLeft) - parseFloat(padding.paddingRight);
  const data = [found.at_s, ...found.values];
  let plot = new uPlot(options(host, found, room()), data, host);
  drawing.hidden = true;
  joined(host, found, () => plot);
  host.addEventListener("click", (event) => {
    if (!event.target.closest(".u-over") || plot.select.width >= 4) return;
    // the plot follows a mouse a frame later, and a finger not at all
    const at = found.at_s[plot.posToIdx(event.clientX - plot.over.getBoundingClientRect().left)] * 1000;
    location.assign(`${host.dataset.behind}&at=${at}&step=${found.step_ms}#behind`);
  });
  new ResizeObserver(() => {
    if (Math.abs(plot.width - room()) > 1) plot.setSize({ width: room(), height: HEIGHT });
  }).observe(host);
  const again = () => {
    plot.destroy();
    plot = new uPlot(options(host, found, room()), data, host);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

for (const host of document.querySelectorAll("[data-plot]")) {
  fetch(host.dataset.plot, { headers: { Accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .then((found) => { if (found && found.at_s.length) draw(host, found); })
    .catch((error) => console.warn(error));
}
