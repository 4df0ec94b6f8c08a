"""What a key leads to where several things have it: a page that shows them, with counts, states and moments."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.client import Decision, TransactionProducer, prepare
from console.operations import workflow
from console.operations.actor import Actor
from console.site.clock import now_ms
from console.under_key import SHOWN, ThingKind
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.people import browser_of
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage
from tests.waiting import until

HOUR_MS = 3_600_000


@pytest.fixture
def several(stage: Stage) -> Stage:
    """A message, a timer, a message on a lane, a half and a dead letter, all under one key."""
    stage.admin.create_topic("bills", queues=1)
    stage.producer.send("orders", "x", keys=["order-8"], queue_id=0)
    stage.producer.send("orders", "x", keys=["order-8"], deliver_at_ms=now_ms() + HOUR_MS)
    stage.producer.send("orders", "x", keys=["order-8"], delay_level=16)
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        producer.send_half("bills", prepare("x", keys=["order-8"]))
    bury(stage, "order-8")
    stage.mirror.run_once()
    return stage


def without_times(words: str) -> str:
    """What counts on is another second later."""
    return re.sub(r"<time.*?</time>", "", unescape(words), flags=re.DOTALL)


def things(browser: Client, key: str) -> Any:
    return browser.get("/find/key/", {"q": key}).context["data"]


def test_everything_with_a_key_is_shown_itself(several: Stage, operator: Client) -> None:
    """A key of a timer led to a list of lists, without counts or moments."""
    answer = operator.get("/find/key/", {"q": "order-8"})
    page, found = unescape(answer.content.decode()), answer.context["data"]
    (timer,) = several.admin.timers(0, 2**62).items
    (half,) = several.admin.transactions("open").items
    assert [row.kind for row in found.rows] == [kind for kind in ThingKind if kind is not ThingKind.OPERATION]
    waiting, undecided, delayed, dead, stored = found.rows
    assert waiting.address == f"/timers/{timer.position}/" and waiting.due_ms == timer.due_ms
    assert undecided.address == f"/transactions/{half.position}/"
    assert delayed.due_ms is not None and 0 < delayed.due_ms - time.time() * 1000 <= 30 * 60_000
    assert dead.state == "A dead letter of billing: it is not retried any more."
    assert stored.state == "Stored; no group that you can see consumes from its queue."
    assert all(f'href="{row.address}"' in page for row in found.rows)
    assert all(operator.get(row.address).status_code == 200 for row in found.rows)
    assert [count for _words, count, _is_cut in found.counts] == [1] * len(found.rows)


def test_a_row_says_what_the_page_of_its_message_says_and_when_it_was_stored(several: Stage, operator: Client) -> None:
    """Rows said "stored", whether anybody had received the message or not."""
    several.consume()
    several.producer.send("orders", "x", keys=["order-8"], queue_id=0)
    several.mirror.run_once()
    answer = operator.get("/find/key/", {"q": "order-8"})
    page, rows = unescape(answer.content.decode()), answer.context["data"].rows
    of_messages = [row for row in rows if row.kind not in (ThingKind.TIMER, ThingKind.HALF)]
    assert len(of_messages) == 4
    for row in of_messages:
        verdict = operator.get(row.address).context["data"].verdict
        assert (without_times(row.state), row.tone) == (without_times(verdict.words), verdict.tone)
        assert without_times(row.state) in without_times(page)
    assert len({row.state for row in of_messages}) == 4
    assert all(row.store_ms is not None and abs(row.store_ms - now_ms()) < HOUR_MS for row in rows)


def test_what_became_of_sixteen_costs_no_more_queries_than_of_two(stage: Stage, operator: Client) -> None:
    def queries_for(count: int) -> int:
        for _nth in range(count):
            stage.producer.send("orders", "x", keys=[f"order-{count}"], queue_id=0)
        with CaptureQueriesContext(connection) as asked:
            rows = things(operator, f"order-{count}").rows
        assert len(rows) == min(count, SHOWN)
        assert {row.tone for row in rows} == {"look"}, "its consumer is gone"
        return len(asked)

    stage.producer.send("orders", "x", keys=["order-1"], queue_id=0)
    stage.consume()
    operator.get("/find/key/", {"q": "order-1"})
    assert queries_for(SHOWN + 4) <= queries_for(2)


def test_two_timers_are_shown_and_of_many_the_first_with_the_way_to_all(stage: Stage, operator: Client) -> None:
    for _nth in range(2):
        stage.producer.send("orders", "x", keys=["order-7"], deliver_at_ms=now_ms() + HOUR_MS)
    assert [row.kind for row in things(operator, "order-7").rows] == [ThingKind.TIMER] * 2
    for _nth in range(SHOWN - 1):
        stage.producer.send("orders", "x", keys=["order-7"], deliver_at_ms=now_ms() + HOUR_MS)
    answer = operator.get("/find/key/", {"q": "order-7"})
    assert len(answer.context["data"].rows) == SHOWN
    assert answer.context["data"].counts == [("Timers", SHOWN, True)]
    assert 'href="/timers/list/?key=order-7"' in answer.content.decode()


def test_what_a_reader_does_not_see_is_not_counted(several: Stage) -> None:
    led = browser_of(limited_person("ann", "bills")).get("/find/key/", {"q": "order-8"})
    (half,) = several.admin.transactions("open").items
    assert led.headers["Location"] == f"/transactions/{half.position}/"


def test_a_timer_that_was_cancelled_is_found_by_what_cancelled_it(stage: Stage, operator: Client) -> None:
    """A key of a cancelled timer led to messages of other topics, as if it had never been sent."""
    stage.admin.create_topic("bills", queues=1)
    for topic in ("orders", "bills"):
        stage.producer.send(topic, "x", keys=["order-5"], deliver_at_ms=now_ms() + HOUR_MS)
    until(lambda: stage.admin.timer_status().pending == 2)
    stage.mirror.run_once()
    actor = Actor.of(get_user_model().objects.get(username="operator"))

    def cancel(topic: str) -> str:
        row = workflow.draft("timers.cancel", {"filter": {"topic": topic, "key": "order-5"}}, actor)
        workflow.confirm(row.pk, actor, reason="paid twice")
        return f"/operations/{row.pk}/"

    of_orders = cancel("orders")
    # one is left, and is shown itself
    assert operator.get("/find/key/", {"q": "order-5"}).headers["Location"].startswith("/timers/")
    of_bills = cancel("bills")
    found = things(operator, "order-5").rows
    assert [(each.kind, each.state, each.topic, each.address) for each in found] == [
        (ThingKind.OPERATION, "cancelled by operator", "bills", of_bills),
        (ThingKind.OPERATION, "cancelled by operator", "orders", of_orders),
    ]
    limited = browser_of(limited_person("ann", "bills")).get("/find/key/", {"q": "order-5"})
    assert limited.headers["Location"] == of_bills
