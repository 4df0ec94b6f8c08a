"""What a page is on paper: its content, whole and on white, without what can only be pressed."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import BrowserContext

from tests.browser.conftest import Web
from tests.browser.test_timers import fill
from tests.console.stage import Stage

PAGES = ("/", "/schedule/", "/timers/", "/topics/", "/groups/billing/", "/audit/")
#: the width of a sheet of A4 with Chromium's own margins
PAPER = {"width": 718, "height": 1020}
#: what is wrong with a page on paper
WRONG = """() => {
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length;
  const name = (e) => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}.${[...e.classList].join(".")}`;
  const all = [...document.querySelectorAll("body, body *")].filter(shown);
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    return a ? (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255 : null;
  };
  const wrong = [];
  for (const e of all) {
    const style = getComputedStyle(e);
    if (e.matches("button, .btn, .rail, .bar, .segments")) {
      wrong.push(`pressed: ${name(e)}`);
    }
    if (["sticky", "fixed"].includes(style.position)) wrong.push(`stays: ${name(e)}`);
    const box = e.getBoundingClientRect();
    const isWide = !e.closest(".sr, svg") && box.width > 1 && box.right > innerWidth + 1;
    if (isWide) wrong.push(`wider than paper: ${name(e)}`);
    const cut = /auto|scroll|hidden/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1;
    if (cut && !e.closest(".sr") && style.textOverflow !== "ellipsis") wrong.push(`cut: ${name(e)}`);
    if (e.matches("body, main, .sheet, .figures, td, th") && (light(style.backgroundColor) ?? 1) < 0.8) {
      wrong.push(`dark: ${name(e)}`);
    }
    if (e.matches("a, p, td, th, h1, h2, dd, dt") && e.textContent.trim() && light(style.color) > 0.55) {
      wrong.push(`pale: ${name(e)}`);
    }
  }
  return [...new Set(wrong)];
}"""


def test_a_page_is_whole_on_paper(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.fill()
    stage.consume()
    fill(stage)
    stage.mirror.run_once()
    page: Any = context.new_page()
    page.set_viewport_size(PAPER)
    page.goto(web.address + "/")
    page.evaluate("localStorage.theme = 'dark'; document.documentElement.dataset.theme = 'dark'")
    faults = []
    for address in PAGES:
        page.goto(web.address + address)
        page.evaluate("document.documentElement.dataset.theme = 'dark'")
        page.emulate_media(media="print")
        faults += [f"{address}: {each}" for each in page.evaluate(WRONG)]
        charts = page.locator("svg.chart:visible")
        if address in ("/", "/schedule/", "/timers/") and not charts.count():
            faults.append(f"{address}: no chart")
        page.emulate_media(media="screen")
    assert faults == []
