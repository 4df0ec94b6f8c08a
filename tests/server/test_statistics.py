"""Counting what came and went: windows that move, days that end."""

from __future__ import annotations

from datetime import datetime

import pytest

from broker.engine.errors import TopicNotFound
from broker.engine.tables.topics import Topic
from broker.server import statistics
from broker.server.broker import BrokerService
from broker.server.statistics import (
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS,
    GROUP_GET_NUMS,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    Counter,
    Statistics,
)
from tests.server.peer import Peer
from tests.waiting import until_true

HOUR_MS = 3_600_000
START_MS = 500_000 * HOUR_MS


def test_each_window_sees_what_was_counted_in_it_and_no_more() -> None:
    counter = Counter(START_MS)
    counter.add(5, START_MS)
    counter.add(3, START_MS + 30_000)
    assert [window.count for window in counter.sums(START_MS + 30_000)] == [8, 8, 8]
    assert [window.count for window in counter.sums(START_MS + 65_000)] == [8, 8, 8]
    assert [window.count for window in counter.sums(START_MS + 70_000)] == [3, 8, 8]
    assert [window.count for window in counter.sums(START_MS + 2 * HOUR_MS)] == [0, 0, 8]
    assert [window.count for window in counter.sums(START_MS + 26 * HOUR_MS)] == [0, 0, 0]


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    counter = Counter(START_MS)
    counter.add(5, START_MS + 60_000)
    counter.add(3, START_MS)
    counter.add(2, START_MS + 1)
    assert counter.total == 10
    assert [window.count for window in counter.sums(START_MS + 1)] == [10, 10, 10]


def test_a_rate_is_over_the_time_that_the_counter_has_been_there() -> None:
    counter = Counter(START_MS)
    counter.add(100, START_MS + 10_000)
    minute, hour, day = counter.sums(START_MS + 20_000)
    assert (minute.per_second, hour.per_second, day.per_second) == (5.0, 5.0, 5.0)
    counter.add(6000, START_MS + 10 * HOUR_MS)
    assert counter.sums(START_MS + 10 * HOUR_MS)[0].per_second == pytest.approx(6000 / 60)


def test_a_counter_that_never_rests_keeps_no_more_than_its_windows() -> None:
    counter = Counter(START_MS)
    for second in range(0, 100_000, 5):
        counter.add(1, START_MS + second * 1000)
    minute, hour, day = counter.sums(START_MS + 99_995_000)
    assert (minute.count, hour.count, day.count) == (14, 800, 17_840)


def test_what_a_topic_got_is_what_its_queues_grew_by() -> None:
    ends = {("T", 0): (100, 5_000), ("T", 1): (0, 0), ("rmq_sys_x", 0): (0, 0)}
    counted = Statistics("Cluster", START_MS)
    counted.begin([Topic("T", 2, 1)], lambda *queue: ends[queue])
    ends |= {("T", 0): (103, 5_600), ("T", 1): (4, 900), ("rmq_sys_x", 0): (5, 700)}
    counted.arrived(ends, START_MS)
    assert minute(counted, TOPIC_PUT_NUMS, "T") == 7
    assert minute(counted, TOPIC_PUT_SIZE, "T") == 1_500
    assert minute(counted, TOPIC_PUT_NUMS, "rmq_sys_x") == 5
    assert minute(counted, BROKER_PUT_NUMS, "Cluster") == 7
    assert minute(counted, TOPIC_PUT_NUMS, "U") is None


def test_what_is_counted_later_counts_for_the_moment_it_came_at() -> None:
    grown = (0, 0)
    counted = Statistics("Cluster", START_MS)
    counted.begin([], lambda *_: grown)
    grown = (7, 900)
    counted.arrived([("T", 0)], START_MS)
    later = counted.sums(TOPIC_PUT_NUMS, "T", START_MS + 10 * 60_000)
    assert later is not None
    assert [window.count for window in later] == [0, 7, 7]


def test_a_topic_made_again_begins_anew() -> None:
    grown = (0, 0)
    counted = Statistics("Cluster", START_MS)
    counted.begin([Topic("T", 1, 1)], lambda *_: grown)
    grown = (9, 900)
    counted.arrived([("T", 0)], START_MS)
    counted.given("G", "T", 4, 400, START_MS)
    counted.forget_topic("T")
    assert minute(counted, TOPIC_PUT_NUMS, "T") is None
    assert minute(counted, TOPIC_PUT_SIZE, "T") is None
    assert minute(counted, GROUP_GET_NUMS, "T@G") is None
    grown = (2, 200)
    counted.arrived([("T", 0)], START_MS)
    assert minute(counted, TOPIC_PUT_NUMS, "T") == 2


def test_a_topic_that_is_gone_by_now_counts_nothing() -> None:
    def growth_of(topic: str, _: int) -> tuple[int, int]:
        if topic == "gone":
            raise TopicNotFound(topic)
        return 3, 300

    counted = Statistics("Cluster", START_MS)
    counted.begin([], growth_of)
    counted.arrived([("gone", 0), ("T", 0)], START_MS)
    assert minute(counted, BROKER_PUT_NUMS, "Cluster") == 3


def minute(counted: Statistics, name: str, key: str) -> int | None:
    sums = counted.sums(name, key, START_MS)
    return sums[0].count if sums is not None else None


def test_counters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_COUNTERS", 5)
    counted = Statistics("Cluster", START_MS)
    for number in range(4):
        counted.given("G", f"T{number}", 1, 100, START_MS)
    assert [minute(counted, GROUP_GET_NUMS, f"T{number}@G") for number in range(4)] == [None, None, 1, 1]
    assert minute(counted, BROKER_GET_NUMS, "Cluster") == 4


def test_totals_of_the_last_two_midnights_are_kept() -> None:
    def at(day: int) -> int:
        return int(datetime(2026, 5, day, 12).timestamp() * 1000)  # noqa: DTZ001 (the machine's zone is meant)

    counted = Statistics("Cluster", at(1))
    grown = (10, 1000)
    counted.begin([], lambda *_: grown)
    counted.arrived([("T", 0)], at(1))
    counted.count()
    grown = (15, 1500)
    counted.arrived([("T", 0)], at(2))
    assert (counted.put.total, counted.put.today_morning, counted.put.yesterday_morning) == (15, 10, 0)
    counted.put.look(at(3))
    assert (counted.put.total, counted.put.today_morning, counted.put.yesterday_morning) == (15, 15, 10)


async def test_a_broker_counts_what_came_although_nobody_asks(peer: Peer, service: BrokerService) -> None:
    await peer.send("T", b"body")
    running = service._running.statistics
    await until_true(lambda: not running._longer)
    assert dict(running.totals(TOPIC_PUT_NUMS))["T"] == 1
