"""The delay of the dashboard behind the live log, and the cost of a scan to those who send meanwhile."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.installation import MANAGE, Installation, installed
from bench.peers import work_directory
from bench.results import REPOSITORY, Row, Section
from bench.spark_log import write_log
from broker.client import Admin

TITLE = "Dashboards beside a live broker"
DEFINITION = (
    "The whole installation (PostgreSQL, Valkey, broker, mirror, web) on the same two cores, flush sync. *Behind*: one "
    "process sends {rate:,} messages a second (128 bytes, batches of {batch}) for {seconds} s while `manage.py "
    "dashboards run flow --follow` runs; five times a second the figures in PostgreSQL are compared with what was "
    "acknowledged, and the age of the oldest message that they miss is noted; the first {warm} s are warm-up. *A "
    "scan*: {slow} single sends a second, each from when it ought to leave to its answer, in turns "
    "alone and while one process runs `manage.py dashboards run`, all nine over a log of {records:,} records, again "
    "and again; p99 of all turns."
)
RATE, BATCH, SECONDS, WARM_S = 10_000, 100, 40, 10
SLOW_RATE, TURN_S, TURNS = 200, 12, 3
SCAN_STARTS_S = 5
#: One process that computes them all, again and again, as a worker does: what Django takes to start is no scan.
SCANS = """
from django.core.management import call_command
while True:
    call_command("dashboards", "run", store={store!r})
"""
RECORDS, QUICK_RECORDS = 5_000_000, 200_000
BEHIND_S, RATIO = 10.0, 1.2
TOPIC = "Followed"


def measure(options: Namespace, at: str) -> Section:
    """Measure both on one installation."""
    os.environ["ESCAPEMENT_DASHBOARDS_S"] = "0"  # nothing by the timetable
    seconds, turns = (20, 1) if options.quick else (SECONDS, TURNS)
    records = options.messages or (QUICK_RECORDS if options.quick else RECORDS)
    with work_directory() as base:
        store = Path(options.store) if options.store else base / "large"
        if not store.exists():
            write_log(store, records)
        with installed(base) as one:
            with Admin(one.namesrv) as admin:
                admin.create_topic(TOPIC, queues=4)
            behind = sorted(_behind_s(one, seconds))
            print(f"  behind at most {behind[-1]:.1f} s", file=sys.stderr)
            alone, beside = _turns(one, store, turns)
    p99 = [_p99(values) for values in (alone, beside)]
    rows = [
        Row("behind, median", f"{statistics.median(behind):.1f} s"),
        Row("behind, p99", f"{behind[int(len(behind) * 0.99)]:.1f} s"),
        Row("behind, max", f"{behind[-1]:.1f} s", "", "", "<= 10 s", behind[-1] <= BEHIND_S),
        Row("send p50 during a scan", *_pair([statistics.median(values) for values in (beside, alone)])),
        Row("send p99 during a scan", *_pair(p99[::-1]), "<= 1.2", p99[1] <= RATIO * p99[0]),
    ]
    definition = DEFINITION.format(
        rate=RATE, batch=BATCH, seconds=seconds, warm=WARM_S, slow=SLOW_RATE, records=records
    )
    return Section("following", TITLE, definition, "python -m bench following", at, rows, [], "alone")


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def _pair(values: list[float]) -> tuple[str, str, str]:
    return f"{values[0]:.2f} ms", f"{values[1]:.2f} ms", f"{values[0] / values[1]:.2f}"


def _behind_s(one: Installation, seconds: int) -> list[float]:
    """Measure, again and again, how far the figures are behind what was acknowledged."""
    seen: list[tuple[float, float]] = []
    pause = threading.Event()
    with _child([sys.executable, MANAGE, "dashboards", "run", "flow", "--follow"], one.env):
        url = one.manage("run", "--print", "database-url")
        with psycopg.connect(url, autocommit=True) as connection:
            _await_current(connection, one)
            sender = _sender(one, RATE, seconds, BATCH)
            while sender.process.poll() is None:
                seen.append((time.time(), _shown(connection)))
                pause.wait(0.2)
    said = sender.said()
    answered = [moment for moment, _ in said["answered"]]
    rate = len(answered) * BATCH / (answered[-1] - answered[0])
    print(f"  sent {rate:,.0f}/s, shown {seen[-1][1]:,.0f} of {len(answered) * BATCH:,}", file=sys.stderr)
    if rate < 0.97 * RATE:
        raise RuntimeError(f"only {rate:,.0f} messages a second were sent")
    found = []
    first = seen[0][1]  # what was sent before the rate began
    for moment, shown in seen:
        missing = int((shown - first) // BATCH)  # the first batch that is not shown whole
        acknowledged = bisect_right(answered, moment)
        if moment >= answered[0] + WARM_S:
            found.append(moment - answered[missing] if missing < acknowledged else 0.0)
    return found


def _await_current(connection: psycopg.Connection, one: Installation) -> None:
    """Send single messages until the figures show one: Spark has started then."""
    pause = threading.Event()
    for _ in range(240):
        _sender(one, 1, 1, 1).said()
        if _shown(connection):
            pause.wait(5)
            return
    raise RuntimeError("nothing was shown in four minutes")


def _shown(connection: psycopg.Connection) -> float:
    row = connection.execute(
        "SELECT coalesce(sum(p.value), 0) FROM console_dashboardpoint p JOIN console_dashboardrun r ON r.id = p.run_id"
        " WHERE r.\"window\" = 'live' AND p.series = 'sent' AND p.topic = %s",
        (TOPIC,),
    ).fetchone()
    assert row is not None
    return float(row[0])


def _turns(one: Installation, store: Path, turns: int) -> tuple[list[float], list[float]]:
    """Return the times of sends in ms: alone, and while a log is scanned."""
    alone, beside = [], []
    _times(one)  # warm-up
    for _ in range(turns):
        alone += _times(one)
        _forget_runs(one)
        with _child([sys.executable, MANAGE, "shell", "-c", SCANS.format(store=str(store))], one.env) as scans:
            threading.Event().wait(SCAN_STARTS_S)
            beside += _times(one)
            if scans.poll() is not None:
                raise RuntimeError("a scan failed")
        print(f"  p99 alone {_p99(alone):.2f} ms, beside a scan {_p99(beside):.2f} ms", file=sys.stderr)
    return alone, beside


def _forget_runs(one: Installation) -> None:
    """Say that nothing runs: a batch that was killed a moment ago would be waited for."""
    with psycopg.connect(one.manage("run", "--print", "database-url"), autocommit=True) as connection:
        connection.execute("UPDATE console_dashboardrun SET state = 'failed' WHERE state IN ('queued', 'running')")


def _times(one: Installation) -> list[float]:
    return [took_ms for _, took_ms in _sender(one, SLOW_RATE, TURN_S, 1).said()["answered"]]


class Sender:
    """A process that sends; what it says at its end is more than a pipe holds."""

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        self.process = subprocess.Popen(command, cwd=REPOSITORY, stdout=self._output)

    def said(self) -> dict[str, Any]:
        """Wait for its end and return its word."""
        if self.process.wait():
            raise RuntimeError("a sender failed")
        self._output.seek(0)
        found: dict[str, Any] = json.load(self._output)
        self._output.close()
        return found


def _sender(one: Installation, rate: int, seconds: int, batch: int) -> Sender:
    given = [one.namesrv, TOPIC, *map(str, (rate, seconds, batch))]
    return Sender([sys.executable, "-m", "bench.following_send", *given])


@contextmanager
def _child(command: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process and all that it started, ended together."""
    child = subprocess.Popen(
        command, cwd=REPOSITORY, env={**os.environ, **env}, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield child
    finally:
        os.killpg(child.pid, 15)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
