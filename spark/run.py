"""Computes dashboards in a process of its own: ``python -m spark.run`` with one JSON object on standard input.

    {"store": path, "database_url": …, "broker": name, "runs": {dashboard: id of its row}, "window": "all" | "24h" | …,
     "end_position": n | null, "as_of_ms": n, "levels": "1s 5s …", "cores": n (0: priority.py), "memory_mb": n,
     "retention_hours": n, "scratch": directory or "", "disk": directory if memory does not do,
     "broker_address": "host:port" of the broker that is asked where its log ends, or "",
     "access": options of the source rocketmq that say who asks}

The store may be ``rocketmq://`` and name servers: then the broker of that name is asked for all that it gives out.

One scan of the log serves all dashboards. A second thread says every second how far it is, and ends the work when
somebody wants that. Exit code 0: done or cancelled; 1: failed, and the rows say why.

Columns of a scan are kept in memory if there is plenty. Whoever waits until the log is on disk waits for what else the
same disk is given meanwhile: a file system that keeps its journal in order writes the columns out before it says that
the log is safe. With columns in memory a scan writes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker import log_lines
from broker.rocketmq.fields import LONG_MAX
from broker.rocketmq.layout import RETENTION_HOURS
from broker.rocketmq.topics import DELAY_LEVELS
from spark.cluster_options import parse_cluster_options
from spark.cluster_source import cluster_of
from spark.jobs import JOBS
from spark.options import parse_options
from spark.points import HOUR_MS, Question
from spark.priority import GROUP_NICENESS, available, chosen, give_way
from spark.scan import CLUSTER, clear_scans, is_cluster, shared_scan
from spark.session import open_session, scratch_of
from spark.sink import Coverage, Sink
from spark.source import LogReader, first_position
from spark.store import DashboardError, LogStore, StoreUnreadable
from spark.view import OPTIONS, view_of

#: How a window is written: a number of hours or days.
_UNITS_MS = {"h": HOUR_MS, "d": 24 * HOUR_MS}
#: How often a batch says that it lives, in seconds.
BEAT_S = 1.0
#: Of all the work, how much the scan is; the dashboards share the rest.
_SCAN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    """The work to be done; see the module's description."""

    store: str
    database_url: str
    broker: str
    runs: dict[str, str]
    as_of_ms: int
    window: str = "all"
    end_position: int | None = None
    levels: str = DELAY_LEVELS
    cores: int = 0
    memory_mb: int = 1024
    retention_hours: float = RETENTION_HOURS
    scratch: str = ""
    disk: str = ""
    broker_address: str = ""
    access: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def since_ms(self) -> int | None:
        """The beginning of the window in epoch ms, None for everything."""
        if self.window == "all":
            return None
        return self.as_of_ms - int(self.window[:-1]) * _UNITS_MS[self.window[-1]]


def settled(order: Order, session_niceness: int = GROUP_NICENESS) -> Order:
    """Give way to everybody else; return the order with the number of cores, and a directory for what is kept
    meanwhile. To be called once, before anything is started. Only cores that somebody counted bind a scan."""
    cores = chosen(available(), order.cores)
    give_way(cores if order.cores else (), session_niceness)
    return replace(order, cores=len(cores), scratch=str(scratch_for(order.store, order.scratch, order.disk)))


class Progress:
    """The progress of a batch, written to the rows of its runs by a thread; ``stop`` ends the thread."""

    def __init__(self, order: Order) -> None:
        self._sink = Sink(order.database_url, order.runs)
        self._session: SparkSession | None = None
        self._stopped = threading.Event()
        self.done = 0.0
        self.is_abort_wanted = self._sink.beat(0.0)
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self, session: SparkSession) -> None:
        """Begin to tell, and to cancel the work of this session when that is wanted."""
        self._session = session
        self._thread.start()

    def stop(self) -> None:
        """End the thread that tells the progress."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sink.close()

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_S):
            self.is_abort_wanted = self._sink.beat(max(self.done, self._scanned())) or self.is_abort_wanted
            if self.is_abort_wanted and self._session is not None:
                self._session.sparkContext.cancelAllJobs()

    def _scanned(self) -> float:
        """Return how far the scan is, while it is under way."""
        if self.done or self._session is None:
            return 0.0
        tracker = self._session.sparkContext.statusTracker()
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None and stage.numTasks:
                return _SCAN_SHARE * float(stage.numCompletedTasks) / float(stage.numTasks)
        return 0.0


def run(order: Order, session: SparkSession | None = None) -> dict[str, int]:
    """Compute and write what is ordered; return the number of points of each dashboard.

    Raises DashboardError, OSError, psycopg.Error, PySparkException; the rows are marked then.
    """
    progress = Progress(order)
    sink = Sink(order.database_url, order.runs)
    opened: SparkSession | None = None
    try:
        if session is None:
            session = opened = open_session(
                cores=order.cores, memory_mb=order.memory_mb, scratch=order.scratch, log_bytes=log_bytes(order)
            )
        progress.start(session)
        return _compute(order, session, sink, progress)
    except Exception as error:
        if progress.is_abort_wanted:
            sink.give_up("cancelled", "")
            return {}
        said = str(error) if isinstance(error, DashboardError) else f"{type(error).__name__}: {error}"
        sink.give_up("failed", said)
        raise
    finally:
        progress.stop()
        sink.close()
        if opened is not None:
            opened.stop()


def _compute(order: Order, session: SparkSession, sink: Sink, progress: Progress) -> dict[str, int]:
    started_s = time.monotonic()
    segments = [] if is_cluster(order.store) else LogStore(order.store).segments()
    counts: dict[str, int] = {}
    with shared_scan(session, order.store, options_of(order), scratch_of(order.scratch)) as records:
        coverage = _coverage(records, order, first_position(segments))
        progress.done = _SCAN_SHARE
        question = Question(
            as_of_ms=order.as_of_ms,
            offsets=sink.offsets(order.broker),
            segments=[(segment.start, segment.size) for segment in segments],
            retention_ms=int(order.retention_hours * HOUR_MS),
        )
        view = view_of(records).keep()
        try:
            for number, name in enumerate(order.runs, 1):
                if progress.is_abort_wanted:
                    sink.give_up("cancelled", "")
                    break
                found = JOBS[name](view, question).toLocalIterator()
                took_ms = int((time.monotonic() - started_s) * 1000)
                counts[name] = sink.finish(name, coverage, found, took_ms)
                progress.done = _SCAN_SHARE + (1 - _SCAN_SHARE) * number / len(order.runs)
        finally:
            view.drop()
    return counts


def log_bytes(order: Order) -> int:
    """Return how much of the log will be read, at most; of a cluster nobody knows, and it counts as much."""
    if is_cluster(order.store):
        return sys.maxsize
    reader = LogReader(parse_options({**options_of(order), "path": order.store}))
    return sum(partition.stretch.end - partition.stretch.begin for partition in reader.partitions())


def options_of(order: Order) -> dict[str, str]:
    """Return the options with which the log, or what a broker gives out of it, is read."""
    if is_cluster(order.store):
        return _cluster_options(order)
    options = {**OPTIONS, "levels": order.levels, "broker": order.broker_address}
    if order.end_position is not None:
        options["end_position"] = str(order.end_position)
    if order.since_ms is not None:
        options["since_ms"] = str(order.since_ms)
    return options


def _cluster_options(order: Order) -> dict[str, str]:
    """Return the options by which everything is pulled that one broker gives out, up to one place in its log.

    What is stored while its queues are read belongs to the next run: a release whose message was not seen waiting
    would be an alarm.
    """
    options = {
        **OPTIONS,
        **order.access,
        "levels": order.levels,
        "topics": "*",
        "system_topics": "true",
        "brokers": order.broker,
        "inflate": "false",
        "fail_on_data_loss": "false",
    }
    if order.since_ms is not None:
        options["start"] = str(order.since_ms)
    parsed = parse_cluster_options({**options, "namesrv": order.store.removeprefix(CLUSTER)})
    end = order.end_position
    if end is None:
        cluster = cluster_of(parsed)
        try:
            end = cluster.log_end(order.broker)
        finally:
            cluster.close()
    return options | {"end_position": str(LONG_MAX if end is None else end)}


def _coverage(records: DataFrame, order: Order, start: int) -> Coverage:
    row = records.agg(
        F.count("*"), F.min("position"), F.max(F.col("position") + F.col("size")), F.count("corrupt")
    ).first()
    assert row is not None
    return Coverage(
        start if row[1] is None or order.since_ms is None else row[1], row[2] or start, row[0], row[3], order.as_of_ms
    )


logger = logging.getLogger(__name__)


def main() -> int:
    """Compute what standard input orders. Returns the exit code."""
    os.umask(0o077)
    log_lines.begin(level=logging.WARNING)
    order = settled(Order(**json.load(sys.stdin)))
    try:
        counts: dict[str, Any] = run(order)
    except DashboardError:
        return 1  # the rows say why, and what to do
    except Exception:
        logger.exception("the dashboards were not computed")
        return 1
    json.dump(counts, sys.stdout)
    return 0


#: A file system in memory, on Linux.
MEMORY = Path("/dev/shm")  # noqa: S108 - checked below
#: The log (its columns are a fraction of it) must fit so often into what is free.
TIMES = 2


def _is_ours(directory: Path) -> bool:
    """Make a directory for nobody else; False if that cannot be, or if somebody else made it."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def scratch_for(store: str, wanted: str, disk: str, memory: Path = MEMORY) -> Path:
    """Return the directory ``wanted``; without a word one in memory if it holds the log, else ``disk``.

    What runs left behind whose process is gone is removed from both.
    """
    if wanted:
        return Path(wanted)
    beside = scratch_of(disk)
    clear_scans(beside)
    if is_cluster(store):
        return beside  # how much it will be is not known
    own = memory / f"escapement-{os.getuid()}"
    if not _is_ours(own):
        return beside
    clear_scans(own)
    try:
        needed = TIMES * sum(segment.size for segment in LogStore(store).segments())
    except (OSError, StoreUnreadable):
        return beside  # whoever reads it says so
    free = min(psutil.virtual_memory().available, shutil.disk_usage(own).free)
    return own if needed <= free else beside


if __name__ == "__main__":
    sys.exit(main())
