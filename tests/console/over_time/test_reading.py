"""Charts over time: values, gaps, several brokers, the stretch of an address, and what a week costs."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from broker.mirror.models import Broker, MirrorState
from console.kept_figures import HOUR_MS, MINUTE_MS, Figures, FigureSubject, keep_figures
from console.over_time import DAY_MS, Line, Measure, Stretch, Wanted, lines_of, stretch_of
from console.past import Snapshot
from console.site.mirrored import cluster

DAY = 1_800_057_600_000
KIND = FigureSubject.Kind
ORDERS = Wanted(KIND.TOPIC, "orders", Measure.PASSED)
LAG = Wanted(KIND.TOPIC, "orders", Measure.LAG)


def brokers(*names: str) -> None:
    rows = [Broker(name=name, state="OK") for name in names]
    Broker.upsert(rows, ("name",))
    MirrorState.upsert([MirrorState(broker=row, as_of_ms=DAY) for row in rows], ("broker",))


def snapshot(broker: str, slot_ms: int, *, known: bool = True, **figures: Any) -> None:
    """One of this minute; without knowledge nothing is written of its topics."""
    lanes = b"x" if known else None
    Snapshot.objects.create(broker=broker, slot_ms=slot_ms, at_ms=slot_ms, lanes=lanes, timers=lanes)
    if known:
        keep_figures(broker, slot_ms, [Figures(KIND.TOPIC, "orders", **figures)])


def line(wanted: Wanted, start: int, end: int, width_ms: int = MINUTE_MS) -> Line:
    stretch = Stretch(DAY + start * width_ms, DAY + end * width_ms, width_ms)
    return lines_of(cluster(), [wanted], stretch)[0][0]


@pytest.fixture
def one(db: None) -> None:
    brokers("broker-a")


def test_throughput_is_the_difference_and_what_stands_still_is_zero(one: None) -> None:
    for minute, passed in enumerate((60, 120, 120, 180)):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=passed, lag=passed)
    assert line(ORDERS, 0, 4).values == (None, 1.0, 0.0, 1.0)
    assert line(LAG, 0, 4).values == (60, 120, 120, 180)
    assert (line(LAG, 0, 4).peak, line(LAG, 0, 4).peak_at, line(LAG, 0, 4).last) == (180, 3, 180)


def test_what_a_group_consumes_again_after_a_reset_is_consumption(one: None) -> None:
    """Set back and at the end again within a minute, it seemed to have consumed nothing."""
    wanted = Wanted(KIND.GROUP, "billing", Measure.PASSED)
    for minute, passed in enumerate((540, 600, 600, 600, 720)):
        row = Snapshot.objects.create(
            broker="broker-a", slot_ms=DAY + minute * MINUTE_MS, at_ms=DAY, lanes=b"x", timers=b"x"
        )
        keep_figures("broker-a", row.slot_ms, [Figures(KIND.GROUP, "billing", passed)])
    stretch = Stretch(DAY, DAY + 5 * MINUTE_MS, MINUTE_MS)
    back = [("", DAY + MINUTE_MS + 30_000, 420)]
    (moved,), _partial = lines_of(cluster(), [wanted], stretch, back)
    assert moved.values == (None, 1.0, 7.0, 0.0, 2.0)
    (skipped,), _partial = lines_of(cluster(), [wanted], stretch, [("broker-a", DAY + 3 * MINUTE_MS + 1, -120)])
    assert skipped.values == (None, 1.0, 0.0, 0.0, 0.0)


def test_what_was_not_read_is_a_gap_and_no_zero(one: None) -> None:
    for minute in (0, 1, 6, 7):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=600 * minute, lag=5)
    snapshot("broker-a", DAY + 3 * MINUTE_MS, known=False)
    assert line(ORDERS, 0, 8).values == (None, 10.0, None, None, None, None, None, 10.0)
    assert line(LAG, 0, 8).values == (5, 5, None, None, None, None, 5, 5)


def test_a_single_minute_that_was_missed_is_no_gap(one: None) -> None:
    for minute in (0, 1, 3):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=60, lag=5)
    assert line(LAG, 0, 4).values == (5, 5, 5, 5)


def test_nor_is_it_one_at_the_beginning_of_an_hour(one: None) -> None:
    for minute in (58, 59, 61, 62):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=60 * minute, lag=5)
    assert line(LAG, 58, 63).values == (5, 5, 5, 5, 5)


def test_a_topic_that_is_gone_has_no_figures_any_more(one: None) -> None:
    snapshot("broker-a", DAY, passed=1, lag=5)
    for minute in range(1, 70):
        Snapshot.objects.create(broker="broker-a", slot_ms=DAY + minute * MINUTE_MS, at_ms=DAY, lanes=b"x")
    assert line(LAG, 0, 70).values == (*(5,) * 60, *(None,) * 10)


def test_a_counter_that_begins_anew_is_not_known_for_a_moment(one: None) -> None:
    for minute, passed in enumerate((600, 60, 120)):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=passed)
    assert line(ORDERS, 0, 3).values == (None, None, 1.0)


def test_wider_values_are_means_of_rates_and_the_highest_of_others(one: None) -> None:
    for minute, passed in enumerate((0, 60, 60, 180, 180)):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=passed, lag=passed)
    stretch = Stretch(DAY, DAY + 10 * MINUTE_MS, 5 * MINUTE_MS)
    (rate, lag), _ = lines_of(cluster(), [ORDERS, LAG], stretch)
    assert rate.values == (pytest.approx(0.75), None)
    assert lag.values == (180, None)


def test_hours_have_their_highest(one: None) -> None:
    for hour in range(3):
        for minute, lag in enumerate((1, 50, 2)):
            snapshot("broker-a", DAY + hour * HOUR_MS + minute * MINUTE_MS, passed=3600 * hour, lag=lag + hour)
    assert line(LAG, 0, 4, HOUR_MS).values == (50, 51, 52, None)
    assert line(ORDERS, 0, 4, HOUR_MS).values == (None, 1.0, 1.0, None)


def test_several_brokers_are_added_up_and_who_was_away_is_named(db: None) -> None:
    brokers("broker-a", "broker-b")
    for minute in range(4):
        snapshot("broker-a", DAY + minute * MINUTE_MS, passed=60 * minute, lag=1)
        if minute < 2:
            snapshot("broker-b", DAY + minute * MINUTE_MS, passed=60 * minute, lag=10)
    stretch = Stretch(DAY, DAY + 5 * MINUTE_MS, MINUTE_MS)
    (rate, lag), partial = lines_of(cluster(), [ORDERS, LAG], stretch)
    assert rate.values == (None, 2.0, 1.0, 1.0, None)
    # what waits there counts as it was known last; where nobody was read it is a gap
    assert lag.values == (11, 11, 11, 11, None)
    assert partial == ("broker-b",)


@pytest.mark.parametrize(
    ("query", "span_ms", "width_ms", "over"),
    [
        ("", HOUR_MS, MINUTE_MS, "hour"),
        ("over=day", DAY_MS, 10 * MINUTE_MS, "day"),
        ("over=week", 7 * DAY_MS, HOUR_MS, "week"),
        ("over=year", HOUR_MS, MINUTE_MS, "hour"),
        (f"from={DAY - 20 * MINUTE_MS}&to={DAY}", 20 * MINUTE_MS, MINUTE_MS, ""),
        (f"from={DAY - 1}&to={DAY}", 5 * MINUTE_MS, MINUTE_MS, ""),
        (f"from={DAY - 4 * DAY_MS}&to={DAY - 3 * DAY_MS}", DAY_MS, HOUR_MS, ""),
        (f"from={DAY}&to=5", HOUR_MS, MINUTE_MS, "hour"),
        ("from=x&to=y", HOUR_MS, MINUTE_MS, "hour"),
        (f"from=0&to={2**62}", 30 * DAY_MS, 6 * HOUR_MS, ""),
    ],
)
def test_an_address_names_a_stretch(settings: Any, query: str, span_ms: int, width_ms: int, over: str) -> None:
    settings.SNAPSHOT_EVERY_S, settings.SNAPSHOT_KEEP_H, settings.SNAPSHOT_KEEP_DAYS = 60, 24, 30
    found = stretch_of(QueryDict(query), DAY + 30_000)
    assert (found.width_ms, found.over) == (width_ms, over)
    assert span_ms <= found.end_ms - found.start_ms <= span_ms + found.width_ms
    assert found.end_ms <= DAY + found.width_ms
    assert found.length <= 170


def test_snapshots_that_are_further_apart_make_wider_values(one: None, settings: Any) -> None:
    settings.SNAPSHOT_EVERY_S = 420
    for number in range(9):
        snapshot("broker-a", DAY + number * 420_000, passed=420 * number, lag=number)
    stretch = stretch_of(QueryDict(f"from={DAY}&to={DAY + HOUR_MS}"), DAY + HOUR_MS)
    assert stretch.width_ms == 10 * MINUTE_MS
    (lag,), _ = lines_of(cluster(), [LAG], stretch)
    assert lag.values == (1, 2, 4, 5, 7, 8)


WEEK = """
    INSERT INTO console_snapshot (broker, slot_ms, at_ms, why, lanes, timers)
    SELECT 'broker-a', ms, ms, '{}', 'x', 'x' FROM generate_series(%(day)s, %(end)s, %(minute)s) ms;
    INSERT INTO console_snapshot (broker, slot_ms, at_ms, why, lanes, timers)
    SELECT 'broker-a', ms, ms, '{}', 'x', 'x' FROM generate_series(%(start)s, %(day)s - 1, 3600000) ms;
    INSERT INTO console_figuresubject (broker, kind, name)
    SELECT 'broker-a', 'topic', 'topic-' || n FROM generate_series(1, %(subjects)s) n;
    INSERT INTO console_minutefigures (subject_id, slot, passed, pending, lag, lateness_us)
    SELECT s.id, ms / 60000, ms / 1000, 5, ms %% 1000, 900
      FROM console_figuresubject s, generate_series(%(day)s, %(end)s, %(minute)s) ms;
    INSERT INTO console_hourfigures (subject_id, slot, passed, pending, lag, lateness_us, most_lag)
    SELECT s.id, ms / 3600000, ms / 1000, 5, 7, 900, 9
      FROM console_figuresubject s, generate_series(%(start)s, %(end)s, 3600000) ms;
    ANALYZE
"""


def week_of(subjects: int, end_ms: int) -> None:
    """A week of snapshots: minutes of its last day, hours before; every subject moved every minute."""
    with connection.cursor() as cursor:
        cursor.execute(WEEK, {"subjects": subjects, "end": end_ms, "day": end_ms - DAY_MS,
                              "start": end_ms - 7 * DAY_MS, "minute": MINUTE_MS})  # fmt: skip


@pytest.mark.parametrize("over", ["hour", "day", "week"])
def test_a_week_is_read_by_two_queries_and_few_rows(one: None, over: str) -> None:
    end_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    week_of(10, end_ms)
    stretch = stretch_of({"over": over}, end_ms)
    wanted = [Wanted(KIND.TOPIC, "topic-5", measure) for measure in Measure]
    with CaptureQueriesContext(connection) as captured:
        lines, _ = lines_of(cluster(), wanted, stretch)
    assert len(captured) == 3
    assert all(sum(value is not None for value in found.values) >= found.values.__len__() - 1 for found in lines)
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + captured[-1]["sql"])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    # whoever reads one topic touches no other's rows
    assert "Seq Scan on console_minutefigures" not in plan
    assert "Seq Scan on console_hourfigures" not in plan
