"""Computes dashboards in a process of its own: ``python -m spark.run`` with one JSON object on standard input.

    {"store": path, "database_url": …, "broker": name, "runs": {dashboard: id of its row}, "window": "all" | "24h" | …,
     "end_position": n | null, "as_of_ms": n, "levels": "1s 5s …", "cores": n (0: priority.py), "memory_mb": n,
     "retention_hours": n, "scratch": directory or "", "disk": directory if memory does not do,
     "broker_address": "host:port" of the broker that is asked where its log ends, or "",
     "access": options of the source rocketmq that say who asks,
     "parts": of a run over several brokers each of them: {"broker": …, "store": …, "levels": …, "retention_hours": …,
              "broker_address": …}; what is not said of one is as above}

The store may be ``rocketmq://`` and name servers: then the broker of that name is asked for all that it gives out.

A run over several brokers leaves out those that cannot be read now, and says so in its row: what is not there of a
broker that is away must not take the figures of the others with it. Where none can be read it fails.

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
from collections.abc import Sequence
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
from spark.cluster import BrokerAway
from spark.cluster_options import parse_cluster_options
from spark.cluster_source import cluster_of
from spark.jobs import JOBS
from spark.places import LOG, MOST_LOGS, place_of, position_at
from spark.priority import GROUP_NICENESS, available, chosen, give_way
from spark.question import HOUR_MS, Question
from spark.scan import CLUSTER, Source, clear_scans, is_cluster, shared_scan
from spark.session import open_session, scratch_of
from spark.sink import Coverage, Part, Sink
from spark.source import LogPartition, first_position
from spark.store import DashboardError, LogStore, Segment, StoreUnreadable
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
    parts: Sequence[dict[str, Any]] = ()

    @property
    def each(self) -> list[Order]:
        """The order for each broker alone."""
        return [replace(self, parts=(), **part) for part in self.parts] or [self]

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
    return replace(
        order,
        cores=len(cores),
        scratch=str(scratch_for([each.store for each in order.each], order.scratch, order.disk)),
    )


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


@dataclass(frozen=True, slots=True)
class _Log:
    """A log of a run: how it is read, its segments where its files are read, or why it cannot be read."""

    order: Order
    source: Source | None
    segments: Sequence[Segment] = ()
    error: str = ""


class NothingReadable(DashboardError):
    """None of the brokers can be read now."""


def _logs(order: Order) -> list[_Log]:
    """Return what is read, by number. Raises DashboardError, OSError where that is nothing."""
    if not order.parts:
        return [_Log(order, Source(order.store, options_of(order)), _segments(order.store))]
    if len(order.parts) > MOST_LOGS:
        raise NothingReadable(f"{len(order.parts)} brokers are more than one run reads: name one of them.")
    found = [_one_of_several(each, number) for number, each in enumerate(order.each)]
    if all(log.source is None for log in found):
        each = "; ".join(f"{log.order.broker}: {log.error}" for log in found)
        raise NothingReadable(f"None of the brokers can be read. {each}")
    return found


def _one_of_several(order: Order, number: int) -> _Log:
    try:
        source = Source(order.store, options_of(order), number)
        return _Log(order, replace(source, partitions=source.reader.partitions()), _segments(order.store))
    except BrokerAway as error:
        return _Log(order, None, error=f"It is not responding: {error.why}")
    except (DashboardError, OSError) as error:
        return _Log(order, None, error=str(error))


def _segments(store: str) -> list[Segment]:
    return [] if is_cluster(store) else LogStore(store).segments()


def _compute(order: Order, session: SparkSession, sink: Sink, progress: Progress) -> dict[str, int]:
    started_s = time.monotonic()
    logs = _logs(order)
    counts: dict[str, int] = {}
    sources = [log.source for log in logs if log.source is not None]
    with shared_scan(session, sources, scratch_of(order.scratch)) as records:
        coverage = _coverage(records, order, logs)
        progress.done = _SCAN_SHARE
        question = _question(order, logs, sink)
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


def _question(order: Order, logs: Sequence[_Log], sink: Sink) -> Question:
    """Return what the jobs need to know beside the records."""
    if not order.parts:
        return Question(
            as_of_ms=order.as_of_ms,
            offsets=sink.offsets(order.broker),
            segments=[(segment.start, segment.size) for segment in logs[0].segments],
            retention_ms=int(order.retention_hours * HOUR_MS),
        )
    numbered = list(enumerate(logs))
    return Question(
        as_of_ms=order.as_of_ms,
        offsets=[(*row, number) for number, log in numbered if log.source for row in sink.offsets(log.order.broker)],
        segments=[(place_of(number, one.start), one.size) for number, log in numbered for one in log.segments],
        brokers=[log.order.broker for log in logs],
        retentions_ms={number: int(log.order.retention_hours * HOUR_MS) for number, log in numbered},
    )


def log_bytes(order: Order) -> int:
    """Return how much of the logs will be read, at most; of a cluster nobody knows, and it counts as much."""
    if any(is_cluster(each.store) for each in order.each):
        return sys.maxsize
    found = 0
    for each in order.each:
        try:
            partitions = Source(each.store, options_of(each)).reader.partitions()
        except (DashboardError, OSError):
            if not order.parts:
                raise
            continue  # the run says so
        found += sum(one.stretch.end - one.stretch.begin for one in partitions if isinstance(one, LogPartition))
    return found


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
    own_name = order.broker.rpartition("/")[2]  # before it: what the settings call its cluster
    options = {
        **OPTIONS,
        **order.access,
        "levels": order.levels,
        "topics": "*",
        "system_topics": "true",
        "brokers": own_name,
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
            end = cluster.log_end(own_name)
        finally:
            cluster.close()
    return options | {"end_position": str(LONG_MAX if end is None else end)}


def _coverage(records: DataFrame, order: Order, logs: Sequence[_Log]) -> Coverage:
    by = [LOG] if order.parts else []
    rows = {
        row[LOG] if by else 0: row
        for row in records.groupBy(*by)
        .agg(
            F.count("*").alias("rows"),
            F.min("position").alias("start"),
            F.max(F.col("position") + F.col("size")).alias("end"),
            F.count("corrupt").alias("damaged"),
        )
        .collect()
    }
    parts = []
    for number, log in enumerate(logs):
        start, row = first_position(log.segments), rows.get(number)
        if row is None or row["end"] is None:
            parts.append(Part(log.order.broker, log.order.store, start, start, 0, 0, log.error))
            continue
        begin, end = (position_at(row[name])[1] if by else row[name] for name in ("start", "end"))
        first = start if order.since_ms is None else begin
        parts.append(Part(log.order.broker, log.order.store, first, end, row["rows"], row["damaged"], log.error))
    if not order.parts:
        only = parts[0]
        return Coverage(only.start_position, only.end_position, only.rows_read, only.damaged_rows, order.as_of_ms)
    read, damaged = sum(part.rows_read for part in parts), sum(part.damaged_rows for part in parts)
    return Coverage(None, None, read, damaged, order.as_of_ms, parts)


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
MEMORY = Path("/dev/shm")  # noqa: S108 - checked below # nosec B108
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


def scratch_for(stores: Sequence[str], wanted: str, disk: str, memory: Path = MEMORY) -> Path:
    """Return the directory ``wanted``; without a word one in memory if it holds the logs, else ``disk``.

    What runs left behind whose process is gone is removed from both.
    """
    if wanted:
        return Path(wanted)
    beside = scratch_of(disk)
    clear_scans(beside)
    if any(map(is_cluster, stores)):
        return beside  # how much it will be is not known
    own = memory / f"escapement-{os.getuid()}"
    if not _is_ours(own):
        return beside
    clear_scans(own)
    try:
        needed = TIMES * sum(segment.size for store in stores for segment in LogStore(store).segments())
    except (OSError, StoreUnreadable):
        return beside  # whoever reads it says so
    free = min(psutil.virtual_memory().available, shutil.disk_usage(own).free)
    return own if needed <= free else beside


if __name__ == "__main__":
    sys.exit(main())
