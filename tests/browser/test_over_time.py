"""The Due page, and charts over time: what a browser shows of them, and dragging to zoom."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import BrowserContext, expect

from broker.mirror.announcer import Announcer
from console.kept_figures import MINUTE_MS, Figures, keep_figures
from console.operations.models import Operation
from console.past import Snapshot
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage

WIDER = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"


def test_an_open_page_moves_and_its_table_stays_open(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer
) -> None:
    page, complaints = opened(context, f"{web.address}/due/?window=10m")
    expect(page.locator("#live")).to_contain_class("verd")
    page.locator("#due-chart summary").click()
    stage.producer.send("orders", "x", delay_level=9)
    stage.mirror.run_once()
    expect(page.locator("#due-table tbody tr")).to_have_count(1)
    expect(page.locator("#due-table")).to_be_visible()
    page.goto(f"{web.address}/schedule/")
    expect(page.locator("#live")).to_contain_class("verd")
    assert complaints == []


@pytest.mark.parametrize("width", [1440, 390])
def test_what_is_found_is_asked_for_below_all_that_narrows_it(web: Web, context: BrowserContext, width: int) -> None:
    page, _ = opened(context, f"{web.address}/messages/")
    page.set_viewport_size({"width": width, "height": 900})
    # folded on a telephone
    if page.locator(".findform summary").is_visible():
        page.locator(".findform summary").click()
    feet = page.locator(".findform input").evaluate_all("all => all.map((e) => e.getBoundingClientRect().bottom)")
    button = page.locator(".findform button").evaluate("(e) => e.getBoundingClientRect().bottom")
    assert button >= max(feet)


@pytest.mark.parametrize("width", [1440, 390])
def test_what_falls_due_is_answered_first_and_fits(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None, width: int
) -> None:
    stage.fill()
    for number in range(40):
        due_ms = time.time_ns() // 1_000_000 + 60_000 * number + 90_000
        stage.producer.send("orders", HOSTILE[0], keys=["k"], deliver_at_ms=due_ms)
        stage.producer.send("orders", "x", delay_level=9)
    stage.mirror.run_once()
    page, complaints = opened(context, f"{web.address}/due/?window=1h")
    page.set_viewport_size({"width": width, "height": 900})
    expect(page.locator("#verdict")).to_contain_text("fall due")
    assert not page.evaluate(WIDER)
    drawing = page.locator("#due-chart svg.chart")
    expect(drawing.locator("a")).to_have_count(2)
    if shots is not None:
        page.screenshot(path=shots / f"due-{width}.png", full_page=True)
    drawing.locator("a").nth(1).press("Enter")
    expect(page).to_have_url(f"{web.address}/timers/list/" + page.url.partition("/timers/list/")[2])
    expect(page.locator("tbody tr")).not_to_have_count(0)
    assert complaints == []
    assert page.evaluate("violations") == []


def test_dragging_over_a_chart_opens_that_stretch(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None
) -> None:
    stage.fill()
    stage.consume()
    fill_charts()
    page, complaints = opened(context, f"{web.address}/groups/billing/")
    drawing = page.locator("#over-time svg[data-zoom]").first
    expect(drawing.locator("polyline")).not_to_have_count(0)
    drawing.scroll_into_view_if_needed()
    if shots is not None:
        page.screenshot(path=shots / "over-time-1440.png", full_page=True)
        for name in ("/", "/topics/orders/", "/timers/", "/dashboards/"):
            page.goto(web.address + name)
            page.screenshot(path=shots / f"over-time{name.replace('/', '-')}.png", full_page=True)
        page.goto(f"{web.address}/groups/billing/")
    start, end = (int(drawing.get_attribute(f"data-{name}") or 0) for name in ("start", "end"))
    place: list[float] = drawing.evaluate(
        """(svg) => {
          const [left, right, top, foot] = svg.dataset.box.split(" ").map(Number), seen = svg.getScreenCTM();
          const at = (share) => new DOMPoint(left + share * (right - left), (top + foot) / 2).matrixTransform(seen);
          return [at(0.25).x, at(0.75).x, at(0).y];
        }"""
    )
    page.mouse.move(place[0], place[2])
    page.mouse.down()
    page.mouse.move(place[1], place[2], steps=4)
    expect(drawing.locator(".drawn")).to_have_count(1)
    # what a live page's next frame does: the same drawing without the band, or another in its place
    drawing.evaluate("(svg) => svg.querySelector('.drawn').remove()")
    expect(drawing.locator(".drawn")).to_have_count(1)
    drawing.evaluate(
        """(svg) => {
          const next = svg.cloneNode(true);
          next.querySelector(".drawn").remove();
          svg.replaceWith(next);
        }"""
    )
    expect(drawing.locator(".drawn")).to_have_count(1)
    page.mouse.up()
    page.wait_for_url("**/groups/billing/?from=*")
    quarter = (end - start) / 4
    zoomed = page.locator("#over-time svg[data-zoom]").first
    assert abs(int(zoomed.get_attribute("data-start") or 0) - start - quarter) <= 120_000
    assert abs(int(zoomed.get_attribute("data-end") or 0) - end + quarter) <= 120_000
    # a click is no stretch, and the links lead back
    zoomed.click(position={"x": 100, "y": 60})
    page.locator("#over-time .segments a").first.click()
    page.wait_for_url("**/groups/billing/?over=hour#over-time")
    page.set_viewport_size({"width": 390, "height": 844})
    assert not page.evaluate(WIDER)
    assert complaints == []
    assert page.evaluate("violations") == []


def fill_charts() -> None:
    """An hour of figures that go up and down, with a gap of some minutes."""
    end_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    subjects = [("flow", "accepted"), ("flow", "consumed"), ("lanes", ""), ("timers", ""), ("topic", "orders"),
                ("group", "billing")]  # fmt: skip
    passed = 0
    for at in range(61):
        passed += 300 + 200 * (at % 7)
        slot_ms = end_ms - (61 - at) * MINUTE_MS
        if 20 <= at < 26:
            continue
        Snapshot.objects.create(broker="broker-a", slot_ms=slot_ms, at_ms=slot_ms, lanes=b"x", timers=b"x")
        figures = [Figures(*each, passed, 1_000 + 90 * (at % 11), 50 * (at % 5), 900 * (at % 4)) for each in subjects]
        keep_figures("broker-a", slot_ms, figures)
    for minutes in (50, 12):
        Operation.objects.create(
            kind="groups.reset_offsets", parameters={"group": "billing", "topic": "orders", "to": "last"}, state="done",
            started_at=timezone.now() - timedelta(minutes=minutes), actor=HOSTILE[1],
        )  # fmt: skip
