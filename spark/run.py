"""Computes dashboards in a process of its own: ``python -m spark.run`` with one JSON object on standard input.

    {"store": path, "database_url": …, "broker": name, "runs": {dashboard: id of its row},
     "window": "all" | "24h" | … | "archive", "end_position": n | null, "as_of_ms": n, "levels": "1s 5s …",
     "engine": "auto" | "duckdb" | "spark", "spark_from_mb": n, "cores": n (0: priority.py), "memory_mb": n,
     "retention_hours": n, "scratch": directory or "", "disk": directory if memory does not do,
     "keep": directory of kept segments (kept.py), or "": none are,
     "archive": directory of the archive (archive/), for the window "archive", or "",
     "broker_address": "host:port" of the broker that is asked where its log ends, or "",
     "access": options of the source rocketmq that say who asks,
     "parts": of a run over several brokers each of them: {"broker": …, "store": …, "levels": …, "retention_hours": …,
              "broker_address": …}; what is not said of one is as above}

The store may be ``rocketmq://`` and name servers: then the broker of that name is asked for all that it gives out.

A run over several brokers leaves out those that cannot be read now, and says so in its row: what is not there of a
broker that is away must not take the figures of the others with it. Where none can be read it fails.

One scan of the log serves all dashboards. A second thread says every second how far it is, and ends the work when
somebody wants that. Exit code 0: done or cancelled; 1: failed, and the rows say why.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker import log_lines

from .cluster import BrokerAway
from .engines import SPARK, Engine, Extent, engine_here
from .order import Order, archived, log_bytes, options_of, settled
from .places import MOST_LOGS, place_of, position_at
from .question import HOUR_MS, Question
from .scan import Planned, Source, is_cluster, scan_of, scratch_of
from .sink import Coverage, Part, Sink
from .source import first_position
from .store import DashboardError, LogStore, Segment

#: How often a batch says that it lives, in seconds.
BEAT_S = 1.0
#: Of all the work, how much the scan is; the dashboards share the rest.
_SCAN_SHARE = 0.5


class Progress:
    """The progress of a batch, written to the rows of its runs by a thread; ``stop`` ends the thread."""

    def __init__(self, order: Order) -> None:
        self._sink = Sink(order.database_url, order.runs)
        self._engine: Engine | None = None
        self._stopped = threading.Event()
        self.done = 0.0
        self.is_abort_wanted = self._sink.beat(0.0)
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self, engine: Engine) -> None:
        """Begin to tell, and to cancel what this engine does when that is wanted."""
        self._engine = engine
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
            if self.is_abort_wanted and self._engine is not None:
                self._engine.cancel()

    def _scanned(self) -> float:
        """Return how far the scan is, while it is under way."""
        return 0.0 if self.done or self._engine is None else _SCAN_SHARE * self._engine.scanned


def run(order: Order, engine: Engine | None = None) -> dict[str, int]:
    """Compute and write what is ordered; return the number of points of each dashboard. The engine is closed.

    Raises DashboardError, OSError, psycopg.Error, PySparkException, duckdb.Error; the rows are marked then.
    """
    progress = Progress(order)
    sink = Sink(order.database_url, order.runs)
    try:
        engine = engine or opened(order)
        sink.computed_by(engine.name)
        progress.start(engine)
        return _compute(order, engine, sink, progress)
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
        if engine is not None:
            engine.close()


def opened(order: Order) -> Engine:
    """Return who computes an order, ready to do so. Raises DashboardError, OSError."""
    size = log_bytes(order)
    if engine_here(order.engine, size / (1 << 20), order.spark_from_mb) == SPARK:
        # loaded by whoever computes with it
        from .by_spark import SparkEngine

        known = None if order.is_pulled else size
        return SparkEngine.opened(cores=order.cores, memory_mb=order.memory_mb, scratch=order.scratch, log_bytes=known)
    from .by_duckdb import DuckdbEngine

    return DuckdbEngine(cores=order.cores, memory_mb=order.memory_mb)


@dataclass(frozen=True, slots=True)
class _Log:
    """A log of a run: how it is read, its segments where its files are read, or why it cannot be read."""

    order: Order
    planned: Planned | None
    segments: Sequence[Segment] = ()
    error: str = ""


class NothingReadable(DashboardError):
    """None of the brokers can be read now."""


@contextmanager
def _logs(order: Order, *, is_here: bool) -> Iterator[list[_Log]]:
    """Give what is read, by number. Raises DashboardError, OSError where that is nothing."""
    keep = Path(order.keep) if order.keep and is_here else None
    found = _several(order, keep) if order.parts else [_log(order, None, keep)]
    try:
        if all(log.planned is None for log in found):
            each = "; ".join(f"{log.order.broker}: {log.error}" for log in found)
            raise NothingReadable(f"None of the brokers can be read. {each}")
        yield found
    finally:
        for log in found:
            if log.planned is not None:
                log.planned.close()


def _log(order: Order, number: int | None, keep: Path | None) -> _Log:
    planned = Planned(Source(order.store, options_of(order), number), keep, [entry.path for entry in archived(order)])
    return _Log(order, planned, [] if is_cluster(order.store) else LogStore(order.store).segments())


def _several(order: Order, keep: Path | None) -> list[_Log]:
    if len(order.parts) > MOST_LOGS:
        raise NothingReadable(f"{len(order.parts)} brokers are more than one run reads: name one of them.")
    found = []
    for number, each in enumerate(order.each):
        try:
            found.append(_log(each, number, keep))
        except BrokerAway as error:
            found.append(_Log(each, None, error=f"It is not responding: {error.why}"))
        except (DashboardError, OSError) as error:
            found.append(_Log(each, None, error=str(error)))
    return found


def _compute(order: Order, engine: Engine, sink: Sink, progress: Progress) -> dict[str, int]:
    started_s = time.monotonic()
    counts: dict[str, int] = {}
    with _logs(order, is_here=engine.is_here) as logs:
        read = [log.planned for log in logs if log.planned is not None]
        with scan_of(read, scratch_of(order.scratch)) as scan:
            engine.scan(scan)
            coverage = _coverage(engine.extents(several=bool(order.parts)), order, logs)
            progress.done = _SCAN_SHARE
            engine.begin(_question(order, logs, sink))
            for number, name in enumerate(order.runs, 1):
                if progress.is_abort_wanted:
                    sink.give_up("cancelled", "")
                    break
                found = engine.ask(name)
                took_ms = int((time.monotonic() - started_s) * 1000)
                counts[name] = sink.finish(name, coverage, found, took_ms)
                progress.done = _SCAN_SHARE + (1 - _SCAN_SHARE) * number / len(order.runs)
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
        offsets=[(*row, number) for number, log in numbered if log.planned for row in sink.offsets(log.order.broker)],
        segments=[(place_of(number, one.start), one.size) for number, log in numbered for one in log.segments],
        brokers=[log.order.broker for log in logs],
        retentions_ms={number: int(log.order.retention_hours * HOUR_MS) for number, log in numbered},
    )


def _coverage(extents: Mapping[int, Extent], order: Order, logs: Sequence[_Log]) -> Coverage:
    parts = []
    for number, log in enumerate(logs):
        start, found = first_position(log.segments), extents.get(number)
        if found is None or found.start is None or found.end is None:
            parts.append(Part(log.order.broker, log.order.store, start, start, 0, 0, log.error))
            continue
        begin, end = ((position_at(at)[1] if order.parts else at) for at in (found.start, found.end))
        is_whole = order.since_ms is None and not (log.planned and log.planned.archived)
        first = start if is_whole else begin
        parts.append(Part(log.order.broker, log.order.store, first, end, found.rows, found.damaged, log.error))
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


if __name__ == "__main__":
    sys.exit(main())
