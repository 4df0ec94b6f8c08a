// Where the list of pages is longer than the window, the one that is open is within sight.

export function startRail() {
  document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}
