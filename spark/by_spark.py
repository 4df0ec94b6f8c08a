"""Dashboards by Spark: on this machine, or on a cluster of Spark's.

On a cluster there is no directory that all machines reach, so Spark reads the logs itself and keeps the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from .engines import SPARK, Extent
from .jobs import JOBS
from .places import LOG, numbered_frame
from .question import Question
from .scan import CLUSTER, Planned, Scan, Source, is_cluster, scan_of
from .session import open_session
from .view import View, view_of


class SparkEngine:
    """Computes runs by a session of Spark."""

    name = SPARK

    def __init__(self, session: SparkSession, *, is_own: bool = False) -> None:
        """``is_own``: the session ends with this."""
        self._session = session
        self._is_own = is_own
        self._is_scanning = False
        self._records: DataFrame | None = None
        self._view: View | None = None
        self._question: Question | None = None

    @classmethod
    def opened(cls, *, cores: int, memory_mb: int, scratch: str, log_bytes: int | None) -> SparkEngine:
        """Start Spark; ``log_bytes`` None: how much will be read is not known. Raises JavaMissing, SparkNotStarted."""
        size = sys.maxsize if log_bytes is None else log_bytes
        return cls(open_session(cores=cores, memory_mb=memory_mb, scratch=scratch, log_bytes=size), is_own=True)

    @property
    def is_here(self) -> bool:
        """Whether it computes on this machine."""
        return (self._session.sparkContext.master or "").startswith("local")

    def scan(self, scan: Scan) -> None:
        """Copy logs into columns, or let the machines of the cluster keep rows. Raises PySparkException."""
        self._is_scanning = True
        if self.is_here:
            self._records = self._copied(scan)
        else:
            frames = [frame_of(self._session, planned.source) for planned in scan.logs]
            self._records = reduce(DataFrame.unionAll, frames).persist()
        self._is_scanning = False

    @property
    def scanned(self) -> float:
        """How much of the scan is done, 0 to 1."""
        tracker = self._session.sparkContext.statusTracker()
        for number in tracker.getActiveStageIds() if self._is_scanning else ():
            stage = tracker.getStageInfo(number)
            if stage is not None and stage.numTasks:
                return float(stage.numCompletedTasks) / float(stage.numTasks)
        return 0.0

    @property
    def records(self) -> DataFrame:
        """The records that were scanned."""
        assert self._records is not None
        return self._records

    def extents(self, *, several: bool) -> Mapping[int, Extent]:
        """Return what was read, by the number of the log."""
        by = [LOG] if several else []
        found = self.records.groupBy(*by).agg(
            F.count("*"), F.min("position"), F.max(F.col("position") + F.col("size")), F.count("corrupt")
        )
        return {row[0] if by else 0: Extent(*row[len(by) :]) for row in found.collect()}

    def begin(self, question: Question) -> None:
        """Take what is asked beside the records."""
        self._view, self._question = view_of(self.records).keep(), question

    def ask(self, dashboard: str) -> Iterator[tuple[Any, ...]]:
        """Yield the points of one dashboard. Raises PySparkException."""
        assert self._view is not None and self._question is not None
        return JOBS[dashboard](self._view, self._question).toLocalIterator()

    def cancel(self) -> None:
        """End what is under way."""
        self._session.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """Free what is kept; end a session of its own."""
        if self._is_own:
            self._session.stop()
            return
        if self._view is not None:
            self._view.drop()
        if self._records is not None:
            self._records.unpersist()

    def _copied(self, scan: Scan) -> DataFrame:
        if scan.tasks:
            tasks = self._session.sparkContext.parallelize(scan.tasks, len(scan.tasks))
            tasks.map(lambda task: task()).sum()
        scan.keep()
        frames = []
        for log, files in scan.files():
            frame = self._session.read.schema(from_arrow_schema(scan.columns_of(log))).parquet(*files)
            frames.append(frame if log is None else numbered_frame(frame, log))
        return reduce(DataFrame.unionByName, frames)


def frame_of(session: SparkSession, source: Source) -> DataFrame:
    """Return the records of a log as Spark reads them."""
    if is_cluster(source.store):
        reader, path = session.read.format("rocketmq").option("namesrv", source.store.removeprefix(CLUSTER)), None
    else:
        reader, path = session.read.format("rocketmq_log"), source.store
    found = reader.options(**source.options).load(path)
    return found if source.log is None else numbered_frame(found, source.log)


@contextmanager
def shared_scan(session: SparkSession, sources: Sequence[Source], scratch: Path) -> Iterator[DataFrame]:
    """Read logs, or what brokers give out of theirs, once; the frame that is given can be asked often.

    ``scratch``: where the copy lies meanwhile. Raises DashboardError, OSError, PySparkException.
    """
    engine = SparkEngine(session)
    with ExitStack() as held:
        logs = [Planned(source) for source in sources]
        for planned in logs:
            held.callback(planned.close)
        held.callback(engine.close)
        engine.scan(held.enter_context(scan_of(logs, scratch)))
        yield engine.records
