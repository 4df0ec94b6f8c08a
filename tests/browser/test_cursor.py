"""One cursor for all charts of a page: by time, not by place, with the mouse and with keys."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from broker.mirror.announcer import Announcer
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.browser.test_dashboards import fill_densely
from tests.console.stage import Stage

#: whether the page is laid out with the lines as without them
TAKES_ROOM = """() => {
  const places = () => JSON.stringify([...document.querySelectorAll("section, svg[data-time]")].map((each) => {
    const box = each.getBoundingClientRect();
    return [box.left, box.top, box.width, box.height, each.scrollWidth];
  }));
  const before = places();
  for (const line of document.querySelectorAll(".cursor")) line.remove();
  return before !== places();
}"""
#: where the line of a drawing is, as a moment of its own axis
AT = """(svg) => {
  const [left, right] = svg.dataset.box.split(" ").map(Number), line = svg.querySelector(".cursor path");
  const share = (Number(line.getAttribute("d").slice(1).split("V")[0].split(" ")[0]) - left) / (right - left);
  return Number(svg.dataset.start) + share * (Number(svg.dataset.end) - Number(svg.dataset.start));
}"""


def point(page: Page, drawing: str, at_ms: int) -> None:
    """Move the mouse to a moment of a drawing, in the middle of its plot."""
    place: Any = page.locator(drawing).evaluate(
        """(svg, at) => {
          const [left, right, top, foot] = svg.dataset.box.split(" ").map(Number);
          const share = (at - Number(svg.dataset.start)) / (Number(svg.dataset.end) - Number(svg.dataset.start));
          const place = new DOMPoint(left + share * (right - left), (top + foot) / 2);
          const seen = place.matrixTransform(svg.getScreenCTM());
          return [seen.x, seen.y];
        }""",
        at_ms,
    )
    page.mouse.move(*place)


def test_a_moment_is_the_same_in_every_chart(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer, shots: Path | None
) -> None:
    # in the middle of a slot of every chart: a pixel of the forecast is some seconds
    due_ms = time.time_ns() // 1_000_000 // 60_000 * 60_000 + 20 * 60_000 + 45_000
    for number in range(5):
        stage.producer.send("orders", "x", deliver_at_ms=due_ms + number)
    stage.mirror.run_once()
    page, complaints = opened(context, f"{web.address}/timers/?zoom=1h")
    expect(page.locator("#live")).to_contain_text("Live")
    page.set_viewport_size({"width": 1440, "height": 3_000})
    expect(page.locator("#strip svg")).to_have_attribute("data-values", re.compile(r"\b5\b"))
    point(page, "#forecast svg", due_ms)
    # other charts, other ranges: the strip holds an hour, the wheel's rings a minute, an hour and a day
    expect(page.locator("#strip .cursor text")).to_have_text(re.compile("· 5$"))
    expect(page.locator("#wheel .cursor text")).to_have_text(["5", "5"])
    moments = [page.locator(f"{chart} svg").evaluate(AT) for chart in ("#forecast", "#strip")]
    assert all(abs(at - due_ms) < 10_000 for at in moments), (due_ms, moments)
    # a live frame brings another drawing: the line is in it, with its figure
    stage.producer.send("orders", "x", deliver_at_ms=due_ms)
    stage.mirror.run_once()
    expect(page.locator("#strip .cursor text")).to_have_text(re.compile("· 6$"))
    expect(page.locator("#strip .cursor")).to_have_count(1)
    if shots:
        page.screenshot(path=shots / "cursor-timers.png")
    assert page.evaluate(TAKES_ROOM) is False
    point(page, "#forecast svg", due_ms + 60_000)
    # as before it, and before that: written once in the drawing
    expect(page.locator("#forecast .cursor text")).to_have_text(re.compile("· 0/s$"))
    page.emulate_media(media="print")
    expect(page.locator("#strip .cursor")).to_be_hidden()
    page.emulate_media(media="screen")
    page.mouse.move(2, 2)
    expect(page.locator(".cursor")).to_have_count(0)
    assert complaints == []


def test_a_moment_is_chosen_by_keys_and_said(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None
) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/schedule/")
    chart = page.locator("#minute [data-times]")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#minute .cursor text")).to_have_count(1)
    # lanes reach further: what is 58 seconds ahead is at seven tenths of their two hours' logarithm
    expect(page.locator("#lane-16 .lane .cursor")).to_have_count(1)
    expect(page.locator("#moment")).to_have_text(
        re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d; Next 60 seconds, all delay levels \d")
    )
    expect(chart).to_be_focused()
    if shots:
        page.screenshot(path=shots / "cursor-lanes.png")
    page.keyboard.press("Escape")
    expect(page.locator(".cursor")).to_have_count(0)
    assert complaints == []


def test_plots_follow_each_other(web: Web, context: BrowserContext, shots: Path | None) -> None:
    fill_densely()
    page, complaints = opened(context, f"{web.address}/dashboards/flow/")
    plots = page.locator("[data-plot]:not([hidden])")
    expect(plots).to_have_count(2)
    plots.first.focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    # each says it in its legend: bytes of the fourth minute beside the messages of the fourth minute
    expect(plots.nth(1).locator(".u-legend")).to_contain_text("90 kB")
    expect(plots.first.locator(".u-legend")).to_contain_text(":03")
    expect(plots.nth(1).locator(".u-legend")).to_contain_text(":03")
    if shots:
        page.screenshot(path=shots / "cursor-plots.png")
    plots.nth(1).locator(".u-over").hover()
    expect(plots.first.locator(".u-legend")).not_to_contain_text(":03")
    expect(plots.first.locator(".u-legend")).to_contain_text(re.compile(r"orders\D*\d"))
    assert complaints == []
