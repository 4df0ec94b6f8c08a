// The pill in the bar: is what one sees the present? Live while the socket is open, else stale since when.

import { zoned } from "./clocks.js";

const SHAPES = {
  live: '<circle class="fill-verd" cx="6" cy="6" r="4"/>',
  stale: '<path class="fill-brass" d="M6 .8 11.4 10.6H.6Z"/>',
};

function show(pill, state, text) {
  pill.classList.toggle("verd", state === "live");
  pill.classList.toggle("brass", state === "stale");
  pill.querySelector("svg").innerHTML = SHAPES[state];
  pill.querySelector("span").textContent = text;
}

const time = () => zoned(Date.now()).slice(11);

export function startLive() {
  const pill = document.querySelector("[data-live]");
  if (!pill) return;
  let stale = false;
  const lost = () => {
    if (!stale) show(pill, "stale", `${pill.dataset.wordStale} ${time()}`);
    stale = true;
  };
  document.addEventListener("htmx:ws:after:connection", () => {
    stale = false;
    show(pill, "live", pill.dataset.wordLive);
  });
  document.addEventListener("htmx:ws:close", lost);
  document.addEventListener("htmx:ws:error", lost);
}
