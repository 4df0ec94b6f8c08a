"""The dashboards of ``spark.jobs`` as DuckDB's SQL: the same figures without Java, where a log fits on one machine.

Each dashboard is a file of its name beside this one. What all are written with is in ``macros.sql``, what is asked
beside the log in ``asked.sql``, and what became of parked messages and of transactions in ``items.sql`` and
``halves.sql``. What a series means is said where Spark computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from spark.question import AHEAD_MS, MOST_POSITIONS, Question

#: The tables that each dashboard stands on, beside the records.
_TABLES: dict[str, tuple[str, ...]] = {
    "flow": (),
    "lateness": ("items",),
    "pending": ("items",),
    "cancellations": ("items",),
    "transactions": ("halves",),
    "retries": (),
    "keys": (),
    "storage": ("items", "halves"),
    "ledger": ("items", "halves"),
}
#: The dashboards, in their order.
NAMES = tuple(_TABLES)
#: The records with the number of their log, also where there is one log only.
_NUMBERED = "CREATE TEMP VIEW numbered_records AS SELECT *, 0::INTEGER AS log FROM records"
_ALREADY_NUMBERED = "CREATE TEMP VIEW numbered_records AS SELECT * FROM records"
#: What is asked beside the log, column by column: row by row DuckDB takes a second for a thousand.
_FILL = {
    "offsets": "INSERT INTO offsets SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5)",
    "segments": "INSERT INTO segments SELECT unnest($1), unnest($2)",
    "retentions": "INSERT INTO retentions SELECT unnest($1), unnest($2)",
    "units": "INSERT INTO units SELECT unnest($1), unnest($2), unnest($3)",
}
#: Points that are fetched together.
_FETCHED = 10_000


class Answers:
    """The frames of a log as tables of a DuckDB connection, and the dashboards asked of them.

    The connection has a table or a view ``records``: a scan with the columns of ``spark.view.OPTIONS``, and in a run of
    several logs also ``log`` (``spark/places.py``). What is made beside it is temporary. Raises duckdb.Error.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, question: Question) -> None:
        self._connection = connection
        self._made: set[str] = set()
        for name, value in _variables(question).items():
            connection.execute(f"SET VARIABLE {name} = $1", [value])
        for name in ("macros", "asked"):
            connection.execute(_text(name))
        self._fill("offsets", [(*row, 0)[:5] for row in question.offsets])
        self._fill("segments", question.segments)
        self._fill("retentions", list(question.retentions_ms.items()))
        self._fill("units", [(name, *unit) for name, unit in AHEAD_MS.items()])
        columns = {name for name, *_ in connection.execute("DESCRIBE records").fetchall()}
        connection.execute(_ALREADY_NUMBERED if "log" in columns else _NUMBERED)

    def ask(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Compute a dashboard and return its points: series, topic, label, part, at_ms, value, positions.

        They are computed before this returns, and are to be fetched before the next dashboard is asked for.
        """
        for table in _TABLES[name]:
            if table not in self._made:
                self._connection.execute(_text(table))
                self._made.add(table)
        self._connection.execute(_text(name))
        return self._points()

    def _points(self) -> Iterator[tuple[Any, ...]]:
        self._connection.execute("SELECT * FROM answer")
        while rows := self._connection.fetchmany(_FETCHED):
            yield from rows

    def _fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._connection.execute(_FILL[table], [list(column) for column in zip(*rows, strict=True)])


def _variables(question: Question) -> dict[str, Any]:
    return {
        "as_of_ms": question.as_of_ms,
        "grace_ms": question.grace_ms,
        "retention_ms": question.retention_ms,
        "top": question.top,
        "most_positions": MOST_POSITIONS,
        "several": bool(question.brokers),
        "brokers": list(question.brokers),
        "retry_prefix": RETRY_PREFIX,
        "dlq_prefix": DLQ_PREFIX,
    }


def _text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()
