"""Six journeys by keyboard alone, from the first page to what is in the broker afterwards (docs/JOURNEYS.md).

A step is one thing that somebody decides: a chord or a key that is pressed, or a text that is typed into the field that
has the focus. Each press counts, Enter and Tab too; looking and waiting do not. The numbers below must not grow.
"""

from __future__ import annotations

import time

from playwright.sync_api import BrowserContext, Page, expect

from broker.client import prepare
from broker.client.transactions import Transaction
from console.operations.models import AuditEntry, Operation
from tests.browser.conftest import Web
from tests.browser.opening import opened
from tests.browser.test_transactions import producer_of
from tests.console.dead_letters.test_dead_letters import bury, received
from tests.console.stage import Stage

HOUR_MS = 3_600_000
REASON = "asked for by the customer"


class Hands:
    """Somebody at a keyboard; there is no mouse."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps = 0

    def press(self, key: str) -> None:
        """One key or chord."""
        self.page.keyboard.press(key)
        self.steps += 1

    def type(self, text: str) -> None:
        """One text, into what has the focus."""
        self.page.keyboard.type(text)
        self.steps += 1

    def choose(self, shown: str) -> None:
        """What the palette has first, once it shows this."""
        expect(self.page.locator("#palette [aria-selected=true]")).to_contain_text(shown)
        self.press("Enter")


def hands_on(web: Web, context: BrowserContext) -> tuple[Hands, list[str]]:
    """The first page is open."""
    page, complaints = opened(context, web.address + "/")
    return Hands(page), complaints


def nothing_broke(hands: Hands, complaints: list[str]) -> None:
    assert complaints == []
    assert hands.page.evaluate("violations") == []


def waiting(stage: Stage) -> set[str]:
    """Schedule keys of the timers that wait."""
    return {each.schedule_key or "" for each in stage.admin.timers(0, 2**62).items}


def asked_for(hands: Hands, command: str, *, offered: str, shown: str) -> Operation:
    """A command with its reason: what it would do is looked at, then confirmed."""
    hands.press("Control+k")
    hands.type(f"{command} {REASON}")
    hands.choose(offered)
    figures = hands.page.locator("#preview-figures")
    expect(figures).to_contain_text(shown)
    expect(hands.page.locator("textarea[name=reason]")).to_be_focused()
    expect(hands.page.locator("textarea[name=reason]")).to_have_value(REASON)
    assert Operation.objects.get().state == Operation.State.DRAFT
    hands.press("Enter")
    expect(hands.page.locator("#state")).to_contain_text("done")
    assert AuditEntry.objects.filter(reason=REASON).exists()
    return Operation.objects.get()


def test_a_message_is_found_by_its_order_number(stage: Stage, web: Web, context: BrowserContext) -> None:
    for number in range(20):
        stage.producer.send("orders", f'{{"order": {number}}}', keys=[f"order-{number}"])
    stage.mirror.run_once()
    hands, complaints = hands_on(web, context)
    hands.press("Control+k")
    hands.type("order-17")
    hands.choose("order-17")
    expect(hands.page.locator("h1")).to_have_text("order-17")
    expect(hands.page.locator("main")).to_contain_text('"order": 17')
    assert hands.steps == 3
    hands.press("/")
    hands.type("order-4")
    hands.press("Enter")
    expect(hands.page.locator("h1")).to_have_text("order-4")
    assert hands.steps == 6
    nothing_broke(hands, complaints)


def test_the_timers_of_one_order_are_cancelled(stage: Stage, web: Web, context: BrowserContext) -> None:
    due_ms = time.time_ns() // 1_000_000 + HOUR_MS
    for order in ("order-17", "order-18"):
        for name in ("remind", "expire", "archive"):
            key = f"{order}/{name}"
            stage.producer.send("orders", "x", keys=[order], schedule_key=key, deliver_at_ms=due_ms)
    stage.mirror.run_once()
    hands, complaints = hands_on(web, context)
    done = asked_for(hands, "cancel order-17", offered="Cancel the timers with the key “order-17”", shown="3")
    assert done.results == {"cancelled": 3}
    assert waiting(stage) == {"order-18/remind", "order-18/expire", "order-18/archive"}
    assert hands.steps == 4
    hands.press("1")
    expect(hands.page.locator("h1")).to_have_text("Undo changes to timers")
    nothing_broke(hands, complaints)


def test_why_a_message_is_late_is_seen(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    for number in range(5):
        stage.producer.send("orders", "x", keys=[f"order-{number}"], queue_id=0)
    stage.mirror.run_once()
    hands, complaints = hands_on(web, context)
    hands.press("Control+k")
    hands.type("order-4")
    hands.choose("order-4")
    row = hands.page.locator("#readers tbody tr")
    expect(row).to_contain_text("billing")
    expect(row).to_contain_text("not received yet")
    expect(row).to_contain_text("no consumer of the group is connected")
    expect(row.locator("td").nth(2)).to_have_text("4")
    assert hands.steps == 3
    nothing_broke(hands, complaints)


def test_a_group_is_moved_back_an_hour(stage: Stage, web: Web, context: BrowserContext) -> None:
    for _ in range(3):
        stage.producer.send("orders", "x", queue_id=0)
    stage.consume()
    stage.wait_for(lambda: offset_of(stage) == 3)
    stage.mirror.run_once()
    hands, complaints = hands_on(web, context)
    asked_for(hands, "reset billing -1h", offered="Reset offsets of billing on orders to -1h", shown="Redelivered")
    assert offset_of(stage) == 0
    assert hands.steps == 4
    nothing_broke(hands, complaints)


def offset_of(stage: Stage) -> int | None:
    """Where the group `billing` goes on in queue 0."""
    stats = stage.admin.consume_stats("billing")
    return next((each.consumer_offset for each in stats.queues if each.queue.queue_id == 0), None)


def test_two_hundred_dead_letters_are_sent_again(stage: Stage, web: Web, context: BrowserContext) -> None:
    stage.producer.send("orders", "first")
    stage.consume()
    for number in range(200):
        bury(stage, f"order-{number}")
    stage.mirror.run_once()
    hands, complaints = hands_on(web, context)
    done = asked_for(hands, "resend 200 billing", offered="Resend the dead letters of billing", shown="200")
    assert done.results == {"sent_back": 200}
    assert len({message.keys[0] for message in received(stage, 200)}) == 200
    assert hands.steps == 4
    nothing_broke(hands, complaints)


def test_a_half_open_transaction_is_resolved(stage: Stage, web: Web, context: BrowserContext) -> None:
    with producer_of(stage, "payers") as payers:
        for number in range(3):
            payers.send_half("orders", prepare("x", keys=[f"order-{number}"]))
        stage.mirror.run_once()
        hands, complaints = hands_on(web, context)
        asked_for(hands, "commit order-1", offered="Commit the transactions with the key “order-1”", shown="1")
        assert [each.keys for each in open_ones(stage)] == [["order-0"], ["order-2"]]
        stage.wait_for(lambda: stage.admin.messages_by_key("orders", "order-1"))
        assert hands.steps == 4
        nothing_broke(hands, complaints)


def open_ones(stage: Stage) -> list[Transaction]:
    """Halves that nobody has decided."""
    return sorted(stage.admin.transactions("open").items, key=lambda each: each.offset)
