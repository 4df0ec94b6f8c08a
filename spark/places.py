"""Positions of several logs in one column.

A position is a byte address in one log, and any two logs have the same ones. Where several are read in one run, each
log has a number, and every position in its records becomes a place:

    63 sign   62..52 number of the log   51..0 position in it

So whatever joins, groups and orders by position keeps the logs apart without knowing of them, and a run of one log is
as it would be without this. What else repeats on each broker (offsets of queues, unique keys of messages that a client
sent again elsewhere) is kept apart by the column ``log``, which records of a run of several logs have: ``apart``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: The column with the number of a record's log.
LOG = "log"
BITS = 52
#: Logs that have a number each.
MOST_LOGS = 1 << (63 - BITS)
_POSITION = (1 << BITS) - 1
_POSITIONS = (
    "position",
    "prepared_position",
    "source_position",
    "cancels_position",
    "replaces_position",
    "stuck_position",
)


def place_of(log: int, position: int) -> int:
    """Return the place of a position in the log of this number; one that no log has is the log's last place."""
    return (log << BITS) | (position if 0 <= position < _POSITION else _POSITION)


def position_at(place: int) -> tuple[int, int]:
    """Return the number of the log and the position in it."""
    return place >> BITS, place & _POSITION


def log_of(place: Column) -> Column:
    """Return the number of the log in which a place lies."""
    return F.shiftright(place, BITS)


def position_of(place: Column) -> Column:
    """Return the position of a place in its log."""
    return place.bitwiseAND(F.lit(_POSITION))


def apart(records: DataFrame) -> list[str]:
    """Return what keys besides a position need, so that logs are not mixed: nothing in a run of one log."""
    return [LOG] if LOG in records.columns else []


def numbered_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of records with the number of their log."""
    return schema.append(pa.field(LOG, pa.int32()))


def numbered_batch(batch: pa.RecordBatch, log: int) -> pa.RecordBatch:
    """Return records of the log of this number, with places for positions."""
    first, last = place_of(log, 0), place_of(log, _POSITION)
    columns: list[pa.Array] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in _POSITIONS:
            # what a property names may be any number, and must not become a place in another log
            is_one = pc.and_(pc.greater_equal(column, 0), pc.less(column, _POSITION))
            column = pc.if_else(is_one, pc.add(column, first), last)
        columns.append(column)
    columns.append(pa.array([log], pa.int32()).take(pa.array([0] * batch.num_rows, pa.int32())))
    return pa.RecordBatch.from_arrays(columns, schema=numbered_schema(batch.schema))


def numbered_frame(records: DataFrame, log: int) -> DataFrame:
    """Return records of the log of this number, with places for positions: as `numbered_batch`, by Spark."""
    first, last = F.lit(place_of(log, 0)), F.lit(place_of(log, _POSITION))
    places = {
        name: F.when((F.col(name) >= 0) & (F.col(name) < _POSITION), F.col(name) + first).when(
            F.col(name).isNotNull(), last
        )
        for name in _POSITIONS
        if name in records.columns
    }
    return records.withColumns({**places, LOG: F.lit(log).cast("int")})


def numbered_columns(names: Sequence[str], log: int | None) -> str:
    """Return records' columns with places for positions, and the number of the log: as `numbered_batch`, by DuckDB's
    SQL; ``log`` None: these columns as they are."""
    if log is None:
        return ", ".join(names)
    first, last = place_of(log, 0), place_of(log, _POSITION)
    columns = [
        f"CASE WHEN {name} >= 0 AND {name} < {_POSITION} THEN {name} + {first}"
        f" WHEN {name} IS NOT NULL THEN {last} END AS {name}"
        if name in _POSITIONS
        else name
        for name in names
    ]
    return f"{', '.join(columns)}, {log}::INTEGER AS {LOG}"


def positions_at(places: Sequence[int], names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the positions of places, and the name of each one's log; ``names``: of logs, by number."""
    found = [position_at(place) for place in places]
    return [position for _, position in found], [names[log] for log, _ in found]
