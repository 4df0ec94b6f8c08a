"""The order of a run: what is read, by whom it is computed, and with what of this machine.

Columns of a scan are kept in memory if there is plenty. Whoever waits until the log is on disk waits for what else the
same disk is given meanwhile: a file system that keeps its journal in order writes the columns out before it says that
the log is safe. With columns in memory a scan writes nothing but segments that are kept (``kept.py``).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from broker.rocketmq.fields import LONG_MAX
from broker.rocketmq.layout import RETENTION_HOURS
from broker.rocketmq.topics import DELAY_LEVELS

from .archive.files import Archive, Entry
from .cluster_options import parse_cluster_options
from .cluster_source import cluster_of
from .engines import AUTO, SPARK_FROM_MB
from .priority import GROUP_NICENESS, SPARED, available, chosen, give_way
from .question import HOUR_MS
from .scan import CLUSTER, Source, clear_scans, is_cluster, scratch_of
from .source import LogPartition
from .store import DashboardError, LogStore, StoreUnreadable
from .view import OPTIONS

#: The window over everything in the log and in the archive.
ARCHIVE = "archive"
#: How a window is written: a number of hours or days.
_UNITS_MS = {"h": HOUR_MS, "d": 24 * HOUR_MS}


@dataclass(frozen=True, slots=True)
class Order:
    """The work to be done; see `run.py`."""

    store: str
    database_url: str
    broker: str
    runs: dict[str, str]
    as_of_ms: int
    window: str = "all"
    end_position: int | None = None
    levels: str = DELAY_LEVELS
    engine: str = AUTO
    spark_from_mb: int = SPARK_FROM_MB
    cores: int = 0
    memory_mb: int = 1024
    retention_hours: float = RETENTION_HOURS
    scratch: str = ""
    disk: str = ""
    keep: str = ""
    archive: str = ""
    broker_address: str = ""
    access: dict[str, str] = field(default_factory=dict, repr=False)
    parts: Sequence[dict[str, Any]] = ()

    @property
    def each(self) -> list[Order]:
        """The order for each broker alone."""
        return [replace(self, parts=(), **part) for part in self.parts] or [self]

    @property
    def is_pulled(self) -> bool:
        """Whether messages of a broker are pulled; how much that will be nobody knows."""
        return any(is_cluster(each.store) for each in self.each)

    @property
    def since_ms(self) -> int | None:
        """The beginning of the window in epoch ms, None for everything."""
        if self.window in ("all", ARCHIVE):
            return None
        return self.as_of_ms - int(self.window[:-1]) * _UNITS_MS[self.window[-1]]


def settled(order: Order, session_niceness: int = GROUP_NICENESS) -> Order:
    """Give way to everybody else; return the order with the number of cores, and a directory for what is needed
    meanwhile. To be called once, before anything is started. Only cores that somebody counted bind a scan; without a
    word it leaves one alone, unless it has a share of its own."""
    cores = chosen(available(), order.cores, SPARED if session_niceness == GROUP_NICENESS else 0)
    give_way(cores if order.cores else (), session_niceness)
    return replace(
        order,
        cores=len(cores),
        scratch=str(scratch_for([each.store for each in order.each], order.scratch, order.disk)),
    )


def log_bytes(order: Order) -> int:
    """Return how much of the logs will be read from files, at most, and how much of logs is read from the archive."""
    found = 0
    for each in order.each:
        if is_cluster(each.store):
            continue
        try:
            # nothing is divided, so nothing is read
            partitions = Source(each.store, options_of(each) | {"split_bytes": str(LONG_MAX)}).reader.partitions()
        except (DashboardError, OSError):
            if not order.parts:
                raise
            continue  # the run says so
        found += sum(one.stretch.end - one.stretch.begin for one in partitions if isinstance(one, LogPartition))
        found += sum(entry.end - entry.start for entry in archived(each))
    return found


def archived(order: Order) -> list[Entry]:
    """Return what the archive has of one broker's log before its first segment, where that is wanted."""
    if order.window != ARCHIVE or not order.archive or is_cluster(order.store):
        return []
    segments = LogStore(order.store).segments()
    return Archive(Path(order.archive)).before(order.broker, segments[0].start) if segments else []


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
