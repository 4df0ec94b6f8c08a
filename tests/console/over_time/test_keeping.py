"""Figures over time: what is written with a snapshot, and what goes when its time is over."""

from __future__ import annotations

from typing import Any

import pytest

from console.kept_figures import (
    HOUR_MS,
    MINUTE_MS,
    Figures,
    FigureSubject,
    HourFigures,
    MinuteFigures,
    forget_figures,
    keep_figures,
)
from console.snapshots import take
from tests.console.stage import Stage

#: the beginning of a day
DAY = 1_800_057_600_000
KIND = FigureSubject.Kind


def kept(slot_ms: int, **figures: Any) -> None:
    keep_figures("broker-a", slot_ms, [Figures(KIND.TOPIC, "orders", **figures)])


def minutes() -> list[tuple[int, int | None]]:
    rows = MinuteFigures.objects.order_by("slot").values_list("slot", "passed")
    return [(slot - DAY // MINUTE_MS, passed) for slot, passed in rows]


@pytest.mark.django_db
def test_a_row_is_written_where_a_figure_moved_and_once_an_hour() -> None:
    for minute, passed in ((0, 5), (1, 5), (2, 7), (3, 7), (60, 7), (61, 7)):
        kept(DAY + minute * MINUTE_MS, passed=passed)
    assert minutes() == [(0, 5), (2, 7), (60, 7)]
    # the second hour is as the first one ended
    assert [row.passed for row in HourFigures.objects.all()] == [7]


@pytest.mark.django_db
def test_an_hour_keeps_its_last_figures_and_its_highest() -> None:
    for minute, lag in ((0, 5), (1, 90), (2, 3)):
        kept(DAY + minute * MINUTE_MS, passed=minute, lag=lag)
    row = HourFigures.objects.get()
    assert (row.passed, row.lag, row.most_lag) == (2, 3, 90)


@pytest.mark.django_db
def test_what_is_not_known_is_kept_as_that() -> None:
    kept(DAY, lag=5)
    kept(DAY + MINUTE_MS, lag=None)
    kept(DAY + 2 * MINUTE_MS, lag=5)
    assert list(MinuteFigures.objects.order_by("slot").values_list("lag", flat=True)) == [5, None, 5]
    assert HourFigures.objects.get().most_lag == 5


@pytest.mark.django_db
def test_a_minute_is_written_once() -> None:
    kept(DAY, passed=1)
    kept(DAY, passed=2)
    assert minutes() == [(0, 1)]


@pytest.mark.django_db
def test_minutes_go_after_a_day_hours_with_the_snapshots_and_what_is_gone_with_them(settings: Any) -> None:
    settings.SNAPSHOT_KEEP_H, settings.SNAPSHOT_KEEP_DAYS = 24, 30
    kept(DAY, passed=1)
    kept(DAY + 26 * HOUR_MS, passed=2)

    def forgotten(at_ms: int) -> tuple[int, int, int]:
        for turn in range(30):
            forget_figures(at_ms + turn * MINUTE_MS)
        return MinuteFigures.objects.count(), HourFigures.objects.count(), FigureSubject.objects.count()

    assert forgotten(DAY + 24 * HOUR_MS) == (2, 2, 1)
    assert forgotten(DAY + 27 * HOUR_MS) == (1, 2, 1)
    assert forgotten(DAY + 63 * 24 * HOUR_MS) == (0, 0, 0)


def test_a_snapshot_writes_the_figures_of_all_subjects(stage: Stage) -> None:
    stage.fill()
    stage.consume()
    take()
    found = {(row.subject.kind, row.subject.name): row for row in MinuteFigures.objects.select_related("subject")}
    assert {("topic", "orders"), ("group", "billing"), ("lanes", ""), ("timers", ""), ("flow", "accepted")} <= {*found}
    # 19 at once, 19 on lanes: what waits has been accepted, too
    assert found["flow", "accepted"].passed == 38
    assert found["lanes", ""].pending == 19
    assert found["topic", "orders"].passed == 19
    assert found["topic", "orders"].pending == 0
    consumed, group = found["flow", "consumed"], found["group", "billing"]
    assert (consumed.passed, consumed.lag) == (group.passed, group.lag)
    assert not any(name.startswith(("SCHEDULE", "rmq_sys")) for _kind, name in found)
