"""How a page can look: light, dark, in forced colours, on a telephone; and what axe says of it in each.

A page is loaded once and shown in all looks by emulation. Light and the telephone are asked every rule of axe. What the
two others are asked follows from what they may change (a test holds the styles to it): colours, and lines around boxes.
Nothing comes, goes or moves, so that rules about names, roles, order and sizes would see the same page again. Contrast
is asked of one element of each kind: the thousandth row of a table has the colours of the first.
"""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize

TELEPHONE: ViewportSize = {"width": 320, "height": 700}
DESK: ViewportSize = {"width": 1440, "height": 1000}
#: rules about colours
COLOURS = ("color-contrast", "link-in-text-block")
#: elements beyond the right edge that do not scroll in a box of their own
TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > 321 && !e.closest(".scroll, .rail, .segments, pre, .sr"))
  .map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`)"""
#: axe's verdict by the rules named, or by all. Nothing is loaded again for it: that is for films and sounds.
#: Contrast is judged of one of all elements with names, classes and colours alike up to the root; choosing and judging
#: are one step, as a live page's next frame takes the marks off.
JUDGE = """async (rules) => {
  const numbers = new Map(), known = new WeakMap();
  const number = (text) => numbers.get(text) ?? numbers.set(text, numbers.size).get(text);
  const kind = (e) => {
    if (!e) return -1;
    if (known.has(e)) return known.get(e);
    const s = getComputedStyle(e), p = getComputedStyle(e, "::before"), q = getComputedStyle(e, "::after");
    const own = [e.tagName, e.getAttribute("class"), s.color, s.backgroundColor, s.backgroundImage, s.opacity, s.filter,
      s.textShadow, s.fontSize, s.fontWeight, s.visibility, p.backgroundColor, q.backgroundColor];
    known.set(e, number(kind(e.parentElement) + "|" + own.join("|")));
    return known.get(e);
  };
  const choose = () => {
    const chosen = new Set();
    for (const e of document.querySelectorAll("body, body *")) {
      const says = e.matches("input, select, textarea, button")
        || [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
      const shows = says && e.checkVisibility({visibilityProperty: true, opacityProperty: true});
      if (!shows || chosen.has(kind(e))) continue;
      chosen.add(kind(e));
      e.dataset.judged = "";
    }
    axe.configure({rules: [{id: "color-contrast", selector: "[data-judged]"}]});
    if (!chosen.size) throw new Error("a page without text");
  };
  const options = {resultTypes: ["violations"], preload: false};
  if (rules) options.runOnly = rules;
  choose();
  const found = (await axe.run(document, options)).violations;
  document.querySelectorAll("[data-judged]").forEach((e) => delete e.dataset.judged);
  axe.reset();
  return found.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(", "));
}"""


def faults_of(page: Page, shot: Path | None = None) -> list[str]:
    """What is wrong with the page that is open, in every look."""
    page.evaluate("document.querySelectorAll('main details').forEach((e) => (e.open = true))")
    page.evaluate(AXE_SCRIPT)
    found = [f"light: {text}" for text in judged(page, "light", shot)]
    page.set_viewport_size(TELEPHONE)
    found += [f"320 px: {text}" for text in judged(page, "320", shot)]
    found += [f"320 px: beyond the edge: {text}" for text in page.evaluate(TOO_WIDE)[:3]]
    if page.evaluate("document.documentElement.scrollWidth") > TELEPHONE["width"]:
        found.append("320 px: the page scrolls sideways")
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {text}" for text in judged(page, "dark", shot, COLOURS)]
    page.emulate_media(color_scheme="light", forced_colors="active")
    found += [f"forced colours: {text}" for text in judged(page, "forced", shot, COLOURS)]
    page.emulate_media(color_scheme="light", forced_colors="none")
    return found + [f"violation: {text}" for text in page.evaluate("violations")]


def judged(page: Page, look: str, shot: Path | None, rules: tuple[str, ...] | None = None) -> list[str]:
    """Rules that the page breaks, of any impact, with where; all rules where none are named."""
    if shot:
        page.screenshot(path=f"{shot}-{look}.png", full_page=True)
    found: list[str] = page.evaluate(JUDGE, rules)
    return found
