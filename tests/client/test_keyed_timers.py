"""`producer.timers`: put, move, cancel and get by schedule key, at one broker, at several, and at none that has any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from broker.client import (
    AsyncProducer,
    BrokerUnreachable,
    ClientClosed,
    InvalidArgument,
    NotSupported,
    Producer,
    RouteNotFound,
    ScheduleKeyTaken,
    Timeout,
    TimerTooFar,
    plain_sends,
)
from broker.client._pipeline import broker_of_key
from broker.client.errors import PlainSendRefused
from broker.server.broker import BrokerService
from broker.testing import BrokerThread
from tests.client.halfbroker import HalfBroker
from tests.cluster import Cluster
from tests.waiting import until

HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
A, B = "broker-a", "broker-b"
ODD_KEYS = ["a/b?c=d&e", "Rechnung Nr. 4711, Müller", "請求書 4711", "#S#orders#x", "x" * 200]


@pytest.fixture
def shop(broker: BrokerThread) -> Iterator[Producer]:
    with Producer("shop", broker.namesrv) as made:
        yield made


def test_what_is_put_waits_is_moved_and_is_taken_back(shop: Producer) -> None:
    sent = shop.timers.put("orders", "invoice 4711", "pay!", delay=HOUR, tag="reminder")
    found = shop.timers.get("orders", "invoice 4711")
    assert found is not None
    assert (found.message_id, found.due_ms, found.tag) == (sent.message_id, sent.due_ms, "reminder")
    moved = shop.timers.move("orders", "invoice 4711", deliver_at_ms=found.due_ms + HOUR_MS, reason="may pay later")
    assert (moved.outcome, moved.due_ms, moved.previous_due_ms) == ("rescheduled", found.due_ms + HOUR_MS, found.due_ms)
    found = shop.timers.get("orders", "invoice 4711")
    assert found is not None
    assert (found.message_id, found.due_ms) == (sent.message_id, moved.due_ms)
    assert shop.timers.cancel("orders", "invoice 4711", reason="paid").outcome == "cancelled"
    assert shop.timers.get("orders", "invoice 4711") is None
    assert shop.timers.cancel("orders", "invoice 4711").outcome == "already_cancelled"
    assert shop.timers.move("orders", "invoice 4711", delay=HOUR).outcome == "already_cancelled"


def test_a_put_takes_the_place_of_what_waits_unless_it_says_otherwise(shop: Producer) -> None:
    first = shop.timers.put("orders", "k", "1", delay=HOUR)
    assert first.conflict is None
    second = shop.timers.put("orders", "k", "2", delay=2 * HOUR)
    assert second.conflict == "replaced"
    kept = shop.timers.put("orders", "k", "3", delay=HOUR, on_conflict="keep")
    assert (kept.conflict, kept.message_id) == ("kept", second.message_id)
    with pytest.raises(ScheduleKeyTaken):
        shop.timers.put("orders", "k", "4", delay=HOUR, on_conflict="error")
    found = shop.timers.get("orders", "k")
    assert found is not None
    assert found.message_id == second.message_id


def test_what_was_delivered_is_told_so(shop: Producer, broker: BrokerThread) -> None:
    shop.timers.put("orders", "k", "1", delay_ms=1)
    until(lambda: [message.body for message in broker.messages("orders")] == [b"1"])
    for told in (shop.timers.cancel("orders", "k"), shop.timers.move("orders", "k", delay=HOUR)):
        assert told.outcome == "already_delivered"
        assert told.delivered_ms is not None
    assert shop.timers.get("orders", "k") is None


def test_a_move_to_a_moment_that_is_over_delivers_at_once(shop: Producer, broker: BrokerThread) -> None:
    shop.timers.put("orders", "k", "1", delay=HOUR)
    assert shop.timers.move("orders", "k", delay_ms=0).outcome == "delivered_now"
    until(lambda: [message.body for message in broker.messages("orders")] == [b"1"])


def test_a_delay_counts_by_the_brokers_clock(shop: Producer) -> None:
    sent = shop.timers.put("orders", "k", "1", delay=HOUR)
    moved = shop.timers.move("orders", "k", delay=2 * HOUR)
    assert sent.due_ms is not None
    assert moved.due_ms is not None
    assert moved.due_ms >= sent.due_ms + HOUR_MS


def test_a_key_of_another_topic_is_another_key(shop: Producer) -> None:
    shop.timers.put("orders", "k", "1", delay=HOUR)
    shop.timers.put("returns", "k", "2", delay=HOUR)
    assert shop.timers.cancel("returns", "other").outcome == "unknown"
    assert shop.timers.cancel("returns", "k").outcome == "cancelled"
    assert shop.timers.get("orders", "k") is not None


@pytest.mark.parametrize("key", ODD_KEYS)
def test_keys_are_what_the_business_calls_things(shop: Producer, key: str) -> None:
    shop.timers.put("orders", key, "1", delay=HOUR)
    assert shop.timers.move("orders", key, delay=2 * HOUR).outcome == "rescheduled"
    assert shop.timers.cancel("orders", key).outcome == "cancelled"


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda timers: timers.put("orders", "", "1", delay=HOUR), "schedule_key"),
        (lambda timers: timers.put("orders", "two\nlines", "1", delay=HOUR), "schedule_key"),
        (lambda timers: timers.put("orders", "k", "1"), "schedule_key"),
        (lambda timers: timers.put("orders", "k", "1", delay=HOUR, schedule_key="other"), "schedule_key"),
        (lambda timers: timers.move("orders", "k"), "at"),
        (lambda timers: timers.move("orders", "k", delay=HOUR, delay_ms=5), "delay_ms"),
        (lambda timers: timers.move("orders", "k", at=datetime(2060, 1, 1)), "at"),  # noqa: DTZ001 - that is refused
        (lambda timers: timers.cancel("rmq_sys_wheel_timer", "k"), "topic"),
        (lambda timers: timers.cancel("orders", "k", reason="a\x01b"), "reason"),
        (lambda timers: timers.get("orders", "x" * 201), "schedule_key"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(call: Callable[[object], object], field: str) -> None:
    with Producer("shop", "127.0.0.1:1") as producer, pytest.raises(InvalidArgument) as refused:
        call(producer.timers)
    assert refused.value.field == field


def test_a_moment_that_is_too_far_is_the_error_of_a_send(shop: Producer) -> None:
    shop.timers.put("orders", "k", "1", delay=HOUR)
    with pytest.raises(TimerTooFar):
        shop.timers.move("orders", "k", delay=timedelta(days=20_000))
    assert shop.timers.get("orders", "k") is not None


def test_a_topic_that_no_broker_has_is_an_error(shop: Producer) -> None:
    for call in (shop.timers.cancel, shop.timers.get):
        with pytest.raises(RouteNotFound):
            call("nowhere", "k")


def test_a_block_that_refuses_plain_sends_refuses_all_but_looking(shop: Producer) -> None:
    shop.timers.put("orders", "k", "1", delay=HOUR)
    with plain_sends(allowed=False):
        for call in (
            lambda: shop.timers.put("orders", "k", "2", delay=HOUR),
            lambda: shop.timers.move("orders", "k", delay=HOUR),
            lambda: shop.timers.cancel("orders", "k"),
        ):
            with pytest.raises(PlainSendRefused):
                call()
        assert shop.timers.get("orders", "k") is not None


def test_a_producer_that_is_closed_answers_at_once(broker: BrokerThread) -> None:
    with Producer("shop", broker.namesrv) as shop:
        timers = shop.timers
    for call in (
        lambda: timers.put("orders", "k", "1", delay=HOUR),
        lambda: timers.move("orders", "k", delay=HOUR),
        lambda: timers.cancel("orders", "k"),
        lambda: timers.get("orders", "k"),
    ):
        with pytest.raises(ClientClosed):
            call()


async def test_the_same_in_coroutines(service: BrokerService) -> None:
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        await producer.timers.put("orders", "k", "1", delay=HOUR)
        assert (await producer.timers.move("orders", "k", delay=2 * HOUR)).outcome == "rescheduled"
        assert await producer.timers.get("orders", "k") is not None
        assert (await producer.timers.cancel("orders", "k")).outcome == "cancelled"


def test_apache_rocketmq_is_asked_for_nothing_that_it_would_not_keep() -> None:
    with HalfBroker() as broker, Producer("shop", broker.namesrv) as producer:
        for call in (
            lambda: producer.timers.put("orders", "k", "1", delay=HOUR),
            lambda: producer.timers.move("orders", "k", delay=HOUR),
            lambda: producer.timers.cancel("orders", "k"),
            lambda: producer.timers.get("orders", "k"),
        ):
            with pytest.raises(NotSupported, match=r"knows no schedule keys.*recall"):
                call()
        assert broker.plain == []


def test_all_brokers_of_a_topic_are_looked_at() -> None:
    with Cluster(2) as cluster, Producer("shop", cluster.namesrv) as producer:
        for name in cluster.names:
            producer.timers.put("orders", name, "1", delay=HOUR, broker=name)
            # as by another client, or before a broker came: not where the key is looked for first
        stray = next(key for key in map(str, range(99)) if broker_of_key(key, (A, B)) == A)
        producer.timers.put("orders", stray, "1", delay=HOUR, broker=B)
        found = producer.timers.get("orders", stray)
        assert found is not None
        assert producer.timers.move("orders", stray, deliver_at_ms=found.due_ms + 1).outcome == "rescheduled"
        assert [producer.timers.cancel("orders", key).outcome for key in (stray, *cluster.names)] == ["cancelled"] * 3


def test_nothing_waits_is_said_only_if_every_broker_has_said_so() -> None:
    with Cluster(2) as cluster, Producer("shop", cluster.namesrv) as producer:
        for name in cluster.names:
            producer.timers.put("orders", f"at {name}", "1", delay=HOUR, broker=name)
        assert producer.timers.get("orders", f"at {B}") is not None
        cluster[B].stop()
        assert producer.timers.get("orders", f"at {A}") is not None
        assert producer.timers.cancel("orders", f"at {A}").outcome == "cancelled"
        for call in (producer.timers.cancel, producer.timers.get):
            for key in (f"at {A}", f"at {B}"):
                with pytest.raises((BrokerUnreachable, Timeout)):
                    call("orders", key)
        cluster[B].start()
        until(
            lambda: producer.timers.cancel("orders", f"at {B}").outcome == "cancelled",
            not_yet=(BrokerUnreachable, Timeout),
        )
