"""Runs of dashboards: a real store, a real PostgreSQL, rows that come all at once or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from console.features.dashboards import DASHBOARDS
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardPoint, DashboardRun
from spark.jobs import JOBS
from spark.order import Order, log_bytes
from spark.queries import NAMES
from spark.run import run
from spark.sink import Coverage, Sink
from tests.spark.conftest import Make
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog

Write = Callable[[dict[int, bytes]], Path]
POINT = ("sent", "orders", "", "", 60_000, 3.0, [1, 2])


def queued(path: Path, url: str, now_ms: int, names: tuple[str, ...], window: str = "all") -> Order:
    batch = dashboards_runs.queue(names, window, store=str(path))
    rows = DashboardRun.objects.filter(batch=batch)
    return Order(str(path), url, rows[0].broker, {row.dashboard: str(row.id) for row in rows}, now_ms, window)


def test_the_dashboards_are_the_jobs() -> None:
    assert tuple(JOBS) == NAMES == tuple(DASHBOARDS)


def test_a_run_writes_what_the_log_says_and_the_next_takes_its_place(
    make: Make, store: Write, transactional_db: None, database_url: str
) -> None:
    log = RandomLog(3).fill(120)
    path = store(log.segments)
    names = ("flow", "ledger")
    for _ in range(2):
        engine = make()
        counts = run(queued(path, database_url, log.now_ms, names), engine)
        expected = count_all(messages(log.segments), log.now_ms, [], SIZE)
        for name in names:
            current = DashboardRun.objects.get(dashboard=name, is_current=True)
            assert (current.state, current.progress, current.error) == ("done", 1.0, "")
            assert current.engine == engine.name
            found = {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in current.points.all()}
            assert len(found) == counts[name]
            assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected[name].items() if v}
            assert current.rows_read == len(list(messages(log.segments)))
            assert (current.start_position, current.as_of_ms) == (0, log.now_ms)
    assert DashboardRun.objects.count() == 4
    assert DashboardPoint.objects.values("run").distinct().count() == 2


def test_how_much_will_be_read_is_known_before_spark_is_started(store: Write) -> None:
    log = RandomLog(3).fill(120)
    path = str(store(log.segments))
    ends = [0, 64, 1_000]
    assert [log_bytes(Order(path, "", "b", {}, log.now_ms, end_position=end)) for end in ends] == ends
    assert 0 < log_bytes(Order(path, "", "b", {}, log.now_ms)) <= sum(map(len, log.segments.values()))


def test_what_fails_leaves_what_was_there(
    make: Make, store: Write, transactional_db: None, database_url: str, tmp_path: Path
) -> None:
    batch = dashboards_runs.queue(("flow",), "all", store=str(tmp_path))
    row = DashboardRun.objects.get(batch=batch)
    sink = Sink(database_url, {"flow": str(row.id)})
    sink.finish("flow", Coverage(0, 9, 1, 0, 1), [POINT], 5)
    sink.close()
    order = queued(tmp_path, database_url, 1, ("flow",))
    with pytest.raises(Exception, match="holds no commit log"):
        run(order, make())
    failed = DashboardRun.objects.get(id=order.runs["flow"])
    assert failed.state == "failed" and "holds no commit log" in failed.error
    row.refresh_from_db()
    assert row.is_current and row.points.count() == 1


def test_points_come_all_or_none(transactional_db: None, database_url: str) -> None:
    batch = dashboards_runs.queue(("flow",), "all")
    row = DashboardRun.objects.get(batch=batch)
    sink = Sink(database_url, {"flow": str(row.id)})

    def broken() -> object:
        yield POINT
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        sink.finish("flow", Coverage(0, 9, 1, 0, 1), broken(), 5)
    row.refresh_from_db()
    assert (row.state, row.is_current, row.points.count()) == ("queued", False, 0)
    assert sink.finish("flow", Coverage(0, 9, 1, 0, 1), [POINT, POINT], 5) == 2
    sink.give_up("failed", "too late")
    sink.close()
    row.refresh_from_db()
    assert (row.state, row.is_current, row.points.count(), row.error) == ("done", True, 2, "")
    assert row.points.first().positions == [1, 2]


def test_what_a_producer_may_send_and_postgresql_does_not_keep_is_shown_in_its_place(
    transactional_db: None, database_url: str
) -> None:
    rows = [DashboardRun.objects.create(broker="broker-a", dashboard=name, source="") for name in ("keys", "flow")]
    sink = Sink(database_url, {row.dashboard: str(row.id) for row in rows})
    odd = [("hot", "t" * 300, "a\0b", "\0", 1 << 60, 1.0, [0])]
    assert sink.finish("keys", Coverage(0, 9, 1, 0, 1), odd, 5) == 1
    assert sink.add("flow", Coverage(0, 9, 1, 0, 1), odd)
    sink.close()
    for row in rows:
        point = row.points.get()
        assert (point.topic, point.label, point.part) == ("t" * 255, "a\ufffdb", "\ufffd")
        assert point.at_ms is None


def test_a_run_that_somebody_stops_ends(make: Make, store: Write, transactional_db: None, database_url: str) -> None:
    order = queued(store(RandomLog(4).fill(20).segments), database_url, 1, ("flow",))
    DashboardRun.objects.update(is_abort_wanted=True)
    assert run(order, make()) == {}
    assert DashboardRun.objects.get().state == "cancelled"
    assert DashboardPoint.objects.count() == 0


def test_one_that_waits_is_not_queued_twice_and_is_stopped_at_once(transactional_db: None) -> None:
    batch = dashboards_runs.queue(("flow", "keys"), "24h")
    assert dashboards_runs.queue(("keys",), "24h") == batch
    assert dashboards_runs.queue(("keys",), "7d") != batch
    dashboards_runs.cancel(batch)
    assert set(DashboardRun.objects.filter(batch=batch).values_list("state", flat=True)) == {"cancelled"}


def test_a_run_whose_process_is_gone_is_buried(transactional_db: None, database_url: str) -> None:
    batch = dashboards_runs.queue(("flow",), "all")
    row = DashboardRun.objects.get(batch=batch)
    sink = Sink(database_url, {"flow": str(row.id)})
    assert sink.beat(0.1) is False
    sink.close()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE console_dashboardrun SET beat_at = now() - interval '2 minutes'")
    assert dashboards_runs.queue(("flow",), "all") != batch
    row.refresh_from_db()
    assert row.state == "failed"


@pytest.mark.parametrize(
    ("names", "window"), [(("wings",), "all"), (("flow",), "1w"), (("flow",), "0h"), (("flow",), "1\u0663h")]
)
def test_what_does_not_exist_is_refused(names: tuple[str, ...], window: str, transactional_db: None) -> None:
    with pytest.raises(ValueError, match=r"window|dashboards are"):
        dashboards_runs.queue(names, window)


def test_without_java_the_command_says_what_is_missing(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    with pytest.raises(CommandError, match="Java 17 or newer is not installed"):
        call_command("dashboards", "run", "flow")
    assert "Java 17" in DashboardRun.objects.get().error


def test_an_ordinary_log_needs_no_java(
    store: Write, transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "VAR", tmp_path / "var")
    call_command("dashboards", "run", "--store", str(store(RandomLog(5).fill(40).segments)), stdout=StringIO())
    assert set(DashboardRun.objects.values_list("state", "engine")) == {("done", "duckdb")}
    assert DashboardRun.objects.count() == len(DASHBOARDS)


def test_the_command_runs_a_process_and_a_killed_one_leaves_nothing(
    store: Write, transactional_db: None, database_url: str
) -> None:
    path = store(RandomLog(5).fill(40).segments)
    batch = dashboards_runs.queue(("flow",), "all", store=str(path))
    row = DashboardRun.objects.get(batch=batch)
    order = {
        "store": str(path), "database_url": database_url, "broker": row.broker, "runs": {"flow": str(row.id)},
        "as_of_ms": 1, "memory_mb": 512, "engine": "spark",
    }  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "spark.run"], stdin=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    deadline = time.monotonic() + 120
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("LISTEN nothing")
        while DashboardRun.objects.get(batch=batch).state == "queued" and time.monotonic() < deadline:
            list(connection.notifies(timeout=0.2))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    row.refresh_from_db()
    assert (row.state, row.points.count()) == ("running", 0)
    said = StringIO()
    DashboardRun.objects.update(state="failed")
    call_command("dashboards", "run", "flow", store=str(path), stdout=said)
    assert said.getvalue().startswith("flow all: ")
    assert DashboardRun.objects.get(is_current=True).points.filter(series="sent").exists()
    said = StringIO()
    call_command("dashboards", "list", stdout=said)
    assert len(said.getvalue().splitlines()) == 2
