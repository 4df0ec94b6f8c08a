"""Journeys through what moves messages: the life of one, who is connected, and how topics and groups are set."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage
from tests.console.test_message_life import consumed_events, sent, sent_event, tell


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
    expect(page.locator("#trace")).to_contain_text("told by clients")
    if shots:
        page.screenshot(path=shots / "life.png", full_page=True)
    here = page.url
    steps.filter(has_text="dead letter").get_by_role("link").last.click()
    expect(page).not_to_have_url(here)
    expect(page.locator("section:has(#life-title) tbody tr")).to_have_count(4)
    assert complaints == []
    assert page.evaluate("violations") == []
