"""Messages of two brokers: found by key at both, opened wherever they lie, sent again where their record is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from broker.client import Message
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from console.features.messages import pages as messages_pages
from console.features.messages import read
from console.features.messages.shapes import MessageFilter
from console.operations import copies, workflow
from console.operations.actor import PERMISSIONS, Actor
from console.security.topic_scope import VisibleTopics, scoped
from console.site.chosen import choice_of, choosing
from tests.cluster import ask
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
UNIQUE = "C00002024A5C30946E0968C7AD360000"


@pytest.fixture
def both(transactional_db: None, settings: Any) -> Iterator[Several]:
    """An order at each broker, and one under the same key."""
    with several(settings) as made:
        made.send(A, "orders", "first", keys=["order-1"], queue_id=0)
        made.send(B, "orders", "second", keys=["order-1"], queue_id=0)
        made.mirror()
        yield made
        copies.hang_up()


def record(both: Several, broker: str, key: str = "order-1") -> Message:
    (found,) = both.admins[broker].messages_by_key("orders", key)
    return found


def twice(both: Several) -> None:
    """The same message at both brokers, as a producer leaves it that got no answer from the first."""
    ext = {
        "producerGroup": "tests", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": "1", "sysFlag": "0", "bornTimestamp": "1795000000000", "flag": "0",
        "properties": f"UNIQ_KEY\x01{UNIQUE}\x02KEYS\x01order-2\x02",
    }  # fmt: skip
    for broker in (A, B):
        answer = ask(both.cluster[broker].address, Command(int(Request.SEND_MESSAGE), ext, b"pay"))
        assert answer.code == 0, answer.remark


def test_a_key_is_found_at_both(both: Several, operator: Client) -> None:
    found = read.messages("orders", "order-1")
    assert [hit.broker for hit in found.hits] == [B, A], "the newest first"
    assert {hit.broker for hit in read.messages_everywhere("order-1").hits} == {A, B}
    assert {hit.broker for hit in messages_pages.messages_through("orders", MessageFilter()).hits} == {A, B}
    rows = json.loads(b"".join(operator.get("/messages/?q=order-1&topic=orders&as=json").streaming_content))  # type: ignore[attr-defined]  # of a streamed answer
    assert [row["broker"] for row in rows] == [B, A]
    with choosing(choice_of(A)):
        assert [hit.broker for hit in read.messages("orders", "order-1").hits] == [A]


def test_a_message_is_opened_where_it_lies(both: Several, operator: Client) -> None:
    for broker, body in ((A, "first"), (B, "second")):
        message = record(both, broker)
        for page in (read.message(message.offset_message_id), read.message(message.unique_key or "", "orders")):
            assert (page.found, page.broker) == (True, broker)
            assert page.body is not None
            assert page.body.text == body
        assert read.raw_body(message.offset_message_id) == ("orders", body.encode())
    assert not read.message("0" * 32, "orders").found
    assert operator.get(f"/messages/{record(both, B).offset_message_id}/").status_code == 200


def test_records_of_both_brokers_are_one_life(both: Several, operator: Client) -> None:
    twice(both)
    both.mirror()
    page = read.message(UNIQUE, "orders")
    assert [(hop.broker, hop.queue_id) for hop in page.hops] == [(A, 1), (B, 1)]
    assert [hop.current for hop in page.hops] == [True, False]
    assert page.hops[0].after_ms is None
    assert page.hops[1].after_ms is not None
    shown = words(operator.get(f"/messages/{UNIQUE}/?topic=orders"))
    assert "orders / 1 · broker-a" in shown
    assert "orders / 1 · broker-b" in shown
    with scoped(VisibleTopics(("payroll",))):
        assert operator.get("/healthz").status_code == 200


def test_a_broker_that_is_away_hides_no_others_messages(both: Several, operator: Client) -> None:
    both.kill(B)
    found = read.messages("orders", "order-1")
    assert [hit.broker for hit in found.hits] == [A]
    assert found.evidence.stale_of == (B,)
    assert "broker-b" in words(operator.get("/messages/?q=order-1&topic=orders"))
    page = read.message(record(both, A).offset_message_id)
    assert page.found
    assert page.broker == A


@pytest.mark.parametrize("broker", [A, B])
def test_a_group_gets_it_back_from_the_broker_that_has_it(both: Several, broker: str) -> None:
    both.consume(count=2)
    message = record(both, broker)
    parameters = {"message_id": message.offset_message_id, "topic": "orders", "group": "billing"}
    row = workflow.start("messages.resend", parameters, ACTOR, reason="because")
    assert row.results == {"sent_back": 1}, row.items.get().result
    tries = {
        name: sum(part.max_offset for part in both.admins[name].topic_stats("%RETRY%billing").queues)
        for name in (A, B)
        if any(each.name == "%RETRY%billing" for each in both.admins[name].topics())
    }
    parked = {name: both.admins[name].messages_by_key("SCHEDULE_TOPIC_XXXX", "order-1") for name in (A, B)}
    there = [name for name in (A, B) if tries.get(name) or parked[name]]
    assert there == [broker]
