"""Messages in the archive, by any of their names: a key, the client's message id, the offset id.

Of what waited, and of halves, the records that ended them are found as well: they name the position of what they end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from broker.rocketmq.message import parse_offset_message_id, written_address
from spark.store import DashboardError

from .files import ABOUT, Archive, between

#: What a search may take.
MEMORY_MB, THREADS = 384, 2
_CONFIG: dict[str, bool | int | float | str | list[str]] = {
    "threads": THREADS,
    "memory_limit": f"{MEMORY_MB}MiB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
#: No more records are given out for one search.
MOST_RECORDS = 1_000
#: Columns of a record as it is given out.
COLUMNS = (
    "broker", "position", "kind", "mode", "topic", "shown", "queue_id", "queue_offset", "born_ms", "store_ms", "due_ms",
    "tag", "keys", "unique_key", "born_host", "producer_group", "released", "committed", "sent", "size", "body_size",
    "reconsume_times", "source_position", "prepared_position", "cancels_position", "replaces_position",
    "stuck_position",
)  # fmt: skip
#: The same as the sender gave it.
_CONTENT = ("properties", "body")
#: Kinds of records that others end.
_WAITING = ("parked", "rolled", "half")
#: What a record names that it ends, or was made of; everything that is no copy of a half names 0 as the half.
_NAMING = ("source_position", "cancels_position", "replaces_position", "stuck_position", "prepared_position")
#: Keys are words: splitting only those texts that have the name somewhere takes a fraction of the time.
_SAME = """
    unique_key = $name OR contains(keys, $name) AND list_contains(string_split(keys, ' '), $name) OR deletes_key = $name
    OR position = $position AND store_host = $host
"""
_ENDS = """
    source_position IN (SELECT unnest($ended)) OR cancels_position IN (SELECT unnest($ended))
    OR replaces_position IN (SELECT unnest($ended)) OR stuck_position IN (SELECT unnest($ended))
    OR committed AND prepared_position IN (SELECT unnest($ended))
"""


_SEEN = """(
    list_contains($names::VARCHAR[], shown) OR starts_with(shown, '%')
    OR len(list_filter($prefixes::VARCHAR[], lambda prefix: starts_with(shown, prefix))) > 0
)"""


class SearchInvalid(DashboardError):
    """Nothing was given to look for, or what was given cannot be."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for: a key, message id or offset id; in a topic and at a broker, or all (empty); stored in
    [from_ms, to_ms). ``prefixes`` and ``names``: topics that may be found, None for all; those of groups are left to
    who asks."""

    name: str
    topic: str = ""
    broker: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    count: int = 200
    with_content: bool = False
    prefixes: Sequence[str] | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """Records by time, whether there are more, and the files that could not be read."""

    records: list[dict[str, Any]]
    is_cut: bool
    unreadable: list[str]


def search(archive: Archive, sought: Sought) -> Found:
    """Return the records that have the name, and those that ended them. Raises SearchInvalid, duckdb.Error."""
    if not sought.name:
        raise SearchInvalid("Give a key, a message id or an offset id.")
    count = min(max(1, sought.count), MOST_RECORDS)
    files, unreadable = _files(archive, sought)
    if not files:
        return Found([], is_cut=False, unreadable=unreadable)
    with duckdb.connect(config=_CONFIG) as connection:
        connection.read_parquet(files, union_by_name=True).create_view("records")
        found = _named(connection, sought, count)
        waited = {(row["broker"], row["position"]) for row in found if row["kind"] in _WAITING}
        found += _ending(connection, waited, sought, count)
    distinct = {(row["store_ms"] or 0, row["broker"], row["position"]): row for row in found}
    rows = [distinct[place] for place in sorted(distinct)]
    return Found(rows[:count], is_cut=len(rows) > count, unreadable=unreadable)


def _files(archive: Archive, sought: Sought) -> tuple[list[str], list[str]]:
    """Return the files that can have what is looked for, and those of them that cannot be read."""
    readable: list[str] = []
    unreadable: list[str] = []
    for broker in [sought.broker] if sought.broker else archive.brokers():
        for entry in between(archive.entries(broker), sought.from_ms, sought.to_ms):
            (readable if _is_readable(entry.path) else unreadable).append(str(entry.path))
    return readable, unreadable


def _is_readable(path: Path) -> bool:
    try:
        return ABOUT in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _named(connection: duckdb.DuckDBPyConnection, sought: Sought, count: int) -> list[dict[str, Any]]:
    host, position = "", -1
    with suppress(ValueError):
        address, port, position = parse_offset_message_id(sought.name)
        host = written_address(address, port)
    return _asked(connection, _SAME, {"name": sought.name, "host": host, "position": position}, sought, count)


def _ending(
    connection: duckdb.DuckDBPyConnection, ended: Collection[tuple[str, int]], sought: Sought, count: int
) -> list[dict[str, Any]]:
    """Return records that name what was found as what they end, or were made of."""
    found = _asked(connection, _ENDS, {"ended": [position for _, position in ended]}, sought, count) if ended else []
    return [row for row in found if any((row["broker"], row[column]) in ended for column in _NAMING)]


def _asked(
    connection: duckdb.DuckDBPyConnection, condition: str, given: dict[str, Any], sought: Sought, count: int
) -> list[dict[str, Any]]:
    columns = (*COLUMNS, *_CONTENT) if sought.with_content else COLUMNS
    among, parameters = [f"({condition})"], dict(given)
    for name, value, bound in (
        ("topic", sought.topic, "(shown = $topic OR topic = $topic)"),
        ("from_ms", sought.from_ms, "store_ms >= $from_ms"),
        ("to_ms", sought.to_ms, "store_ms < $to_ms"),
    ):
        if value not in (None, ""):
            among.append(bound)
            parameters[name] = value
    if sought.prefixes is not None:
        among.append(_SEEN)
        parameters |= {"prefixes": list(sought.prefixes), "names": list(sought.names)}
    # columns and conditions are this module's own, what is sought goes as a parameter
    listed, wanted = ", ".join(columns), " AND ".join(among)
    asked = f"SELECT {listed} FROM records WHERE {wanted}"  # noqa: S608 - see above # nosec B608
    rows = connection.execute(f"{asked} ORDER BY store_ms LIMIT {count + 1}", parameters).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in rows]
