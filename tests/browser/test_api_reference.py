"""The reference of the REST interface in a real browser: searched, and run as whoever is signed in, in every look."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from console.rest import as_me
from console.rest.routes import ROUTES
from tests.browser.conftest import Web
from tests.browser.looks import faults_of
from tests.browser.opening import opened
from tests.console.stage import Stage


@pytest.fixture
def reference(web: Web, context: BrowserContext) -> Iterator[Page]:
    """The open page."""
    page, complaints = opened(context, f"{web.address}/api/docs")
    yield page
    assert page.evaluate("violations") == []
    assert complaints == []
    as_me.hang_up()


def test_operations_are_grouped_and_searched(reference: Page) -> None:
    rows = reference.locator("main tbody th a[href^='/api/docs/']")
    expect(rows).to_have_count(len(ROUTES))
    expect(reference.get_by_role("heading", name="Transactions")).to_be_visible()
    reference.get_by_label("Search operations").fill("get wheel")
    reference.get_by_label("Search operations").press("Enter")
    expect(rows).to_have_count(1)
    rows.click()
    expect(reference.locator("main")).to_contain_text("/api/v1/timers/wheel")


def test_a_request_that_reads_is_run_at_once(web: Web, reference: Page, shots: Path | None) -> None:
    reference.goto(f"{web.address}/api/docs/get_topics/")
    reference.get_by_role("button", name="Run", exact=True).click()
    expect(reference.locator("#answer-title, [aria-labelledby=answer-title]").first).to_contain_text("200")
    expect(reference.locator("[aria-labelledby=answer-title] pre")).to_contain_text('"orders"')
    assert faults_of(reference, shots / "api-read" if shots else None) == []


def test_a_change_is_previewed_and_run_with_a_reason(
    stage: Stage, web: Web, reference: Page, shots: Path | None
) -> None:
    reference.goto(f"{web.address}/api/docs/topics_make_topic/")
    reference.get_by_label("Body, JSON").fill('{"name": "by-hand", "settings": {"read_queues": 3}}')
    assert faults_of(reference, shots / "api-change" if shots else None) == []
    reference.get_by_role("button", name="Preview…").click()
    answer = reference.locator("[aria-labelledby=answer-title]")
    expect(answer).to_contain_text("Nothing was done.")
    assert faults_of(reference, shots / "api-previewed" if shots else None) == []
    reference.locator("[name=reason]").fill("to try")
    reference.get_by_role("button", name="Run as previewed").click()
    expect(answer).to_contain_text("202")
    expect(answer).to_contain_text('"done"')
    # nothing follows the broker here: its page is there when it is mirrored
    stage.mirror.run_once()
    reference.goto(f"{web.address}/topics/by-hand/")
    expect(reference.locator("h1")).to_have_text("by-hand")


def test_an_error_leads_to_its_row(web: Web, reference: Page) -> None:
    reference.goto(f"{web.address}/api/docs#scope_missing")
    reference.reload()
    expect(reference.locator("#scope_missing")).to_be_in_viewport()
