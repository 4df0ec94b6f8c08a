// One cursor for all charts of a page: the moment under the pointer, or chosen by arrow keys, is a line in every chart
// whose range holds it. What a drawing says of itself is told in console/ui/charts.py; a plot joins by `join`.
// The line is put into the drawing and takes no room; a live frame that brings a new drawing gets it again.

import { zoned } from "./clocks.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const MINUTE = 60_000, DAY = 1440 * MINUTE, HOUR = 60 * MINUTE;
const SAY_MS = 350, SAID = 6, STEPS = 60;
const numbers = (text) => (text ?? "").split(" ").map(Number);

const plots = new Map();
let moment = null, source = null, isByKeys = false, due = 0, saying = 0;

// Where a moment is, 0 at the left edge and 1 at the right, and back.
export const even = (start, end) => ({
  holds: (ms) => ms >= start && ms <= end,
  share: (ms) => (ms - start) / (end - start),
  ms: (share) => start + share * (end - start),
  width: end - start,
});

function ahead(start, least, reach) {
  const most = Math.log(reach / least);
  return {
    holds: (ms) => ms >= start && ms <= start + reach,
    share: (ms) => (ms - start <= least ? 0 : Math.log((ms - start) / least) / most),
    ms: (share) => start + least * Math.exp(share * most),
    width: reach,
    slot: 1000,
  };
}

function bySlot(moments) {
  const last = moments.length - 1;
  return {
    holds: (ms) => ms >= moments[0] && ms <= moments[last],
    share(ms) {
      const next = moments.findIndex((each) => each > ms);
      const at = next < 0 ? last : next - 1 + (ms - moments[next - 1]) / (moments[next] - moments[next - 1]);
      return (at + 0.5) / moments.length;
    },
    ms(share) {
      const at = Math.min(last, Math.max(0, share * moments.length - 0.5)), from = Math.min(last - 1, Math.floor(at));
      return moments[from] + (at - from) * (moments[from + 1] - moments[from]);
    },
    width: moments[last] - moments[0],
  };
}

function element(name, attributes, parent) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}

function written(ms, slot) {
  const text = zoned(ms);
  if (slot >= DAY) return text.slice(0, 10);
  if (slot >= MINUTE) return text.slice(5, 16);
  return slot >= 1000 ? text.slice(11) : `${text.slice(11)}.${String(ms % 1000).padStart(3, "0")}`;
}

function labelled(group, x, y, text, isLeft) {
  const quiet = text === "0" || text === "–" ? "nil" : "";
  const made = element("text", { x: x + (isLeft ? -6 : 6), y, class: `${isLeft ? "text-end" : ""} ${quiet}` }, group);
  made.textContent = text;
}

// A part of a drawing with one scale: where the pointer is on it, and how its line is drawn.
function flat(svg, scale, values) {
  const [left, right, top, foot] = numbers(svg.dataset.box);
  const isSmall = foot - top < 30;
  return {
    svg, scale, values, count: svg.dataset.moments ? numbers(svg.dataset.moments).length : values.length || STEPS,
    at: (point) => (point.x < left || point.x > right ? null : (point.x - left) / (right - left)),
    draw(group, share, text) {
      const x = left + share * (right - left);
      element("path", { d: `M${x} ${top}V${foot}` }, group);
      labelled(group, x, isSmall ? (top + foot) / 2 + 4 : top + 10, text, share > 0.6);
    },
    isNamed: right - left > 400 || !values.length,
  };
}

function ring(svg, told, values) {
  const [start, end, inner, outer] = numbers(told), centre = Number(svg.dataset.centre);
  return {
    svg, scale: even(start, end), values, count: values.length,
    at(point) {
      const x = point.x - centre, y = point.y - centre, far = Math.hypot(x, y);
      return far < inner || far > outer ? null : (Math.atan2(x, -y) / (2 * Math.PI) + 1) % 1;
    },
    draw(group, share, text) {
      const turn = 2 * Math.PI * share, x = Math.sin(turn), y = -Math.cos(turn);
      element("path", { d: `M${centre + inner * x} ${centre + inner * y}L${centre + outer * x} ${centre + outer * y}` }, group);
      labelled(group, centre + ((inner + outer) / 2) * x, centre + ((inner + outer) / 2) * y + 4, text, share < 0.5);
    },
    isNamed: false,
  };
}

function cells(svg) {
  const links = [...svg.querySelectorAll("a[data-at]")];
  if (!links.length) return [];
  const start = Number(links[0].dataset.at), end = Number(links.at(-1).dataset.at) + HOUR, scale = even(start, end);
  const cellOf = (ms) => links.find((link) => ms >= Number(link.dataset.at) && ms < Number(link.dataset.at) + HOUR);
  return [{
    svg, scale, values: [], count: (end - start) / HOUR, isNamed: false,
    at: (_, target) => {
      const cell = target?.closest?.("a[data-at]");
      return cell ? scale.share(Number(cell.dataset.at) + HOUR / 2) : null;
    },
    draw(group, share) {
      const cell = cellOf(scale.ms(share));
      const box = cell?.querySelector("rect");
      if (!box) return "–";
      const at = Object.fromEntries(["x", "y", "width", "height"].map((name) => [name, box.getAttribute(name)]));
      element("rect", { ...at, fill: "none" }, group);
      return cell.getAttribute("aria-label");
    },
  }];
}

function figures(text) {
  const repeated = (each, at, all) => (each.startsWith("=") ? Array(Number(each.slice(1))).fill(all[at - 1]) : [each]);
  return text.split("|").flatMap(repeated);
}

function parts(svg) {
  const told = svg.dataset;
  if (told.time === "cells") return cells(svg);
  if (told.time === "rings") {
    const values = told.values.split(";");
    return told.rings.split(";").map((each, index) => ring(svg, each, figures(values[index])));
  }
  const values = told.values ? figures(told.values) : [];
  if (told.time === "stops") return [flat(svg, bySlot(numbers(told.moments)), values)];
  if (told.time === "line") return [flat(svg, even(Number(told.start), Number(told.end)), values)];
  const start = svg.closest("section")?.querySelector("[data-ahead-of]")?.dataset.aheadOf;
  return start ? [flat(svg, ahead(Number(start), Number(told.least), Number(told.reach)), values)] : [];
}

const drawings = (within) => [...within.querySelectorAll("svg[data-time]")].filter((svg) => !svg.closest("[hidden]"));

const titleOf = (host) =>
  (host.closest("tr, .figures > div, section")?.querySelector("th, td, dt, h2")?.textContent ?? "").trim().replace(/\s+/g, " ");

// The line of one part; what it says is returned.
function show(part) {
  const share = part.scale.share(moment);
  const slot = part.scale.slot ?? part.scale.width / part.count;
  const value = part.values.length ? part.values[Math.min(part.values.length - 1, Math.floor(share * part.values.length))] || "–" : "";
  const text = part.isNamed ? [written(moment, slot), value].filter(Boolean).join(" · ") : value;
  const group = element("g", { class: "cursor", "aria-hidden": "true" }, part.svg);
  return part.draw(group, share, text) ?? value;
}

const watcher = new MutationObserver(() => later());

function paint() {
  due = 0;
  watcher.disconnect();
  for (const old of document.querySelectorAll("svg .cursor")) old.remove();
  const said = [];
  if (moment !== null) {
    for (const svg of drawings(document)) {
      for (const part of parts(svg)) if (part.scale.holds(moment)) said.push([svg, show(part)]);
    }
  }
  for (const [host, plot] of plots) {
    if (moment === null || !plot.scale.holds(moment)) plot.hide();
    else if (host !== source || isByKeys) said.push([host, plot.show(moment)]);
  }
  if (moment === null) return;
  const main = document.getElementById("main");
  if (main) watcher.observe(main, { subtree: true, childList: true, attributeFilter: ["data-start", "data-rings", "data-ahead-of"] });
  if (isByKeys) announce(said);
}

// Only what was chosen by keys is said, and when the keys rest: the chart itself first, then others that say something.
function announce(said) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    const place = document.getElementById("moment");
    if (!place || moment === null) return;
    const own = said.filter(([host]) => source?.contains(host));
    const rest = said.filter(([host, value]) => !source?.contains(host) && value && value !== "0" && value !== "–");
    const words = [...own, ...rest].slice(0, SAID).map(([host, value]) => `${titleOf(host)} ${value}`);
    place.textContent = [zoned(moment), ...words].join("; ");
  }, SAY_MS);
}

function later() {
  due ||= requestAnimationFrame(paint);
}

// The moment that the cursor is at, null for none; `from` is where it was chosen.
export function pointAt(ms, from, byKeys = false) {
  if (ms === null && from && from !== source) return;
  moment = ms === null ? null : Math.round(ms);
  source = ms === null ? null : from;
  isByKeys = byKeys;
  later();
}

// A plot that draws its own cursor: `scale`, `count` of its slots, `show(ms)` (what it says there), `hide()`.
export function join(host, plot) {
  plots.set(host, plot);
}

function onPointer(event) {
  const svg = event.target.closest?.("svg[data-time]");
  if (!svg) {
    if (source?.matches?.("svg") || (isByKeys && event.type === "pointerdown")) pointAt(null, null);
    return;
  }
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  for (const part of parts(svg)) {
    const share = part.at(point, event.target);
    if (share !== null) return pointAt(part.scale.ms(share), svg);
  }
  if (source === svg) pointAt(null, null);
}

function stepped(part, key, isFar) {
  const last = Math.ceil(part.count) - 1;
  if (key === "Home") return 0;
  if (key === "End") return last;
  const step = (key === "ArrowRight" ? 1 : -1) * (isFar ? 10 : 1);
  if (moment === null || !part.scale.holds(moment)) return step > 0 ? 0 : last;
  return Math.min(last, Math.max(0, Math.floor(part.scale.share(moment) * part.count) + step));
}

function keepInView(host) {
  const line = host.querySelector(".cursor")?.getBoundingClientRect(), room = host.getBoundingClientRect();
  if (!line) return;
  if (line.left < room.left + 8) host.scrollLeft -= room.left + 8 - line.left;
  else if (line.right > room.right - 8) host.scrollLeft += line.right - room.right + 8;
}

function onKey(event) {
  const host = event.target;
  if (event.key === "Escape" && moment !== null) return pointAt(null, null);
  if (!host.matches?.("[data-times]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  const part = plots.get(host) ?? drawings(host).flatMap(parts)[0];
  if (!part) return;
  event.preventDefault();
  const slot = stepped(part, event.key, event.shiftKey);
  pointAt(part.scale.ms((slot + 0.5) / part.count), host, true);
  requestAnimationFrame(() => requestAnimationFrame(() => keepInView(host)));
}

export function startCursor() {
  document.addEventListener("pointermove", onPointer, { passive: true });
  document.addEventListener("pointerdown", onPointer, { passive: true });
  document.documentElement.addEventListener("pointerleave", () => { if (!isByKeys) pointAt(null, null); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("focusout", (event) => { if (isByKeys && event.target === source) pointAt(null, null); });
  matchMedia("print").addEventListener("change", () => pointAt(null, null));
}
