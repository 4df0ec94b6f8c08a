"""What of each record is wanted: the less, the faster. Columns and their types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from .kinds import KINDS, NEEDED, NEEDED_PROPERTIES, kinds_of
from .properties import column_of

#: Columns that every row has, `corrupt` among them: what is wrong with the bytes, null for a sound record.
HEAD: dict[str, pa.DataType] = {
    "position": pa.int64(),
    "size": pa.int64(),
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "flag": pa.int32(),
    "sys_flag": pa.int32(),
    "born_ms": pa.int64(),
    "store_ms": pa.int64(),
    "reconsume_times": pa.int32(),
    "prepared_position": pa.int64(),
    "body_size": pa.int32(),
    "corrupt": pa.string(),
}
#: Group ``hosts``: ``address:port``, ``[address]:port`` for IPv6.
HOSTS: dict[str, pa.DataType] = {"born_host": pa.string(), "store_host": pa.string()}
#: Group ``names``: what the usual properties say. ``keys`` is as stored, separated by spaces.
NAMES: dict[str, pa.DataType] = {
    "tag": pa.string(),
    "keys": pa.string(),
    "unique_key": pa.string(),
    "delay_level": pa.int64(),
    "real_topic": pa.string(),
    "real_queue_id": pa.int64(),
    "due_ms": pa.int64(),
    "source_position": pa.int64(),
}
#: Groups of columns beside the head; ``kinds`` is in kinds.py.
GROUPS: dict[str, dict[str, pa.DataType]] = {
    "hosts": HOSTS,
    "names": NAMES,
    "kinds": KINDS,
    "properties": {"properties": pa.map_(pa.string(), pa.string())},
    "body": {"body": pa.binary()},
}
_MOST_DELAY_MS = 36_525 * 86_400_000
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Selection:
    """Groups of columns, further properties as columns of their own, whose bodies, and how much is checked.

    ``only``: these columns of the head and the groups and no others. ``body_topics`` limits bodies to these topics.
    Both empty: all of them. ``inflate``: bodies as the sender had them instead of as stored. ``delays_ms``: delay of
    each level, level 1 first.
    """

    groups: frozenset[str] = frozenset({"names"})
    extract: tuple[str, ...] = ()
    body_topics: frozenset[str] = frozenset()
    inflate: bool = False
    delays_ms: tuple[int, ...] = ()
    only: frozenset[str] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        """The columns, in their order."""
        columns = dict(HEAD)
        for group, its_columns in GROUPS.items():
            if group in self.groups:
                columns |= its_columns
        if self.only:
            columns = {name: kind for name, kind in columns.items() if name in self.only}
        extracted = {column_of(name): pa.string() for name in self.extract}
        return pa.schema(list((columns | extracted).items()))

    def having(self, *columns: str) -> Selection:
        """Return the same with these columns of the head as well."""
        return replace(self, only=self.only | set(columns)) if self.only else self

    @property
    def decoded(self) -> Selection:
        """What has to be read of the records for this; what they are is found out afterwards."""
        if "kinds" not in self.groups:
            return self
        return replace(
            self,
            groups=(self.groups - {"kinds"}) | {"names"},
            extract=tuple(dict.fromkeys((*self.extract, *NEEDED_PROPERTIES))),
            only=self.only | NEEDED if self.only else self.only,
        )

    def complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return records that were read as ``decoded`` with all columns that were chosen."""
        if "kinds" not in self.groups:
            return batch
        schema, kinds = self.schema, kinds_of(batch)
        columns = [kinds[name] if name in kinds else batch.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def chosen(words: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the groups and the single columns that these words name. Raises KeyError for one that is neither."""
    given = frozenset(words)
    groups, single = given & set(GROUPS), given - set(GROUPS)
    group_of = {name: group for group, columns in GROUPS.items() for name in columns}
    groups |= {group_of[name] for name in single - set(HEAD)}
    if not single:
        return groups, frozenset()
    return groups, single | {name for name, group in group_of.items() if group in given}


def delays_of(levels: str) -> tuple[int, ...]:
    """Return the delay in ms of each level of a ``messageDelayLevel``, level 1 first. Raises ValueError, KeyError."""
    found = tuple(int(word[:-1]) * _UNITS_MS[word[-1]] for word in levels.split())
    if any(not 0 < delay_ms <= _MOST_DELAY_MS for delay_ms in found):
        raise ValueError("a delay is longer than nothing and not longer than a century")
    return found
