"""Journeys through what moves messages: the life of one, who is connected, and how topics and groups are set."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from broker.mirror.announcer import Announcer
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.clients.test_clients import connected
from tests.console.messages.test_life import consumed_events, sent, sent_event, tell
from tests.console.stage import HOSTILE, Stage


def test_why_a_message_was_given_up_is_told_by_its_life(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None
) -> None:
    stage.producer.send("orders", "first")
    stage.consume()
    record = sent(stage)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    stage.mirror.run_once()
    tell(
        stage, record, sent_event(record, at_ms=record.store_ms - 4, client=HOSTILE[0]),
        consumed_events(record, at_ms=record.store_ms + 12, worked="false", took_ms=31),
    )  # fmt: skip
    page, complaints = opened(context, web.address + "/messages/?topic=orders&q=order-1")
    page.locator("tbody a").first.click()
    steps = page.locator("section:has(#life-title) tbody tr")
    expect(steps).to_have_count(4)
    expect(steps.nth(0)).to_contain_text(HOSTILE[0])
    expect(steps.filter(has_text="failed")).to_contain_text("billing")
    expect(page.locator("#trace")).to_contain_text("reported by clients")
    if shots:
        page.screenshot(path=shots / "life.png", full_page=True)
    here = page.url
    steps.filter(has_text="dead letter").get_by_role("link").last.click()
    expect(page).not_to_have_url(here)
    expect(page.locator("section:has(#life-title) tbody tr")).to_have_count(4)
    assert complaints == []
    assert page.evaluate("violations") == []


def test_from_a_group_to_what_one_of_its_clients_does(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer, shots: Path | None
) -> None:
    with connected(stage, "java@1", answers=True, stack="TID: 1 main"):
        page, complaints = opened(context, web.address + "/groups/billing/")
        page.get_by_role("link", name="Open its clients").click()
        rows = page.locator("#clients tbody tr")
        expect(rows).to_have_count(1)
        if shots:
            page.screenshot(path=shots / "clients.png", full_page=True)
        page.get_by_role("link", name="java@1").click()
        expect(page.get_by_role("heading", name="Reported for billing")).to_be_visible()
        page.get_by_role("link", name="Get thread stacks").click()
        expect(page.locator("pre")).to_contain_text("TID: 1 main")
        if shots:
            page.screenshot(path=shots / "client.png", full_page=True)
        page.keyboard.press("c")
        expect(rows.filter(has_text="java@1")).to_have_count(2)
    expect(rows.filter(has_text="java@1")).to_have_count(0)
    assert complaints == []
    assert page.evaluate("violations") == []


def test_a_topic_is_made_changed_put_back_and_deleted(
    stage: Stage, web: Web, context: BrowserContext, shots: Path | None
) -> None:
    page, complaints = opened(context, web.address + "/topics/")
    page.get_by_role("textbox", name="Name", exact=True).fill("bills")
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Reason").fill("a new service")
    page.get_by_role("button", name="Create topic").click()
    expect(page.locator("#state")).to_contain_text("done")
    stage.mirror.run_once()
    page.goto(web.address + "/topics/bills/")
    page.get_by_label("Write queues").fill("8")
    page.get_by_label("Permission").select_option("6")
    if shots:
        page.screenshot(path=shots / "topic.png", full_page=True)
    page.get_by_role("button", name="Preview change").click()
    expect(page.locator("section:has(#hit-title) tbody tr")).to_have_count(1)
    page.get_by_label("Reason").fill("more load")
    if shots:
        page.screenshot(path=shots / "change.png", full_page=True)
    page.get_by_role("button", name="Apply changes").click()
    page.get_by_role("button", name="Restore settings…").click()
    page.get_by_label("Reason").fill("it was too many")
    page.get_by_role("button", name="Apply changes").click()
    expect(page.locator("#state")).to_contain_text("done")
    page.goto(web.address + "/topics/bills/")
    expect(page.get_by_label("Write queues")).to_have_value("4")
    page.get_by_role("button", name="Delete…").click()
    page.get_by_label("Reason").fill("gone")
    page.get_by_label("type bills").fill("bills")
    if shots:
        page.screenshot(path=shots / "delete.png", full_page=True)
    page.get_by_role("button", name="Delete topic").click()
    expect(page.locator("#state")).to_contain_text("done")
    assert stage.admin.topic_settings("bills") is None
    assert complaints == []
    assert page.evaluate("violations") == []
