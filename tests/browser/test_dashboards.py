"""Dashboards in a real browser: dense series, and progress that goes on by itself."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, expect

from console.features.dashboards.models import DashboardRun
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.dashboards.test_dashboards import HOSTILE, NOON_MS, computed, flow

NAMES = ["flow", "lateness", "retries", "ledger"]


def fill() -> None:
    flow()
    hours = [("hour_p99", "orders", "", "", NOON_MS + hour * 3_600_000, 3.0 * hour, None) for hour in range(40)]
    lane = [
        (f"late_{name}", "orders", "level 3", "", None, 5.0, None) for name in ("count", "p50", "p95", "p99", "max")
    ]
    spans = [("histogram", "orders", "level 3", span, None, 7.0, None) for span in ("< 1 ms", "< 10 ms", ">= 1 y")]
    computed("lateness", *hours, *lane, *spans)
    computed(
        "retries",
        ("attempts", "%RETRY%mail", "mail", "1", None, 9.0, None),
        ("poison", "%DLQ%mail", "mail", HOSTILE * 4, None, 4.0, [1, 2]),
    )
    computed(
        "ledger",
        ("alarm", "orders", "", "twice", None, 2.0, [4096]),
        ("difference", "orders", "scheduled", "", 0, 0.0, None),
    )


def fill_densely() -> None:
    """A day of minutes on three topics, and a gap in it."""
    computed(
        "flow",
        *[
            ("sent", topic, "", "", NOON_MS + minute * 60_000, 40.0 + 30 * math.sin(minute / 90 + turn), [minute])
            for minute in range(1_440)
            for turn, topic in enumerate(("orders", "seats", "mail"))
            if not 600 <= minute < 660
        ],
        *[("bytes", "orders", "", "", NOON_MS + minute * 60_000, 9e4 + minute * 50, None) for minute in range(1_440)],
        ("producers", "orders", "10.0.0.1", "", None, 60.0, [1, 2]),
    )


def test_progress_goes_on_without_a_reload(web: Web, context: BrowserContext) -> None:
    run = DashboardRun.objects.create(broker="broker-a", dashboard="flow", state="running", progress=0.2, source="/s")
    page, complaints = opened(context, f"{web.address}/dashboards/flow/")
    expect(page.locator("#active")).to_contain_text("20 %")
    DashboardRun.objects.update(progress=0.7)
    expect(page.locator("#active")).to_contain_text("70 %")
    DashboardRun.objects.filter(id=run.id).update(state="done")
    expect(page.locator("#active progress")).to_have_count(0)
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_dense_series_is_plotted_under_the_strict_policy(
    web: Web, context: BrowserContext, shots: Path | None, scheme: str
) -> None:
    fill_densely()
    page, complaints = opened(context, f"{web.address}/dashboards/flow/")
    page.emulate_media(color_scheme=scheme)
    plots = page.locator("[data-plot]:not([hidden]) canvas")
    expect(plots).to_have_count(2)
    expect(page.locator("[data-plot] .u-legend").first).to_contain_text("orders")
    results = Axe().run(page)
    if shots:
        page.screenshot(path=shots / f"dashboard-dense-{scheme}.png", full_page=True)
    assert [v["id"] for v in results.response["violations"] if v["impact"] in ("serious", "critical")] == []
    assert page.evaluate("violations") == []
    assert complaints == []
    page.set_viewport_size({"width": 320, "height": 700})
    expect(plots).to_have_count(2)
    page.wait_for_function("document.querySelector('[data-plot] .uplot').getBoundingClientRect().right <= 321")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_plot_leads_to_a_range_and_to_messages(web: Web, context: BrowserContext) -> None:
    fill_densely()
    page, complaints = opened(context, f"{web.address}/dashboards/flow/?topic=orders")
    page.wait_for_load_state("networkidle")  # each plot takes a drawing's place when its own data is there
    over = page.locator("[data-plot] .u-over").first
    over.click()  # the plot has had no time to follow the mouse
    page.wait_for_url(re.compile(r"series=sent&at=\d+&step=60000#behind"))
    expect(page.locator("#behind")).to_contain_text("One bar of Sent")
    page.wait_for_load_state("networkidle")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 50, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, middle, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"topic=orders&from=2026-\S+Z&to=2026-"))
    assert "series=" not in page.url
    expect(page.locator("input[name=from]")).to_have_value(re.compile("2026-.*Z"))
    assert complaints == []


def test_without_a_script_the_drawing_stays(web: Web, context: BrowserContext) -> None:
    fill_densely()
    page, _ = opened(context, f"{web.address}/topics/")
    page.route("**/*.js", lambda route: route.abort())
    page.goto(f"{web.address}/dashboards/flow/")
    expect(page.locator("svg.chart a rect").first).to_be_visible()
    assert page.locator("[data-plot]:not([hidden])").count() == 0
