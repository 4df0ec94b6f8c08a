"""`manage.py dashboards` with what cannot be: one line that says what to do, and never a traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.utils import timezone

from broker.mirror.models import Broker, ScheduleLevel
from broker.testing import BrokerThread, small_store
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardRun
from console.site import child_processes
from spark.session import SparkNotStarted, open_session
from tests.spark.randomlog import RandomLog
from tests.watching import Calls

NO_JAVA = "Java 17 or newer is not installed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "flow", "--interval", "-3"), "--interval"),
        (("run", "--interval", "nan"), "--interval"),
        (("run", "flow", "--follow", "--since", "24h"), "leave out --since"),
        (("cancel", str(uuid.UUID(int=1))), "`dashboards list` shows"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words: tuple[str, ...], said: str, transactional_db: None) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("dashboards", *words)
    assert DashboardRun.objects.count() == 0


def test_a_list_of_fewer_than_none_is_empty(transactional_db: None) -> None:
    dashboards_runs.queue(("flow",), "all")
    call_command("dashboards", "list", "--count", "-1")


def test_without_postgresql_the_command_says_what_is_missing(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OperationalError("connection refused\nIs the server running?")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "ensure_connection", refused)
        with pytest.raises(CommandError, match=r"PostgreSQL does not respond: connection refused\. .* DATABASE_URL"):
            call_command("dashboards", "list")


def test_a_store_is_named_from_where_the_command_is_given(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    for store in ("a store", "s3://bucket/store"):
        with pytest.raises(CommandError, match=NO_JAVA):
            call_command("dashboards", "run", "flow", "--store", store)
    sources = DashboardRun.objects.order_by("queued_at").values_list("source", flat=True)
    assert list(sources) == [str(tmp_path / "a store"), "s3://bucket/store"]


def test_a_log_is_followed_by_one_process(
    transactional_db: None, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    key = f"escapement-follow/{settings.BROKER_NAME}/{tmp_path}"
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (key,))
        with pytest.raises(CommandError, match=r"follows .* already"):
            call_command("dashboards", "run", "flow", "--follow", "--store", str(tmp_path))
        assert not DashboardRun.objects.exists()
        # a server notices later that a connection is gone
        other.execute("SELECT pg_advisory_unlock_all()")
    for _ in range(2):
        with pytest.raises(CommandError, match=NO_JAVA):
            call_command("dashboards", "run", "flow", "--follow", "--store", str(tmp_path))
    assert DashboardRun.objects.get().window == dashboards_runs.LIVE


def test_a_batch_is_computed_by_one_process(
    transactional_db: None, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    batch = dashboards_runs.queue(("flow", "keys"), "all")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"escapement-batch/{batch}",))
        dashboards_runs.run_batch(batch)
        other.execute("SELECT pg_advisory_unlock_all()")
    states = DashboardRun.objects.values_list("state", flat=True)
    assert list(states.all()) == ["queued"] * 2  # it has not begun to tell of itself, but it is at work
    with pytest.raises(dashboards_runs.DashboardsUnavailable):
        dashboards_runs.run_batch(batch)
    assert list(states.all()) == ["failed"] * 2


def test_a_run_is_told_what_its_broker_was_told(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[dict[str, Any]] = []

    def computed(batch: uuid.UUID) -> None:
        """As far as it can be: there is no log."""
        heard = Calls(child_processes.run_module, before=lambda given: orders.append(json.loads(given["order"])))
        with heard, pytest.raises(subprocess.CalledProcessError):
            dashboards_runs.run_batch(batch)

    [owner] = Broker.mirror_writer.bulk_create([Broker(name=settings.BROKER_NAME)])
    lanes = [ScheduleLevel(broker=owner, level=level, delay_ms=ms) for level, ms in ((1, 5_000), (2, 3_600_000))]
    ScheduleLevel.mirror_writer.bulk_create(lanes)
    config = replace(small_store(tmp_path), retention_hours=6.5)
    with BrokerThread(config) as running:
        monkeypatch.setattr(settings, "ESCAPEMENT_NAMESRV", running.namesrv)
        computed(dashboards_runs.queue(("lateness", "storage"), "all"))
    # a broker that is away has the levels that it had; of another one nothing is known
    computed(dashboards_runs.queue(("lateness",), "24h"))
    computed(dashboards_runs.queue(("lateness",), "all", broker="elsewhere"))
    known = [(order.get("levels"), order.get("retention_hours")) for order in orders]
    assert known == [("5s 3600s", 6.5), ("5s 3600s", None), (None, None)]


def test_a_batch_whose_process_was_killed_is_computed_anew_at_once(transactional_db: None, database_url: str) -> None:
    batch = dashboards_runs.queue(("flow",), "all")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"escapement-batch/{batch}",))
        DashboardRun.objects.update(state="running", beat_at=timezone.now())
        assert dashboards_runs.queue(("flow",), "all") == batch
        # what a closed connection held is given back by its server some time later
        other.execute("SELECT pg_advisory_unlock_all()")
    again = dashboards_runs.queue(("flow",), "all")
    assert again != batch
    assert {run.batch: run.state for run in DashboardRun.objects.all()} == {batch: "failed", again: "queued"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_is_said_to_be_stopped(number: signal.Signals, transactional_db: None) -> None:
    def tell(_: object) -> None:
        DashboardRun.objects.filter(state="queued").update(state="running", beat_at=timezone.now())
        signal.raise_signal(number)

    said = StringIO()
    for name in ("flow", "keys"):
        with Calls(child_processes._give, before=tell):
            call_command("dashboards", "run", name, "--follow", "--interval", "0", stdout=said)
    assert said.getvalue() == "stopped\nstopped\n"
    assert set(DashboardRun.objects.values_list("dashboard", "state")) == {("flow", "cancelled"), ("keys", "cancelled")}


def test_a_list_shows_a_run_whose_process_is_gone_as_failed(transactional_db: None) -> None:
    DashboardRun.objects.create(dashboard="flow", state="running", beat_at=timezone.now() - timedelta(minutes=5))
    call_command("dashboards", "list")
    assert DashboardRun.objects.get().state == "failed"


@pytest.mark.parametrize("module", ["spark.run", "spark.follow"])
def test_a_store_that_is_none_is_said_without_a_traceback(
    module: str, transactional_db: None, database_url: str, tmp_path: Path
) -> None:
    run = DashboardRun.objects.create(broker="broker-a", dashboard="flow", source="")
    order = {
        "store": str(tmp_path), "database_url": database_url, "broker": "broker-a", "runs": {"flow": str(run.id)},
        "as_of_ms": 1, "memory_mb": 512,
    }  # fmt: skip
    if module == "spark.follow":
        order["checkpoint"] = str(tmp_path / "checkpoint")
    ended = subprocess.run(
        [sys.executable, "-m", module], input=json.dumps(order), text=True, check=False, capture_output=True,
    )  # fmt: skip
    run.refresh_from_db()
    assert (ended.returncode, run.state) == (1, "failed")
    assert "Traceback" not in ended.stderr
    assert run.error.startswith(f"{tmp_path} holds no commit log")


@pytest.mark.parametrize("master", ["nonsense", "spark:/host:7077", "local[", "mesos://host:5050", "http://host"])
def test_what_is_no_master_is_said_and_nothing_is_started(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_MASTER", master)
    with pytest.raises(SparkNotStarted, match=r"SPARK_MASTER=.* names no master: local\[2\], spark://host:7077"):
        open_session()


def test_a_spark_that_does_not_start_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    store: Callable[[dict[int, bytes]], Path],
    transactional_db: None,
    database_url: str,
) -> None:
    path = store(RandomLog(5).fill(10).segments)
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    run = DashboardRun.objects.create(broker="broker-a", dashboard="flow", source="")
    order = {
        "store": str(path), "database_url": database_url, "broker": "broker-a", "runs": {"flow": str(run.id)},
        "as_of_ms": 1, "cores": 1, "engine": "spark",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "spark.run"], input=json.dumps(order), text=True, check=False, capture_output=True
    )
    run.refresh_from_db()
    assert (ended.returncode, run.state) == (1, "failed")
    assert "Traceback" not in ended.stderr
    assert run.error.startswith("Spark did not start on local[1]: ") and len(run.error.splitlines()) == 1
