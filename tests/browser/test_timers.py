"""The Timers pages in a browser: by keys, live, and through an operation."""

from __future__ import annotations

import re
import time

from playwright.sync_api import BrowserContext, Page, expect

from broker.mirror.announcer import Announcer
from console.operations.models import AuditEntry, Operation
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.console.stage import HOSTILE, Stage, one_word

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(stage: Stage) -> None:
    """Within the next minute, hour and day, a crowd in one second, and hostile names."""
    now = now_ms()
    for number in range(30):
        stage.producer.send("orders", "x", keys=[f"order-{number}"], deliver_at_ms=now + 40_000 + number * 1_900)
        stage.producer.send("orders", "x", keys=[f"late-{number}"], deliver_at_ms=now + HOUR_MS * number // 2 + 90_000)
        stage.producer.send("orders", "x", keys=["crowd"], deliver_at_ms=now // 1_000 * 1_000 + 1_500_000)
    for number, text in enumerate(HOSTILE):
        at_ms = now + 35_000 + number
        stage.producer.send(
            "orders", text, keys=[one_word(text)], tag=one_word(text), schedule_key=text, deliver_at_ms=at_ms
        )
    stage.mirror.run_once()


def choose(page: Page, web: Web, kind: str, count: int = 2) -> None:
    """Choose rows of the list and ask for an operation."""
    page.goto(web.address + "/timers/list/")
    boxes = page.locator("#timers tbody input[type=checkbox]")
    for index in range(count):
        boxes.nth(index).check()
    expect(page.locator("[data-select-count]")).to_have_text(str(count))
    page.get_by_role("button", name=kind).click()


def test_what_waits_comes_and_goes_by_itself(
    stage: Stage, web: Web, context: BrowserContext, teller: Announcer
) -> None:
    page, complaints = opened(context, web.address + "/timers/")
    expect(page.locator("#live")).to_contain_text("Live")
    expect(page.locator("#first")).to_contain_text("No timer fires here.")
    stage.producer.send("orders", "x", keys=["soon"], deliver_at_ms=now_ms() + 6_000)
    stage.mirror.run_once()
    expect(page.locator("#first tbody")).to_contain_text("soon")
    expect(page.locator("#figures dd").first).to_have_text("1")
    expect(page.locator("#wheel a")).not_to_have_count(0)
    expect(page.locator("#first")).to_contain_text("No timer fires here.")
    expect(page.locator("#by-topic tbody")).to_contain_text("orders")
    assert page.evaluate("violations") == []
    assert complaints == []


def test_a_slot_opens_down_to_its_messages(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.producer.send("orders", "x", keys=["only"], deliver_at_ms=now_ms() + 20 * 60_000)
    stage.mirror.run_once()
    page, _ = opened(context, web.address + "/timers/?zoom=10y")
    for zoom in ("30d", "1d", "1h", "1m", "1s"):
        page.locator("#strip svg a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**zoom={zoom}**")
    page.locator("#strip svg a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Timers, list")
    expect(page.locator("#timers tbody")).to_contain_text("only")


def test_an_operation_from_choosing_to_audit_and_a_second_click_does_nothing(
    stage: Stage, web: Web, context: BrowserContext
) -> None:
    fill(stage)
    page, complaints = opened(context, web.address + "/timers/")
    with page.expect_navigation():
        page.keyboard.press("w")
    choose(page, web, "Cancel…", 3)
    expect(page.locator("h1")).to_have_text("Cancel timers")
    page.fill("textarea", "asked for by the customer")
    page.get_by_role("button", name="Cancel timers").dblclick()
    expect(page.locator("#run")).to_contain_text("3 of 3")
    expect(page.locator("#audit")).to_contain_text("asked for by the customer")
    expect(page.locator("#items tbody tr")).to_have_count(3)
    assert Operation.objects.get().results == {"cancelled": 3}
    assert list(AuditEntry.objects.order_by("id").values_list("what", flat=True)) == ["confirmed", "finished"]
    page.reload()
    assert Operation.objects.count() == 1
    assert complaints == []


def test_all_rows_of_a_page_are_chosen_at_once(stage: Stage, web: Web, context: BrowserContext) -> None:
    fill(stage)
    page, _ = opened(context, web.address + "/timers/list/?topic=orders")
    rows = page.locator("#timers tbody tr").count()
    page.get_by_label("All rows of this page").check()
    expect(page.locator("[data-select-count]")).to_have_text(str(rows))
    page.get_by_label("All rows of this page").uncheck()
    expect(page.locator("[data-select-count]")).to_have_text("")


def test_each_button_says_the_digit_that_presses_it(stage: Stage, web: Web, context: BrowserContext) -> None:
    fill(stage)
    page, complaints = opened(context, web.address + "/timers/list/")
    buttons = page.locator("main button[name=kind]")
    expect(buttons).to_have_count(3)
    for index, digit in enumerate("123"):
        expect(buttons.nth(index)).to_have_attribute("data-digit", digit)
    page.locator("#timers tbody input[type=checkbox]").first.check()
    page.keyboard.press("2")
    expect(page).to_have_url(re.compile("/operations/"))
    assert Operation.objects.get().kind == "timers.reschedule"
    page.goto(web.address + "/timers/")
    expect(page.locator("#live")).to_contain_text("Live")
    button = page.locator("main button[name=kind]")
    expect(button).to_have_attribute("data-digit", "1")
    # behind the words without an edge it was read as a count
    key = button.evaluate("e => getComputedStyle(e, '::after').content")
    edge = button.evaluate("e => getComputedStyle(e, '::after').borderTopStyle")
    assert key.startswith('"1"') and edge == "solid"
    assert complaints == []
