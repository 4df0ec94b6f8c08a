"""Findings and evidence in a browser: a dot that opens by keys, and a finding that is snoozed without a script."""

from __future__ import annotations

from django.test import Client
from playwright.sync_api import Browser, BrowserContext, expect

from broker.mirror.announcer import Announcer
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.stage import Stage


def test_what_is_behind_a_dot_is_opened_by_keys_and_stays_open_when_the_page_changes(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer
) -> None:
    stage.fill()
    page, complaints = opened(context, web.address + "/")
    dot = page.locator("#findings .dot")
    said = dot.locator("p")
    expect(said).to_be_hidden()
    dot.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(said).to_contain_text("broker-a · request 14000")
    expect(dot.get_by_text("Source")).to_be_attached()
    accepted = page.locator("#figures")
    before = accepted.inner_text()
    stage.producer.send("orders", "one more", keys=["late"], delay_ms=3_600_000)
    stage.mirror.run_once()
    teller.announce(2**31, ["topics", "levels", "queues"])
    page.wait_for_function("(was) => document.querySelector('#figures').innerText !== was", arg=before)
    expect(said).to_be_visible()
    page.keyboard.press("Enter")
    expect(said).to_be_hidden()
    assert complaints == []


def test_a_finding_is_snoozed_and_counted_again_without_a_script(
    stage: Stage, web: Web, chromium: Browser, operator: Client
) -> None:
    stage.fill()
    bury(stage, "order-1", tag="paid")
    stage.mirror.run_once()
    context = chromium.new_context(java_script_enabled=False)
    cookie = operator.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": web.address}])
    page = context.new_page()
    page.goto(web.address + "/")
    row = page.locator("#findings .finding").filter(has_text="billing").first
    title = row.locator("b").first.inner_text()
    row.get_by_role("link", name="Snooze…").first.click()
    page.get_by_label("Reason").fill("the bank is down")
    page.get_by_role("button", name="Snooze").click()
    folded = page.locator("#put-off")
    expect(folded.locator("summary")).to_have_text("1 snoozed or ignored, not counted")
    expect(folded.get_by_text("the bank is down")).to_be_hidden()
    folded.locator("summary").click()
    expect(folded.get_by_text("the bank is down")).to_be_visible()
    expect(folded.locator("b").first).to_have_text(title)
    folded.get_by_role("link", name="Count again…").click()
    page.get_by_label("Reason").fill("the bank is back")
    page.get_by_role("button", name="Count again").click()
    expect(page.locator("#put-off")).to_have_count(0)
    context.close()
