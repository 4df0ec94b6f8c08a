"""Writes runs and their points to PostgreSQL (tables of ``console/features/dashboards/models.py``), by COPY.

Points come with the word that they are the current ones, in one transaction: a process that ends before leaves nothing,
and the same job over the same window takes the place of the run before.

The row of a run over several brokers has none as its own, and says of each what was read (``parts``); its points say of
each position whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from spark.places import positions_at

#: Runs remembered of each dashboard and window; of older ones even the row goes.
KEPT_RUNS = 200


_DROP_POINTS = """
DELETE FROM console_dashboardpoint WHERE run_id IN (
  SELECT id FROM console_dashboardrun WHERE broker = %s AND dashboard = %s AND "window" = %s AND is_current)
"""
_RETIRE = """
UPDATE console_dashboardrun SET is_current = false
 WHERE broker = %s AND dashboard = %s AND "window" = %s AND is_current
"""
_FORGET = """
DELETE FROM console_dashboardrun WHERE NOT is_current AND state IN ('done', 'failed', 'cancelled') AND id IN (
  SELECT id FROM console_dashboardrun WHERE broker = %s AND dashboard = %s AND "window" = %s
   ORDER BY queued_at DESC OFFSET %s)
"""


_ADD_KNOWN = """
UPDATE console_dashboardpoint p SET value = p.value + m.value FROM more m
 WHERE p.run_id = %s AND p.series = m.series AND p.topic = m.topic AND p.label = m.label AND p.part = m.part
   AND p.at_ms IS NOT DISTINCT FROM m.at_ms
"""
_ADD_NEW = """
INSERT INTO console_dashboardpoint (run_id, series, topic, label, part, at_ms, value, positions)
SELECT %s, m.series, m.topic, m.label, m.part, m.at_ms, m.value, m.positions FROM more m
 WHERE NOT EXISTS (
   SELECT FROM console_dashboardpoint p WHERE p.run_id = %s AND p.series = m.series AND p.topic = m.topic
      AND p.label = m.label AND p.part = m.part AND p.at_ms IS NOT DISTINCT FROM m.at_ms)
"""
_ADVANCE = """
UPDATE console_dashboardrun SET start_position = coalesce(start_position, %s), end_position = %s,
  rows_read = coalesce(rows_read, 0) + %s, damaged_rows = coalesce(damaged_rows, 0) + %s, as_of_ms = %s,
  is_current = true WHERE id = %s
"""


#: A topic's name is cut off behind so many letters, as its column is.
MOST_LETTERS = 255
#: Moments that a calendar has, up to the year 9998, in ms; -1 stands for none (storage, expiry).
MOMENTS = range(-1, 253_370_764_800_000)


@dataclass(frozen=True, slots=True)
class Part:
    """The extent of a run at one of several brokers; ``error``: why it could not be read."""

    broker: str
    source: str
    start_position: int
    end_position: int
    rows_read: int
    damaged_rows: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The extent of a run: positions [start, end), rows, rows that stand for damage, and the moment that was now.

    Of a run over several brokers: ``parts`` by the number of the log, and no positions.
    """

    start_position: int | None
    end_position: int | None
    rows_read: int
    damaged_rows: int
    as_of_ms: int
    parts: Sequence[Part] = ()


class Sink:
    """The runs of one batch, by the name of their dashboard. Raises psycopg.Error."""

    def __init__(self, url: str, runs: dict[str, str]) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name="escapement-dashboards")
        self._runs = runs

    def close(self) -> None:
        """Close the connection to the database."""
        self._connection.close()

    def beat(self, progress: float) -> bool:
        """Say that the batch is alive and how far it is; return whether somebody wants it to end."""
        rows = self._connection.execute(
            "UPDATE console_dashboardrun SET state = 'running', beat_at = now(), progress = %s,"
            " started_at = coalesce(started_at, now())"
            " WHERE id = ANY(%s::uuid[]) AND state IN ('queued', 'running') RETURNING is_abort_wanted",
            (progress, list(self._runs.values())),
        ).fetchall()
        return any(wanted for (wanted,) in rows)

    def computed_by(self, engine: str) -> None:
        """Say which engine computes the batch."""
        self._connection.execute(
            "UPDATE console_dashboardrun SET engine = %s WHERE id = ANY(%s::uuid[]) AND state IN ('queued', 'running')",
            (engine, list(self._runs.values())),
        )

    def offsets(self, broker: str) -> list[tuple[str, str, int, int]]:
        """Return what groups have consumed, as the mirror has it: topic, group, queue, next offset."""
        return self._connection.execute(
            'SELECT topic, "group", queue_id, "offset" FROM broker_consumeroffset WHERE broker_id = %s', (broker,)
        ).fetchall()

    def finish(self, job: str, coverage: Coverage, points: Iterable[Sequence[Any]], duration_ms: int) -> int:
        """Write the points of one dashboard and make them the current ones; return how many there are."""
        number, count = self._runs[job], 0
        brokers = [part.broker for part in coverage.parts]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            row = cursor.execute(
                'SELECT broker, dashboard, "window", state FROM console_dashboardrun WHERE id = %s FOR UPDATE',
                (number,),
            ).fetchone()
            if row is None or row[3] not in ("queued", "running"):
                return 0
            key = row[:3]
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", ("/".join(key),))
            cursor.execute(_DROP_POINTS, key)
            cursor.execute(_RETIRE, key)
            with cursor.copy(
                "COPY console_dashboardpoint (run_id, series, topic, label, part, at_ms, value, positions, brokers)"
                " FROM STDIN"
            ) as copy:
                for point in points:
                    copy.write_row((number, *_kept(point, brokers)))
                    count += 1
            cursor.execute(
                "UPDATE console_dashboardrun SET state = 'done', is_current = true, finished_at = now(), progress = 1,"
                " start_position = %s, end_position = %s, rows_read = %s, damaged_rows = %s, as_of_ms = %s,"
                " duration_ms = %s, parts = coalesce(%s, parts), error = '' WHERE id = %s",
                (
                    coverage.start_position,
                    coverage.end_position,
                    coverage.rows_read,
                    coverage.damaged_rows,
                    coverage.as_of_ms,
                    duration_ms,
                    Jsonb([asdict(part) for part in coverage.parts]) if coverage.parts else None,
                    number,
                ),
            )
            cursor.execute(_FORGET, (*key, KEPT_RUNS))
        return count

    def add(self, job: str, coverage: Coverage, points: Iterable[Sequence[Any]]) -> bool:
        """Add the points of one more stretch of the log to a run that is followed; False if it has that stretch.

        How far the run is stands in its row and changes with the points, so a stretch that comes again counts once.
        """
        number = self._runs[job]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            row = cursor.execute(
                "SELECT end_position, state FROM console_dashboardrun WHERE id = %s FOR UPDATE", (number,)
            ).fetchone()
            if row is None or row[1] not in ("queued", "running") or (row[0] or 0) >= (coverage.end_position or 0):
                return False
            cursor.execute("CREATE TEMP TABLE more (LIKE console_dashboardpoint) ON COMMIT DROP")
            cursor.execute("ALTER TABLE more ALTER id DROP NOT NULL, ALTER run_id DROP NOT NULL")
            with cursor.copy(
                "COPY more (series, topic, label, part, at_ms, value, positions, brokers) FROM STDIN"
            ) as copy:
                for point in points:
                    copy.write_row(_kept(point))
            cursor.execute(_ADD_KNOWN, (number,))
            cursor.execute(_ADD_NEW, (number, number))
            cursor.execute(
                _ADVANCE,
                (
                    coverage.start_position,
                    coverage.end_position,
                    coverage.rows_read,
                    coverage.damaged_rows,
                    coverage.as_of_ms,
                    number,
                ),
            )
        return True

    def give_up(self, state: str, error: str) -> None:
        """Mark what is not done as ``failed`` or ``cancelled``; what was current before stays so."""
        self._connection.execute(
            "UPDATE console_dashboardrun SET state = %s, error = %s, finished_at = now()"
            " WHERE id = ANY(%s::uuid[]) AND state IN ('queued', 'running')",
            (state, error[:4000], list(self._runs.values())),
        )


def _kept(point: Sequence[Any], brokers: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return a point as PostgreSQL can keep it: a producer may put into keys what is no text there.

    Of several brokers its places are kept as positions, and whose each of them is.
    """
    series, topic, label, part, at_ms, value, positions = point
    topic, label, part = (text.replace("\0", "\ufffd") if text else text for text in (topic, label, part))
    # where no checksum covers a time, rot can make any of it
    at_ms = at_ms if at_ms is not None and at_ms in MOMENTS else None
    owners = None
    if brokers and positions is not None:
        positions, owners = positions_at(positions, brokers)
    return (series, topic[:MOST_LETTERS], label, part, at_ms, value, positions, owners)
