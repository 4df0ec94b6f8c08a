"""What the message page says of each group: had, refused, out, dead, sent back, not yet; by real roads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.test import Client

from broker.client import Consumer, Message, SimpleConsumer
from broker.rocketmq.topics import TRACE_TOPIC
from console.features.messages import read as messages_read
from console.features.messages.shapes import Reader, ReaderState
from console.operations import copies, workflow
from console.operations.actor import Actor
from tests.console.messages.test_life import consumed_events
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

FAR_MS = 600_000


@pytest.fixture
def popped(stage: Stage) -> Iterator[tuple[Stage, SimpleConsumer]]:
    """A group that receives as REST clients do."""
    stage.admin.create_group("billing", retry_max_times=1)
    with SimpleConsumer("billing", stage.broker.namesrv) as consumer:
        yield stage, consumer
    copies.hang_up()


def sent(stage: Stage, key: str) -> Message:
    made = stage.producer.send("orders", "pay", keys=[key], queue_id=0)
    return stage.admin.message_by_offset_id(made.offset_message_id)


def reader(stage: Stage, record: Message, group: str = "billing") -> Reader:
    stage.mirror.run_once()
    return next(row for row in messages_read.message(record.offset_message_id).readers if row.group == group)


def state(stage: Stage, record: Message) -> tuple[ReaderState, int]:
    found = reader(stage, record)
    return found.state, found.refused


def said(operator: Client, record: Message) -> str:
    """What stands in the table of groups."""
    page = words(operator.get(f"/messages/{record.offset_message_id}/"))
    return page[page.index("Waiting because") : page.index("Records")]


def test_what_was_popped_is_had_when_it_is_acknowledged(popped: tuple[Stage, SimpleConsumer]) -> None:
    stage, consumer = popped
    first, second = sent(stage, "order-1"), sent(stage, "order-2")
    (received,) = consumer.receive("orders", max_messages=1, invisible_ms=FAR_MS)
    assert state(stage, first) == (ReaderState.OUT, 0)
    assert state(stage, second) == (ReaderState.NOT_YET, 0)
    (later,) = consumer.receive("orders", max_messages=1, invisible_ms=FAR_MS)
    consumer.ack(later)
    # acknowledged before an older one: offsets cannot tell, so nobody claims that it was not
    assert state(stage, second) == (ReaderState.OUT, 0)
    consumer.ack(received)
    assert [state(stage, each) for each in (first, second)] == [(ReaderState.HAD, 0)] * 2


def test_what_was_given_back_waits_and_is_had_when_it_is_acknowledged_at_last(
    popped: tuple[Stage, SimpleConsumer], operator: Client
) -> None:
    stage, consumer = popped
    record = sent(stage, "order-1")
    (received,) = consumer.receive("orders", invisible_ms=FAR_MS)
    consumer.nack(received, FAR_MS)
    assert state(stage, record) == (ReaderState.OUT, 0)
    assert "unacknowledged, it is delivered again" in said(operator, record)
    sent(stage, "order-2")
    (received,) = consumer.receive("orders", invisible_ms=FAR_MS)
    consumer.nack(received)
    other = received.message
    stage.wait_for(lambda: state(stage, other)[0] is not ReaderState.OUT)
    assert state(stage, other) == (ReaderState.AGAIN, 1)
    assert "waiting for retry rejected or not acknowledged 1 time" in said(operator, other)
    assert "received" not in said(operator, other)
    (again,) = consumer.receive("orders", invisible_ms=FAR_MS)
    assert state(stage, other) == (ReaderState.OUT, 1)
    consumer.ack(again)
    assert state(stage, other) == (ReaderState.HAD, 1)


def test_what_was_popped_and_given_up_is_in_the_dead_letters(
    popped: tuple[Stage, SimpleConsumer], operator: Client, actor: Actor
) -> None:
    stage, consumer = popped
    record = sent(stage, "order-1")
    for _ in range(2):
        (received,) = consumer.receive("orders", invisible_ms=FAR_MS)
        consumer.nack(received)
    stage.wait_for(lambda: state(stage, record)[0] is ReaderState.DEAD)
    assert state(stage, record) == (ReaderState.DEAD, 2)
    assert "dead-lettered" in said(operator, record)
    assert "received" not in said(operator, record)
    everything = {"group": "billing", "filter": {}, "is_all": True}
    workflow.start("dead_letters.send_back", everything, actor, reason="mended")
    stage.wait_for(lambda: state(stage, record)[0] is not ReaderState.DEAD)
    assert reader(stage, record).state is ReaderState.SENT_BACK
    assert reader(stage, record).refused == 2


def test_each_record_of_a_popped_message_tells_the_same(popped: tuple[Stage, SimpleConsumer]) -> None:
    stage, consumer = popped
    record = sent(stage, "order-1")
    (received,) = consumer.receive("orders", invisible_ms=FAR_MS)
    consumer.nack(received)
    stage.wait_for(lambda: state(stage, record)[0] is ReaderState.AGAIN)
    again = messages_read.message(record.offset_message_id).hops[-1]
    assert again.topic == "%RETRY%billing_orders"
    page = messages_read.message(again.offset_message_id)
    assert [row.state for row in page.readers] == [ReaderState.AGAIN]
    # the group is billing, not a group billing_orders
    assert {step.group for step in page.steps if step.hop == page.hops[-1]} == {"billing"}


def test_a_consumer_that_pulls_refuses_and_gives_up(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    record = sent(stage, "order-1")
    assert state(stage, record) == (ReaderState.NOT_YET, 0)
    stage.admin.move_group("billing", "orders", 0, record.queue_offset + 1)
    assert state(stage, record) == (ReaderState.HAD, 0)
    stage.admin.send_back("billing", record, delay_level=18, max_reconsume_times=16)
    found = reader(stage, record)
    assert (found.state, found.refused) == (ReaderState.AGAIN, 1)
    assert found.next_ms is not None
    assert "next retry in" in said(operator, record)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    assert state(stage, record) == (ReaderState.DEAD, 1)
    dead = stage.admin.message_by_offset_id(messages_read.message(record.offset_message_id).hops[-1].offset_message_id)
    stage.admin.send_back("billing", dead, delay_level=1, max_reconsume_times=16)
    assert state(stage, record) == (ReaderState.SENT_BACK, 1)

    def is_back() -> bool:
        return reader(stage, record).next_ms is None

    stage.wait_for(is_back)
    assert state(stage, record) == (ReaderState.SENT_BACK, 1)
    got = threading.Event()
    consumer = Consumer("billing", stage.broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.set())
    with consumer:
        assert got.wait(20), "the consumer got nothing"
    stage.wait_for(lambda: state(stage, record)[0] is ReaderState.HAD)


def test_a_try_that_waits_as_a_timer_is_told(stage: Stage) -> None:
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [FAR_MS + 123]}}
    stage.admin.set_group("billing", {"groupRetryPolicy": policy})
    record = sent(stage, "order-1")
    stage.admin.send_back("billing", record, delay_level=0, max_reconsume_times=16)
    found = reader(stage, record)
    assert (found.state, found.refused) == (ReaderState.AGAIN, 1)
    assert found.next_ms is not None
    assert 0 < found.next_ms - record.store_ms - FAR_MS < FAR_MS


def test_what_a_client_told_counts_where_offsets_do_not(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    record = sent(stage, "order-1")
    assert record.unique_key
    told = consumed_events(record, at_ms=record.store_ms)
    stage.producer.send(TRACE_TOPIC, told, keys=[record.unique_key])
    found = reader(stage, record)
    assert (found.state, found.is_told) == (ReaderState.HAD, True)
    assert "reported by a client trace" in said(operator, record)
