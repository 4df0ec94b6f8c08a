// Chips beside a field for a time: each writes a delay into it, or a time with the zone of the page. Without a script it
// is typed.

import { pageNow, zoned } from "./clocks.js";

const MINUTE = 60_000, DAY = 1440 * MINUTE;
const two = (number) => String(number).padStart(2, "0");

// How far the page's clock is ahead of UTC at a moment.
function aheadMs(ms) {
  const whole = Math.floor(ms / 1000) * 1000;
  return Date.parse(`${zoned(whole).replace(" ", "T")}Z`) - whole;
}

function written(ms) {
  const ahead = aheadMs(ms), minutes = Math.abs(ahead) / MINUTE;
  const offset = `${ahead < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  return zoned(ms).replace(" ", "T") + (ahead ? offset : "Z");
}

// An hour of the next day by the page's clock, also where the clocks change in between.
function tomorrow(hour, now) {
  const day = zoned(now).slice(0, 10);
  const local = Date.parse(`${day}T${two(hour)}:00:00Z`) + DAY;
  return local - aheadMs(local - aheadMs(local));
}

function onClick(event) {
  const chip = event.target.closest?.("[data-span], [data-tomorrow]");
  const field = chip?.closest("form")?.elements[chip.parentElement.dataset.moments];
  if (!field) return;
  // a span counts from the confirmation
  field.value = chip.dataset.span ?? written(tomorrow(Number(chip.dataset.tomorrow), pageNow()));
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}

export function startMoments() {
  document.addEventListener("click", onClick);
}
