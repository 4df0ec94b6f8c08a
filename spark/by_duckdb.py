"""Dashboards by DuckDB: in this process, over columns that processes of this machine decode.

Where nothing is gained by more processes the one task is done here: starting another one takes longer than to read what
an ordinary log gained since its last segment was closed.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import reduce
from multiprocessing.synchronize import Event
from typing import Any

import duckdb

from .engines import DUCKDB, Extent
from .places import numbered_columns
from .priority import end_with_parent
from .queries import Answers
from .question import Question
from .scan import Scan, Task
from .store import DashboardError

#: Nothing is fetched, nothing is read but the files of the scan.
_SHUT = ("SET enable_external_access = false", "SET lock_configuration = true")
_EXTENT = "SELECT 0, count(*), min(position), max(position + size), count(corrupt) FROM records"
_EXTENTS = "SELECT log, count(*), min(position), max(position + size), count(corrupt) FROM records GROUP BY log"


class DuckdbEngine:
    """Computes one run by DuckDB."""

    name = DUCKDB
    is_here = True

    def __init__(self, *, cores: int, memory_mb: int) -> None:
        """``memory_mb``: what does not fit goes to the directory of the scan."""
        self._cores = max(1, cores)
        self._ended = threading.Event()
        self._elsewhere_ended: Event | None = None
        self._tasks = self._done = 0
        self._answers: Answers | None = None
        self.connection = duckdb.connect(
            config={
                "threads": self._cores,
                "memory_limit": f"{memory_mb}MiB",
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )

    def scan(self, scan: Scan) -> None:
        """Copy logs into columns. Raises DashboardError, OSError, BrokenProcessPool."""
        self._tasks = len(scan.tasks)
        if self._tasks > 1:
            self._by_processes(scan.tasks)
        else:
            for task in scan.tasks:
                task(lambda: not self._ended.is_set())
        scan.keep()
        self._open(scan)

    @property
    def scanned(self) -> float:
        """How much of the scan is done, 0 to 1."""
        return self._done / self._tasks if self._tasks else 0.0

    def extents(self, *, several: bool) -> Mapping[int, Extent]:
        """Return what was read, by the number of the log."""
        found = self.connection.execute(_EXTENTS if several else _EXTENT).fetchall()
        return {log: Extent(rows, start, end, damaged) for log, rows, start, end, damaged in found}

    def begin(self, question: Question) -> None:
        """Take what is asked beside the records."""
        self._answers = Answers(self.connection, question)

    def ask(self, dashboard: str) -> Iterator[tuple[Any, ...]]:
        """Yield the points of one dashboard. Raises duckdb.Error."""
        assert self._answers is not None
        return self._answers.ask(dashboard)

    def cancel(self) -> None:
        """End what is under way."""
        self._ended.set()
        if self._elsewhere_ended is not None:
            self._elsewhere_ended.set()
        self.connection.interrupt()

    def close(self) -> None:
        """Close the connection, and so free the memory."""
        self.connection.close()

    def _by_processes(self, tasks: Sequence[Task]) -> None:
        context = multiprocessing.get_context("spawn")  # threads of libraries, and locks, are none of a new process
        ended = self._elsewhere_ended = context.Event()
        if self._ended.is_set():
            ended.set()
        with ProcessPoolExecutor(min(self._cores, len(tasks)), context, initializer=_begin, initargs=(ended,)) as pool:
            left: set[Future[int]] = {pool.submit(_copy, task) for task in tasks}
            try:
                while left:
                    done, left = wait(left, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    self._done += len(done)
            finally:
                ended.set()
                pool.shutdown(cancel_futures=True)

    def _open(self, scan: Scan) -> None:
        """Make the view ``records`` of the files of a scan, and let nothing else be read from then on."""
        groups = scan.files()
        copies = [
            self.connection.read_parquet(files).project(numbered_columns(scan.columns_of(log).names, log))
            for log, files in groups
        ]
        reduce(duckdb.DuckDBPyRelation.union, copies).create_view("records")
        self.connection.execute("SET VARIABLE files = $1", [[file for _, files in groups for file in files]])
        self.connection.execute("SET allowed_paths = getvariable('files')")
        self.connection.execute("SET VARIABLE spilled = $1", [str(scan.directory / "spilled")])
        self.connection.execute("SET temp_directory = getvariable('spilled')")
        for statement in _SHUT:
            self.connection.execute(statement)


#: Of a process that copies: set when what it does is not wanted any more.
_ended: Event | None = None


def _begin(ended: Event) -> None:
    """Prepare a process that copies."""
    global _ended
    _ended = ended
    end_with_parent()
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():  # it ended before this process could be told
        os._exit(1)


def _copy(task: Task) -> int:
    """Do a task in a process of its own. Raises DashboardError with nothing but its words, which goes to others."""
    try:
        return task(lambda: _ended is None or not _ended.is_set())
    except DashboardError as error:
        raise DashboardError(str(error)) from None
