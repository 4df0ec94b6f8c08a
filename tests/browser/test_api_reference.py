"""The reference of the REST interface: searched, tried with a token, in both themes, within a strict policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from console.features.alerts.models import AlertRule
from console.rest.app import application
from console.security import tokens as security_tokens
from tests.browser.conftest import Web
from tests.browser.opening import opened

#: what the browser says of an answer that is expected
REFUSED = "status of 401"


@pytest.fixture
def reference(web: Web, context: BrowserContext) -> Iterator[Page]:
    """The open page; its requests are answered by the application of this process."""
    page, complaints = opened(context, f"{web.address}/api/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    yield page
    assert page.evaluate("violations") == []
    assert [said for said in complaints if REFUSED not in said] == []
    web.stop()
    # Playwright runs a loop in this thread
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(application.state.holder.close())).result()


def test_operations_are_grouped_and_searched(reference: Page) -> None:
    groups = reference.locator(".opblock-tag")
    assert {"Messages", "Timers", "Transactions"} <= set(
        groups.evaluate_all("all => all.map(each => each.dataset.tag)")
    )
    whole = reference.locator(".opblock").count()
    reference.get_by_role("searchbox", name="Search").fill("get wheel")
    expect(reference.locator(".opblock")).to_have_count(1)
    expect(reference.locator(".opblock-summary-path")).to_contain_text("/api/v1/timers/wheel")
    reference.get_by_role("searchbox", name="Search").fill("")
    expect(reference.locator(".opblock")).to_have_count(whole)


def test_a_request_is_tried_with_a_token(reference: Page, shots: Path | None) -> None:
    AlertRule.objects.create(name="late", what="backlog", subject="orders", limit=5)
    token = security_tokens.create("page", security_tokens.scope_rows([], [], settings=["*"]))[1]
    operation = reference.locator("#operations-Alerts-get_rules")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Execute").click()
    answer = operation.locator(".live-responses-table .response").first
    expect(answer.locator(".response-col_status")).to_contain_text("401")
    reference.locator(".btn.authorize").click()
    reference.locator(".auth-container input").fill(token)
    reference.locator(".auth-btn-wrapper .authorize").click()
    reference.locator(".auth-btn-wrapper .btn-done").click()
    operation.get_by_role("button", name="Execute").click()
    expect(answer.locator(".response-col_status")).to_contain_text("200")
    expect(answer).to_contain_text("late")
    if shots is not None:
        reference.screenshot(path=shots / "api-reference-tried.png")


def test_an_error_leads_to_its_row(web: Web, reference: Page) -> None:
    reference.goto(f"{web.address}/api/docs#scope_missing")
    reference.reload()
    expect(reference.locator(".opblock").first).to_be_attached()
    expect(reference.locator("#scope_missing")).to_be_in_viewport()


@pytest.mark.parametrize(("theme", "ground"), [("light", "rgb(247, 248, 250)"), ("dark", "rgb(18, 21, 28)")])
def test_it_has_the_theme_that_was_chosen(
    web: Web, reference: Page, theme: str, ground: str, shots: Path | None
) -> None:
    reference.context.add_cookies([{"name": "theme", "value": theme, "url": web.address}])
    reference.reload()
    expect(reference.locator(".opblock").first).to_be_visible()
    expect(reference.locator("body")).to_have_css("background-color", ground)
    expect(reference.locator("html")).to_have_class("dark-mode" if theme == "dark" else "")
    if shots is not None:
        reference.screenshot(path=shots / f"api-reference-{theme}.png")
