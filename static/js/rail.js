// Where the pages are a strip that scrolls, the one that is open is within it.

export function startRail() {
  document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}
