// Digits that move between two answers of the server: countdowns, ages and the clock in the bar.
// The text is written in place; layout and focus stay as they are.

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const two = (number) => String(number).padStart(2, "0");

// As the server's `span` writes it (console/templatetags/escapement.py): with the units of the page's language, rounded
// down.
const [MS, S, MIN, H, D] = (document.body.dataset.units ?? "ms s min h d").split(" ");
export function span(ms) {
  ms = Math.max(0, Math.floor(ms));
  const whole = (unit) => Math.floor(ms / unit);
  if (ms < SECOND) return `${ms} ${MS}`;
  if (ms < 10 * SECOND) return `${(whole(10) / 100).toFixed(2)} ${S}`;
  if (ms < MINUTE) return `${(whole(100) / 10).toFixed(1)} ${S}`;
  const and = (first, rest, unit) => (Number(rest) ? `${first} ${rest} ${unit}` : first);
  if (ms < HOUR) return and(`${whole(MINUTE)} ${MIN}`, two(whole(SECOND) % 60), S);
  if (ms < DAY) return and(`${whole(HOUR)} ${H}`, two(whole(MINUTE) % 60), MIN);
  return and(`${whole(DAY)} ${D}`, whole(HOUR) % 24, H);
}

// A moment by the reader's clock (YYYY-MM-DD HH:MM:SS), as the server writes it: the page says in which zone, without
// one it is UTC. A browser that does not know the zone stays with UTC.
export const zone = document.documentElement.dataset.zone || "UTC";
const form = clock(zone) ?? clock("UTC");

function clock(timeZone) {
  const two = "2-digit";
  try {
    return new Intl.DateTimeFormat("sv-SE", {
      timeZone, hourCycle: "h23", year: "numeric", month: two, day: two, hour: two, minute: two, second: two,
    });
  } catch {
    return null;
  }
}

export const zoned = (ms) => form.format(ms);

// The account menu offers the zone of this device.
export function startZone() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const button of document.querySelectorAll("[data-own-zone]")) {
    button.value = own;
    button.title = own;
    button.hidden = !own || own === zone;
  }
}

// The broker's clock. Where it is simulated the page says by what line it runs, and live frames say so again when it has
// leapt: a broker that was killed goes on from further ahead. The line is by the server's real clock, which the page
// tells of the moment at which the answer began.
const [navigation] = performance.getEntriesByType("navigation");
const began = performance.timeOrigin + (navigation ? navigation.responseStart : 0);
const ahead = began - Number(document.documentElement.dataset.answeredMs);

function brokerNow(real) {
  const line = document.getElementById("clockline")?.dataset;
  return line ? Number(line.shownMs) + (real - ahead - Number(line.realMs)) * Number(line.speed) : real;
}

// as the server's `due` says it
const words = document.body.dataset;
// A moment that passes while the page is open is not late: what was due then is on its way, and whether it is still
// there only the server knows. It says so of what it saw to be overdue.
const PASSED = 10 * SECOND;

function left(element, now) {
  const ms = Number(element.dataset.dueMs) - now;
  if (ms > 0) return "in" in element.dataset ? words.in.replace("#", span(ms)) : span(ms);
  if ("isLate" in element.dataset) return words.late.replace("#", span(-ms));
  return -ms < PASSED ? words.now : words.ago.replace("#", span(-ms));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// What times on the page count from: what stands beside the broker (Redis) goes by the real clock.
export function pageNow(real = Date.now()) {
  return document.querySelector("main[data-real]") ? real : brokerNow(real);
}

function tick() {
  const real = Date.now(), shown = brokerNow(real), now = pageNow(real);
  // what a snapshot says was so at its moment, and stays so
  const still = document.querySelector("[data-past]");
  for (const element of still ? [] : document.querySelectorAll("[data-due-ms]")) {
    write(element, left(element, now));
  }
  for (const element of still ? [] : document.querySelectorAll("time[data-since-ms]")) {
    write(element, span(now - Number(element.dataset.sinceMs)));
  }
  for (const clock of document.querySelectorAll("[data-clock] .num")) {
    write(clock, zoned(shown));
  }
}

export function startClocks() {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  setInterval(() => { if (!document.hidden) tick(); }, still ? 1000 : 250);
}
