"""The Due page, and charts over time: what a browser shows of them, and dragging to zoom."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage

WIDER = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"


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
