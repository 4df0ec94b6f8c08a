"""The clock is the test's: it stands still, moves as far as it is told, and all that is due comes out on the way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client import Consumer, Producer, SimpleConsumer
from broker.testing import Escapement
from tests.waiting import until

DAY_MS = 86_400_000


def test_a_reminder_goes_out_after_a_day_and_not_before(escapement: Escapement, producer: Producer) -> None:
    producer.send("reminders", "pay!", delay_ms=DAY_MS)
    escapement.forward(hours=24, milliseconds=-1)
    escapement.assert_nothing_sent()
    escapement.forward(milliseconds=1)
    (message,) = escapement.assert_sent("reminders", body="pay!")
    assert message.visible_at == escapement.now


def test_the_clock_begins_at_the_machines_time_and_stands_still(escapement: Escapement) -> None:
    began = escapement.now_ms()
    assert abs(began - time.time() * 1000) < 10_000
    escapement.send("orders", "4711")
    assert escapement.now_ms() == began
    assert escapement.now == datetime.fromtimestamp(began // 1000, UTC).replace(microsecond=began % 1000 * 1000)


@pytest.mark.parametrize("hours", [24, 24 * 400])
def test_a_moment_reckoned_from_the_machines_time_comes_with_as_many_hours(escapement: Escapement, hours: int) -> None:
    began = escapement.now_ms()
    until(lambda: time.time() * 1000 > began + 5)  # the test takes its time
    escapement.send("reminders", "pay!", deliver_at_ms=int((time.time() + hours * 3600) * 1000))
    escapement.forward(hours=hours, seconds=-1)
    escapement.assert_nothing_sent()
    escapement.forward(seconds=1)
    escapement.assert_sent("reminders")
    assert began + hours * 3_600_000 < escapement.now_ms() < began + hours * 3_600_000 + 10_000


def test_a_delay_is_exact_however_long_the_test_takes(escapement: Escapement) -> None:
    began = escapement.now_ms()
    escapement.send("reminders", "pay!", delay_ms=1000)
    until(lambda: time.time() * 1000 > began + 5)
    escapement.forward(milliseconds=999)
    escapement.assert_nothing_sent()
    escapement.forward(milliseconds=1)
    escapement.assert_sent("reminders")
    assert escapement.now_ms() == began + 1000


def test_moments_of_the_kits_clock_are_right_after_it_was_moved(escapement: Escapement) -> None:
    escapement.forward(days=30)
    escapement.send("reminders", "pay!", deliver_at_ms=escapement.now_ms() + 60_000)
    (message,) = escapement.pending
    assert message.due == escapement.now + timedelta(minutes=1)
    escapement.forward(minutes=1)
    escapement.assert_sent("reminders")


def test_it_goes_to_a_moment(escapement: Escapement) -> None:
    monday = escapement.now + timedelta(days=3)
    escapement.send("reminders", "pay!", deliver_at_ms=round(monday.timestamp() * 1000))
    assert escapement.at(monday) == monday
    escapement.assert_sent("reminders")


def test_it_never_goes_back(escapement: Escapement) -> None:
    with pytest.raises(ValueError, match="forward only"):
        escapement.forward(hours=-1)
    with pytest.raises(ValueError, match="is past"):
        escapement.at(escapement.now - timedelta(seconds=1))
    with pytest.raises(ValueError, match="has no zone"):
        escapement.at(datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_all_that_is_due_comes_out_in_its_order(escapement: Escapement) -> None:
    for hours in (5, 1, 3):
        escapement.send(f"of-{hours % 2}", str(hours), delay_ms=hours * 3_600_000)
    escapement.send("levels", "0.5", delay_level=16)
    began = escapement.now
    escapement.forward(timedelta(days=2))
    assert [(each.text, each.visible_at - began) for each in escapement.sent] == [
        (text, timedelta(hours=float(text))) for text in ("0.5", "1", "3", "5")
    ]


def test_a_message_stays_however_far_the_clock_goes(escapement: Escapement) -> None:
    escapement.send("orders", "4711")
    escapement.forward(days=3650)
    escapement.forward(seconds=1)
    escapement.assert_sent("orders", body="4711")


def test_delay_levels_are_given_where_a_test_wants_its_own() -> None:
    with Escapement("1m 1d") as escapement:
        escapement.send("orders", "4711", delay_level=2)
        (message,) = escapement.pending
        assert message.due == escapement.now + timedelta(days=1)


def test_a_consumer_that_waits_is_given_what_falls_due(escapement: Escapement) -> None:
    escapement.send("orders", "4711", delay_ms=DAY_MS)
    seen: list[bytes] = []
    consumer = Consumer("billing", escapement.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: seen.append(message.body))
    with consumer:
        escapement.forward(hours=24)
        until(lambda: seen == [b"4711"])


def test_what_was_taken_and_not_acknowledged_comes_again_when_its_time_is_over(escapement: Escapement) -> None:
    escapement.send("orders", "4711")
    with SimpleConsumer("billing", escapement.namesrv, from_where="first") as consumer:
        (first,) = consumer.receive("orders", invisible_ms=60_000)
        escapement.forward(seconds=59)
        assert consumer.receive("orders", wait_ms=0) == []
        escapement.forward(seconds=1)
        (second,) = consumer.receive("orders")
    assert (first.message.body, second.message.body) == (b"4711", b"4711")


def test_who_waits_for_a_queue_in_order_is_given_it_when_its_time_has_come(escapement: Escapement) -> None:
    escapement.send("orders", "4711")
    with (
        SimpleConsumer("billing", escapement.namesrv, from_where="first", in_order=True) as consumer,
        ThreadPoolExecutor() as threads,
    ):
        (first,) = consumer.receive("orders", invisible_ms=600_000)
        second = threads.submit(consumer.receive, "orders", wait_ms=60_000)
        stage = escapement._there
        until(lambda: stage.call(lambda: stage.service.waiting_pops))
        escapement.forward(minutes=10)
        (again,) = second.result(30)
    assert first.message.body == again.message.body == b"4711"


# Any partition of the way is the same way.

HORIZON_MS = 30 * DAY_MS
SENDS = st.lists(
    st.one_of(
        st.tuples(st.just("delay_ms"), st.integers(0, HORIZON_MS)),
        st.tuples(st.just("delay_ms"), st.integers(0, 3000)),
        st.tuples(st.just("delay_level"), st.integers(1, 18)),
    ),
    min_size=1,
    max_size=12,
)
STEPS = st.lists(st.one_of(st.integers(0, HORIZON_MS), st.integers(0, 3000)), max_size=6)


def course(sends: Sequence[tuple[str, int]], steps: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """What is to be seen and what waits behind all the steps, by the time since the begin."""
    with Escapement() as escapement, Producer("shop", escapement.namesrv) as producer:
        began = escapement.now
        for number, (option, value) in enumerate(sends):
            producer.send("orders", str(number), queue_id=number % 2, **{option: value})  # type: ignore[arg-type] # either
        for step in steps:
            escapement.forward(milliseconds=step)
        seen = [(each.text, each.message.queue_id, each.visible_at - began) for each in escapement.sent]
        return seen, [(each.text, each.due and each.due - began) for each in escapement.pending]


@settings(max_examples=60)
@given(sends=SENDS, steps=STEPS)
def test_many_steps_are_the_same_as_one(sends: list[tuple[str, int]], steps: list[int]) -> None:
    assert course(sends, steps) == course(sends, [sum(steps)])
