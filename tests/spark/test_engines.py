"""Which engine computes, and DuckDB at its work: in processes, stopped, and where something fails."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import psutil
import pytest

from spark.by_duckdb import DuckdbEngine
from spark.engines import EngineMissing, chosen_engine
from spark.question import Question
from spark.scan import Planned, Scan, ScanEnded, Source, scan_of
from spark.store import DashboardError
from spark.view import OPTIONS
from tests.spark.randomlog import RandomLog
from tests.waiting import until

Write = Callable[[dict[int, bytes]], Path]


@pytest.mark.parametrize(
    ("wanted", "master", "log_mb", "has_duckdb", "has_java", "engine"),
    [
        ("auto", "", 10, True, True, "duckdb"),
        ("auto", "", 10, True, False, "duckdb"),
        ("auto", "", 8_192, True, True, "duckdb"),
        ("auto", "", 8_193, True, True, "spark"),
        ("auto", "", 8_193, True, False, "duckdb"),  # it takes longer, but it goes
        ("auto", "", 10, False, True, "spark"),
        ("auto", "", 10, False, False, "spark"),  # which says what it needs
        ("auto", "spark://host:7077", 0, True, False, "spark"),
        ("auto", "yarn", 0, True, True, "spark"),
        ("auto", "local[2]", 10, True, True, "duckdb"),
        ("auto", "local[2]", 9_000, True, True, "spark"),
        ("spark", "", 10, True, False, "spark"),
        ("duckdb", "spark://host:7077", 9_000, True, True, "duckdb"),
    ],
)
def test_who_computes(wanted: str, master: str, log_mb: int, has_duckdb: bool, has_java: bool, engine: str) -> None:
    assert engine == chosen_engine(
        wanted, master=master, log_mb=log_mb, spark_from_mb=8_192, has_duckdb=has_duckdb, has_java=has_java
    )


@pytest.mark.parametrize(
    ("wanted", "has_duckdb", "said"),
    [("sparks", True, r"ENGINE='sparks': it is one of auto, duckdb, spark\."), ("duckdb", False, "DuckDB is not")],
)
def test_what_cannot_compute_is_said(wanted: str, has_duckdb: bool, said: str) -> None:
    with pytest.raises(EngineMissing, match=said):
        chosen_engine(wanted, master="", log_mb=1, spark_from_mb=1, has_duckdb=has_duckdb, has_java=True)


@pytest.fixture
def engine() -> Iterator[DuckdbEngine]:
    """DuckDB on two cores."""
    found = DuckdbEngine(cores=2, memory_mb=256)
    yield found
    found.close()


@contextmanager
def scan_over(path: Path, scratch: Path) -> Iterator[Scan]:
    planned = Planned(Source(str(path), OPTIONS))
    with scan_of([planned], scratch) as scan:
        yield scan


def test_columns_are_written_by_processes_and_progress_is_told(
    engine: DuckdbEngine, store: Write, tmp_path: Path
) -> None:
    log = RandomLog(3).fill(700)
    with scan_over(store(log.segments), tmp_path) as scan:
        assert len(scan.tasks) > 2 and engine.scanned == 0.0
        engine.scan(scan)
        assert engine.scanned == 1.0
        (extent,) = engine.extents(several=False).values()
        assert (extent.start, extent.rows > 500) == (0, True)
        engine.begin(Question(log.now_ms))
        assert any(row[0] == "sent" for row in engine.ask("flow"))
    assert not list(tmp_path.glob("scan-*"))


def test_a_store_without_a_record_has_no_rows(engine: DuckdbEngine, tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with scan_over(tmp_path / "store", tmp_path) as scan:
        engine.scan(scan)
        assert engine.extents(several=False)[0].rows == 0
        engine.begin(Question(1))
        assert [row for row in engine.ask("flow") if row[5]] == []


@pytest.mark.parametrize("count", [20, 700], ids=["here", "in processes"])
def test_a_scan_that_is_not_wanted_any_more_ends(
    count: int, engine: DuckdbEngine, store: Write, tmp_path: Path
) -> None:
    with scan_over(store(RandomLog(3).fill(count).segments), tmp_path) as scan:
        engine.cancel()
        with pytest.raises(DashboardError, match="Somebody ended the run"):
            engine.scan(scan)
    assert not any("spawn_main" in " ".join(child.cmdline()) for child in psutil.Process().children())


def test_a_question_that_is_not_wanted_any_more_ends(engine: DuckdbEngine, store: Write, tmp_path: Path) -> None:
    log = RandomLog(3).fill(100)
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(0.001):
            engine.cancel()

    with scan_over(store(log.segments), tmp_path) as scan:
        engine.scan(scan)
        engine.begin(Question(log.now_ms))
        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            with pytest.raises(duckdb.InterruptException):
                ask_again_and_again(engine)
        finally:
            ended.set()
            thread.join()


def ask_again_and_again(engine: DuckdbEngine) -> None:
    while True:
        list(engine.ask("keys"))


def test_what_fails_in_a_process_is_said_here(engine: DuckdbEngine, store: Write, tmp_path: Path) -> None:
    with scan_over(store(RandomLog(3).fill(700).segments), tmp_path) as scan:
        scan.tasks[1] = replace(scan.tasks[1], file=str(tmp_path / "nowhere" / "0.parquet"))
        with pytest.raises(OSError, match="nowhere"):
            engine.scan(scan)


def test_a_task_says_that_it_was_ended(store: Write, tmp_path: Path) -> None:
    with scan_over(store(RandomLog(3).fill(20).segments), tmp_path) as scan:
        with pytest.raises(ScanEnded):
            scan.tasks[0](lambda: False)


def test_nothing_but_the_scan_can_be_read(engine: DuckdbEngine, store: Write, tmp_path: Path) -> None:
    """Whatever a log holds: there is no way from it to another file."""
    other = tmp_path / "other.csv"
    other.write_text("a,b")
    with scan_over(store(RandomLog(3).fill(20).segments), tmp_path) as scan:
        engine.scan(scan)
        for statement in (f"FROM read_csv('{other}')", "SET enable_external_access = true", "INSTALL httpfs"):
            with pytest.raises(duckdb.Error):
                engine.connection.execute(statement)


def test_what_does_not_fit_into_memory_goes_to_the_scan_and_with_it(
    engine: DuckdbEngine, store: Write, tmp_path: Path
) -> None:
    with scan_over(store(RandomLog(3).fill(20).segments), tmp_path) as scan:
        engine.scan(scan)
        wide = "SELECT range AS number, repeat('x', 90) || range AS text FROM range(4_000_000)"
        engine.connection.execute(f"CREATE TABLE wide AS {wide}")
        assert list((scan.directory / "spilled").iterdir())
    assert not list(tmp_path.glob("scan-*"))


PARENT = """
import sys, time
from pathlib import Path
from spark.by_duckdb import DuckdbEngine
from spark.scan import Planned, Scan, Source
from spark.view import OPTIONS

if __name__ == "__main__":
    scan = Scan([Planned(Source(sys.argv[1], OPTIONS))], Path(sys.argv[2]))
    while True:
        DuckdbEngine(cores=2, memory_mb=256).scan(scan)
"""


def is_at_work(worker: psutil.Process) -> bool:
    """Whether it is there, and not only because nobody asked how it ended."""
    try:
        return worker.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_processes_end_with_the_one_that_started_them(store: Write, tmp_path: Path) -> None:
    path, script = store(RandomLog(3).fill(700).segments), tmp_path / "parent.py"
    script.write_text(PARENT)
    (tmp_path / "scratch").mkdir()
    env = os.environ | {"PYTHONPATH": os.getcwd()}
    parent = psutil.Popen([sys.executable, str(script), str(path), str(tmp_path / "scratch")], env=env)
    workers: list[psutil.Process] = []

    def has_workers() -> bool:
        workers[:] = [child for child in parent.children() if "spawn_main" in " ".join(child.cmdline())]
        return bool(workers)

    until(has_workers, 60)
    parent.kill()
    parent.wait()
    until(lambda: not any(map(is_at_work, workers)), 30)
