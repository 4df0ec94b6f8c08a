"""Spark and DuckDB over a large log: the scan alone, all dashboards, memory; beside a plain loop and Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.peers import work_directory
from bench.results import REPOSITORY, Row, Section
from bench.spark_log import plain_loop, write_log

TITLE = "Dashboards with Spark and DuckDB"
DEFINITION = (
    "A log of {count:,} records with bodies of 128 bytes (of ten seven plain, one on a delay level, one timer and "
    "its release). *Scan*, on two cores: count, sum of sizes, ids and the latest time over all records, from "
    "the query's start to its answer. *All nine dashboards*: from the start of the process to the last result, session "
    "start included, on one core as somebody who asks for them gets it; by DuckDB once more where columns of closed "
    "segments were kept. "
    "*Memory* is the most that Java and all Python processes held together: RSS adds up what each has "
    "in memory, pages that they share counted again for each; PSS counts those once."
)
FULL, QUICK = 5_000_000, 100_000
#: Records that the plain loop reads: it takes the same time for each.
LOOP_RECORDS = 200_000
SCAN_PER_S, BODIES_PER_S, MEMORY_MB = 400_000, 250_000, 2_048
#: All dashboards, by who computes them: DuckDB does where nobody asks for Spark.
SPARK_S, DUCKDB_S = 90, 30
READINGS = ("scan", "bodies", "jobs", "queries", "kept", "parquet", "duckdb")


def measure(options: Namespace, at: str) -> Section:
    """Write the log, unless one is given, then let processes of their own read it."""
    count = options.messages or (QUICK if options.quick else FULL)
    with work_directory() as directory:
        store = Path(options.store) if options.store else directory / "store"
        if not store.exists():
            write_log(store, count)
        found = {name: _asked(name, store, directory) for name in READINGS}
        started_s = time.perf_counter()
        loop_per_s = plain_loop(store, LOOP_RECORDS) / (time.perf_counter() - started_s)
    return Section(
        "spark", TITLE, DEFINITION.format(count=count), "python -m bench spark", at, _rows(count, found, loop_per_s),
        [f"all nine, {name}: {_each(found[name])}" for name in ("jobs", "queries", "kept")],
        "another way",
    )  # fmt: skip


def _rows(count: int, found: dict[str, Reading], loop_per_s: float) -> list[Row]:
    per_s = {name: count / reading.seconds for name, reading in found.items()}
    scan, bodies, jobs = per_s["scan"], per_s["bodies"], found["jobs"]
    export_s = found["parquet"].each["export"]
    after_export = count / (export_s + found["duckdb"].seconds)
    return [
        Row("scan without bodies", f"{scan:,.0f} records/s", "", "", ">= 400,000/s", scan >= SCAN_PER_S),
        Row("scan with bodies", f"{bodies:,.0f} records/s", "", "", ">= 250,000/s", bodies >= BODIES_PER_S),
        _compared("plain loop, engine's codec, one core", scan, loop_per_s),
        _compared("Spark over an exported Parquet", scan, per_s["parquet"]),
        _compared("DuckDB over the exported Parquet", scan, per_s["duckdb"]),
        _compared(f"the export ({export_s:.1f} s) and DuckDB", scan, after_export),
        *_nine("Spark", jobs, SPARK_S),
        *_nine("DuckDB", found["queries"], DUCKDB_S),
        *_nine("DuckDB, again", found["kept"], DUCKDB_S),
    ]


def _nine(engine: str, reading: Reading, most_s: int) -> list[Row]:
    """Return what all dashboards took, and the memory of it."""
    took_s = reading.process_s
    return [
        Row(f"all nine by {engine}", f"{took_s:.1f} s", "", "", f"<= {most_s} s", took_s <= most_s),
        Row("memory, RSS", f"{reading.rss_mb:,.0f} MB", "", "", "<= 2 GB", reading.rss_mb <= MEMORY_MB),
        Row("memory, PSS", f"{reading.pss_mb:,.0f} MB", "", "", "<= 2 GB", reading.pss_mb <= MEMORY_MB),
    ]


def _each(reading: Reading) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in reading.each.items())


def _compared(name: str, ours: float, theirs: float) -> Row:
    return Row(f"scan against {name}", f"{ours:,.0f} /s", f"{theirs:,.0f} /s", f"{ours / theirs:.2f}")


@dataclass(frozen=True, slots=True)
class Reading:
    """The needs of one process: its own time, the time from start to end, the memory of it and its children."""

    seconds: float
    process_s: float
    rss_mb: float
    pss_mb: float
    each: dict[str, float]


class Watch:
    """The most memory that a process and its children held, in MB, looked at twice a second."""

    def __init__(self, pid: int) -> None:
        self.rss_mb = self.pss_mb = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            try:
                first = psutil.Process(self._pid)
                held = [process.memory_full_info() for process in (first, *first.children(recursive=True))]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            self.rss_mb = max(self.rss_mb, sum(one.rss for one in held) / 1e6)
            self.pss_mb = max(self.pss_mb, sum(one.pss for one in held) / 1e6)


def _asked(name: str, store: Path, scratch: Path) -> Reading:
    """Run one reading in a process of its own."""
    started_s = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.spark_reading", name, str(store), str(scratch)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    with Watch(child.pid) as watch:
        said, _ = child.communicate()
    took_s = time.perf_counter() - started_s
    if child.returncode:
        raise RuntimeError(f"The reading {name!r} ended with {child.returncode}.")
    found = json.loads(said)
    reading = Reading(found["seconds"], took_s, watch.rss_mb, watch.pss_mb, found["each"])
    print(f"  {name}: {reading}", file=sys.stderr)
    return reading
