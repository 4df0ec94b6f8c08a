"""What an Apache RocketMQ broker's parked records say: which still wait, when they are due, and their handle."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import pytest

from broker.client import Message
from console.features.timers.apache_records import handle_of, matches, pending_of, row_of_record
from console.features.timers.shapes import TimerFilter

NOW = 1_795_247_527_000


def record(offset: int, unique: str, properties: Mapping[str, str], topic: str = "orders") -> Message:
    """As rmq_sys_wheel_timer holds it."""
    return Message(
        topic="rmq_sys_wheel_timer", queue_id=0, queue_offset=offset, position=offset * 300, size=300, body=b"x",
        properties={"REAL_TOPIC": topic, "REAL_QID": "2", "UNIQ_KEY": unique, **properties}, flag=0, sys_flag=0,
        born_ms=NOW - 5, born_host=("127.0.0.1", 1), store_ms=NOW, store_host=("127.0.0.1", 10911), reconsume_times=0,
        prepared_position=0,
    )  # fmt: skip


def out(ms: int, **more: str) -> dict[str, str]:
    return {"TIMER_OUT_MS": str(ms), **more}


def test_due_is_the_moment_that_was_asked_for_else_the_end_of_its_slot() -> None:
    exact = row_of_record(record(0, "A", out(NOW, TIMER_DELIVER_MS=str(NOW + 700))))
    rough = row_of_record(record(1, "B", out(NOW)))
    assert exact is not None
    assert rough is not None
    assert (exact.due_ms, rough.due_ms) == (NOW + 700, NOW + 1_000)
    assert (exact.topic, exact.queue_id, exact.unique_key) == ("orders", 2, "A")


@pytest.mark.parametrize("victim", ["A", "orders+A"])
def test_a_delete_message_of_either_form_takes_its_victim(victim: str) -> None:
    records = [
        record(0, "A", out(NOW + 5_000)),
        record(1, "B", out(NOW + 4_000)),
        record(2, "D", out(NOW + 5_000, TIMER_DEL_UNIQKEY=victim)),
    ]
    assert [row.unique_key for row in pending_of(records, NOW)] == ["B"]


def test_the_same_key_in_another_topic_lives() -> None:
    records = [
        record(0, "A", out(NOW + 5_000), topic="bills"),
        record(1, "D", out(NOW + 5_000, TIMER_DEL_UNIQKEY="A")),
    ]
    assert [row.topic for row in pending_of(records, NOW)] == ["bills"]


def test_a_rolled_record_stands_for_the_one_before_and_what_is_due_waits_no_more() -> None:
    records = [
        record(0, "A", out(NOW + 9_000)),
        record(1, "B", out(NOW - 9_000)),
        record(2, "A", out(NOW + 9_000, TIMER_ROLL_TIMES="1")),
    ]
    rows = pending_of(records, NOW)
    assert [(row.offset, row.rolled) for row in rows] == [(2, 1)]


@pytest.mark.parametrize("properties", [{}, {"TIMER_OUT_MS": "soon"}, {"TIMER_OUT_MS": ""}, {"TIMER_OUT_MS": "-1"}])
def test_what_is_no_timer_is_left_out(properties: dict[str, str]) -> None:
    assert row_of_record(record(0, "A", properties)) is None
    assert pending_of([record(0, "A", properties)], NOW) == ()


def test_equal_moments_stand_in_order_of_arrival() -> None:
    rows = pending_of([record(offset, f"U{offset}", out(NOW + 1)) for offset in (3, 1, 2)], NOW)
    assert [row.offset for row in rows] == [1, 2, 3]


def test_the_handle_is_rocketmqs() -> None:
    made = handle_of(record(0, "7F0001", out(NOW)), "broker-a")
    assert base64.urlsafe_b64decode(made).decode() == f"v1 orders broker-a {NOW + 1} 7F0001"


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (TimerFilter(), True),
        (TimerFilter(topic="orders"), True),
        (TimerFilter(topic="order"), False),
        (TimerFilter(key="A"), True),
        (TimerFilter(key="k1"), True),
        (TimerFilter(key="k"), False),
        (TimerFilter(from_ms=NOW + 1_000, to_ms=NOW + 1_001), True),
        (TimerFilter(from_ms=NOW + 1_001), False),
        (TimerFilter(to_ms=NOW + 1_000), False),
    ],
)
def test_a_filter_takes_what_it_says(wanted: TimerFilter, taken: bool) -> None:
    row = row_of_record(record(0, "A", out(NOW, KEYS="k1 k2")))
    assert row is not None
    assert matches(row, wanted) is taken
