"""Follows the live log: ``python -m spark.follow`` with the same JSON as ``spark.run`` and ``"checkpoint": directory``.

Each stretch that became durable adds its points to the run of the dashboard *flow*, window "live". A stretch counts
once: Spark keeps in its checkpoint what was read, the run's row how far the points are, and a stretch read again after
a crash that is in the points already is left out. Figures of the mirror (consumed) are no part of it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from broker import log_lines

from .engines import SPARK
from .jobs import JOBS
from .order import Order, settled
from .priority import FOLLOWER_NICENESS
from .question import Question
from .session import open_session
from .sink import Coverage, Sink
from .store import DashboardError, LogStore
from .view import OPTIONS, view_of

FOLLOWED = "flow"
#: How often new stretches are looked for, and how often somebody may stop it, in seconds.
TRIGGER_S = 2
BEAT_S = 1.0
#: A stretch is small: every further partition only costs the start of its tasks.
SMALL = {"spark.sql.shuffle.partitions": "1"}
#: Spark gives a Python worker ten seconds to begin, which is too short on a machine that is busy; no setting says more.
STARTS = 5
LATE_WORKER = "failed to connect back"


class Follower:
    """Adds stretch after stretch to one run."""

    def __init__(self, order: Order, session: SparkSession, checkpoint: str) -> None:
        self._order = order
        self._session = session
        self._checkpoint = checkpoint
        self._sink = Sink(order.database_url, order.runs)

    def run(self, *, once: bool = False) -> None:
        """Follow until somebody wants it to end; ``once``: up to the present end. Raises what Spark raises."""
        beats = Sink(self._order.database_url, self._order.runs)
        beats.computed_by(SPARK)
        beats.beat(0.0)
        try:
            for start in range(1, STARTS + 1):
                error = self._follow(self.query(once=once), beats)
                if error is None:
                    return
                if LATE_WORKER not in str(error) or start == STARTS:
                    raise error
        finally:
            beats.close()
            self._sink.close()

    def query(self, *, once: bool) -> StreamingQuery:
        """Begin to read behind what the checkpoint says."""
        options = {**OPTIONS, "levels": self._order.levels, "broker": self._order.broker_address}
        frame = self._session.readStream.format("rocketmq_log").options(**options)
        writer = frame.load(self._order.store).writeStream.foreachBatch(self._add)
        writer = writer.option("checkpointLocation", self._checkpoint)
        trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": f"{TRIGGER_S} seconds"}
        return writer.trigger(**trigger).start()

    def _follow(self, query: StreamingQuery, beats: Sink) -> Exception | None:
        stopped = threading.Event()
        while query.isActive and not stopped.wait(BEAT_S):
            if beats.beat(1.0):
                query.stop()
                beats.give_up("cancelled", "")
        return query.exception()

    def _add(self, stretch: DataFrame, number: int) -> None:
        view = view_of(stretch)
        view.records.persist()
        try:
            row = view.records.agg(
                F.min("position"), F.max(F.col("position") + F.col("size")), F.count("*"), F.count("corrupt")
            ).first()
            if row is None or row[0] is None:
                return
            now_ms = time.time_ns() // 1_000_000
            points = JOBS[FOLLOWED](view, Question(now_ms)).collect()  # few, and partition by partition is a job each
            self._sink.add(FOLLOWED, Coverage(row[0], row[1], row[2], row[3], now_ms), points)
        finally:
            view.records.unpersist()


logger = logging.getLogger(__name__)


def main() -> int:
    """Follow the log as standard input orders. Returns the exit code."""
    os.umask(0o077)
    log_lines.begin(level=logging.WARNING)
    said = json.load(sys.stdin)
    checkpoint = said.pop("checkpoint")
    order = settled(Order(**said), FOLLOWER_NICENESS)
    try:
        LogStore(order.store).segments()  # said at once and in one line, not from within Spark
        session = open_session(
            cores=order.cores, memory_mb=order.memory_mb, scratch=order.scratch, log_bytes=sys.maxsize, **SMALL
        )
        Follower(order, session, checkpoint).run()
    except DashboardError as error:
        _give_up(order, str(error))
        return 1
    except Exception as error:
        logger.exception("the dashboards were not computed")
        _give_up(order, f"{type(error).__name__}: {error}")
        return 1
    return 0


def _give_up(order: Order, why: str) -> None:
    sink = Sink(order.database_url, order.runs)
    sink.give_up("failed", why)
    sink.close()


if __name__ == "__main__":
    sys.exit(main())
