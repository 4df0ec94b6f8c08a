"""Following the log: what becomes durable is in the figures soon after, and each record once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from console.features.dashboards.models import DashboardRun
from spark.follow import STARTS, Follower
from spark.order import Order
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog

Write = Callable[[dict[int, bytes]], Path]


def test_the_figures_grow_with_the_log_and_count_each_record_once(
    session: SparkSession, store: Write, transactional_db: None, database_url: str, tmp_path: Path
) -> None:
    log = RandomLog(21).fill(450)
    assert len(log.segments) > 1
    run = DashboardRun.objects.create(broker="broker-a", dashboard="flow", window="live", source="")
    order = Order("", database_url, "broker-a", {"flow": str(run.id)}, 1)

    def follow(segments: dict[int, bytes], checkpoint: str) -> None:
        found = Order(str(store(segments)), database_url, "broker-a", order.runs, 1)
        DashboardRun.objects.update(state="queued")
        Follower(found, session, str(tmp_path / checkpoint)).run(once=True)

    def shown() -> dict[object, float]:
        points = run.points.all()
        return {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in points if p.value}

    first = {0: log.segments[0]}
    follow(first, "kept")
    assert shown() == count_all(messages(first), 1, [], SIZE)["flow"]
    follow(log.segments, "kept")
    everything = count_all(messages(log.segments), 1, [], SIZE)["flow"]
    assert shown() == everything
    follow(log.segments, "kept")
    # a stretch that Spark gives again, as after a crash between the points and its checkpoint
    follow(log.segments, "lost")
    assert shown() == everything
    run.refresh_from_db()
    read = list(messages(log.segments))
    assert (run.rows_read, run.start_position, run.is_current) == (len(read), 0, True)
    assert run.end_position == read[-1].position + read[-1].size


class Late:
    """A query whose Python worker began too late."""

    isActive = False  # noqa: N815 - Spark's name

    def __init__(self, words: str) -> None:
        self._error = RuntimeError(words)

    def exception(self) -> Exception:
        return self._error


class Slow(Follower):
    """Its first queries fail."""

    def __init__(self, order: Order, session: SparkSession, checkpoint: str, *failures: str) -> None:
        super().__init__(order, session, checkpoint)
        self.failures = list(failures)

    def query(self, *, once: bool) -> Any:
        return Late(self.failures.pop(0)) if self.failures else super().query(once=once)


def test_a_worker_that_begins_too_late_is_started_again_and_no_other_error_is(
    session: SparkSession, store: Write, transactional_db: None, database_url: str, tmp_path: Path
) -> None:
    log = RandomLog(22).fill(20)
    run = DashboardRun.objects.create(broker="broker-a", dashboard="flow", window="live", source="")
    order = Order(str(store(log.segments)), database_url, "broker-a", {"flow": str(run.id)}, 1)
    late = "Python worker failed to connect back."
    with pytest.raises(RuntimeError, match="no such store"):
        Slow(order, session, str(tmp_path / "kept"), late, "no such store").run(once=True)
    with pytest.raises(RuntimeError, match="connect back"):
        Slow(order, session, str(tmp_path / "kept"), *[late] * STARTS).run(once=True)
    DashboardRun.objects.update(state="queued")
    Slow(order, session, str(tmp_path / "kept"), late, late).run(once=True)
    run.refresh_from_db()
    assert run.rows_read == len(list(messages(log.segments)))
