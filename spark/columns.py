"""The columns of a record: which are wanted (the less, the faster), their types, and what kind of record it is.

The columns of group ``kinds`` are those from which every dashboard is made:

kind      plain   a message where its consumers look for it: sent there, released or committed to there
          parked  waits in SCHEDULE_TOPIC_XXXX (mode "level") or rmq_sys_wheel_timer (mode "timer")
          rolled  the same timer written again by Apache RocketMQ, because its wheel was too short
          delete  ends a timer      half, op, stuck  transactions      note  what the broker writes down for itself
          damage  bytes without a record
shown     the topic it is about: the real topic of what is parked or half
released  it left a lane or the wheel: it names the parked record (ESC_SOURCE), or Apache RocketMQ left its marks
committed it is the copy that a commit made
sent      somebody sent it; the other records were written by the broker about it, a timer that was moved among them
          (one that its sender put in the place of another says so: ESC_ON_CONFLICT)
put_back  a half that the broker wrote again
exact     a timer of Escapement's, with its moment in ms; ``out_ms`` is the moment by RocketMQ's wheel

The others are properties under other names: cancels_position, replaces_position, stuck_position (ESC_CANCELS,
ESC_REPLACES, ESC_PARKED), deletes_key, producer_group, check_times, decisions, origin_id, origin_group. Where one ought
to be a number and is none, it counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.rocketmq.layout import FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK
from broker.rocketmq.properties import (
    CANCELS,
    CHECK_TIMES,
    DECISIONS,
    DUE_MS,
    ECHO,
    ON_CONFLICT,
    ORIGIN_GROUP,
    ORIGIN_MESSAGE_ID,
    PARKED_HALF,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    REPLACES,
    TIMER_DELETE,
    TIMER_OUT_MS,
    TIMER_ROLLS,
)
from broker.rocketmq.topics import (
    CHECKS_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    PARKED_HALF_TOPIC,
    POP_TOPIC,
    REVIVE_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)

from .fields import Longs, Mask
from .properties import column_of, whole_numbers

KINDS: dict[str, pa.DataType] = {
    "kind": pa.string(),
    "mode": pa.string(),
    "shown": pa.string(),
    "released": pa.bool_(),
    "committed": pa.bool_(),
    "sent": pa.bool_(),
    "put_back": pa.bool_(),
    "exact": pa.bool_(),
    "out_ms": pa.int64(),
    "cancels_position": pa.int64(),
    "replaces_position": pa.int64(),
    "stuck_position": pa.int64(),
    "check_times": pa.int64(),
    "deletes_key": pa.string(),
    "producer_group": pa.string(),
    "decisions": pa.string(),
    "origin_id": pa.string(),
    "origin_group": pa.string(),
}
#: Columns and properties that have to be there to tell.
NEEDED = frozenset({"topic", "real_topic", "delay_level", "source_position", "prepared_position", "sys_flag"})
NEEDED_PROPERTIES = (
    DUE_MS,
    CANCELS,
    REPLACES,
    ON_CONFLICT,
    ECHO,
    PARKED_HALF,
    DECISIONS,
    TIMER_DELETE,
    TIMER_OUT_MS,
    TIMER_ROLLS,
    PRODUCER_GROUP,
    CHECK_TIMES,
    PREPARED_QUEUE_OFFSET,
    ORIGIN_MESSAGE_ID,
    ORIGIN_GROUP,
)

_NAMES = ("plain", "parked", "rolled", "delete", "half", "op", "note", "stuck", "damage")
PLAIN, PARKED, ROLLED, DELETE, HALF, OP, NOTE, STUCK, DAMAGE = range(len(_NAMES))
_OF_TOPIC = {
    SCHEDULE_TOPIC: PARKED,
    TIMER_TOPIC: PARKED,
    HALF_TOPIC: HALF,
    OP_TOPIC: OP,
    CHECKS_TOPIC: NOTE,
    POP_TOPIC: NOTE,
    PARKED_HALF_TOPIC: STUCK,
}


def kinds_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of ``KINDS`` for records with the columns and properties that are needed."""
    encoded = batch.column("topic").dictionary_encode()
    topics = encoded.dictionary.to_pylist()
    place = encoded.indices.fill_null(len(topics)).to_numpy()  # what has no topic is damage
    kind = np.array([*(_kind_of_topic(topic) for topic in topics), DAMAGE])[place]
    is_system = (kind != PLAIN) & (kind != DAMAGE)
    is_timer = np.array([*(topic == TIMER_TOPIC for topic in topics), False])[place]
    mode = pa.array(
        [*({SCHEDULE_TOPIC: "level", TIMER_TOPIC: "timer"}.get(topic) for topic in topics), None], pa.string()
    )
    deletes = is_timer & (_has(batch, TIMER_DELETE) | _has(batch, CANCELS) | _has(batch, ECHO))
    kind[is_timer & _has(batch, TIMER_ROLLS)] = ROLLED
    kind[deletes] = DELETE

    commits = _numbers(batch, "sys_flag") & FLAG_TRANSACTION_MASK == FLAG_TRANSACTION_COMMIT
    released = ~is_system & (_released_here(batch, commits) | _released_by_apache(batch))
    is_message = (kind == PLAIN) | (kind == PARKED)
    committed = ~released & commits & is_message
    put_back = _has(batch, CHECK_TIMES) | _has(batch, PREPARED_QUEUE_OFFSET)
    sent = ~released & ~committed & ~_moved(batch) & (is_message | ((kind == HALF) & ~put_back))
    real_topic = batch.column("real_topic")
    shown = batch.column("topic")
    if is_system.any():
        shown = pc.if_else(pa.array(is_system), pc.coalesce(real_topic, shown), shown)
    return {
        "kind": pa.array(_NAMES).take(pa.array(kind)),
        "mode": mode.take(pa.array(place)),
        "shown": shown,
        "released": pa.array(released),
        "committed": pa.array(committed),
        "sent": pa.array(sent),
        "put_back": pa.array(put_back),
        "exact": pa.array(_has(batch, DUE_MS)),
        "out_ms": whole_numbers(_property(batch, TIMER_OUT_MS)),
        "cancels_position": whole_numbers(_property(batch, CANCELS)),
        "replaces_position": whole_numbers(_property(batch, REPLACES)),
        "stuck_position": whole_numbers(_property(batch, PARKED_HALF)),
        "check_times": whole_numbers(_property(batch, CHECK_TIMES)).fill_null(0),
        "deletes_key": _property(batch, TIMER_DELETE),
        "producer_group": _property(batch, PRODUCER_GROUP),
        "decisions": _property(batch, DECISIONS),
        "origin_id": _property(batch, ORIGIN_MESSAGE_ID),
        "origin_group": _property(batch, ORIGIN_GROUP),
    }


def _kind_of_topic(topic: str) -> int:
    return NOTE if topic.startswith(REVIVE_PREFIX) else _OF_TOPIC.get(topic, PLAIN)


def _moved(batch: pa.RecordBatch) -> Mask:
    """Tell which timers the broker wrote again: with another moment, or because their segment was to go."""
    moved = _has(batch, REPLACES)
    if moved.any():
        moved &= ~np.asarray(pc.equal(_property(batch, ON_CONFLICT), "replace").fill_null(False))
    return moved


def _released_here(batch: pa.RecordBatch, commits: Mask) -> Mask:
    source = batch.column("source_position")
    named = np.asarray(source.is_valid())
    if not named.any():
        return named
    # a commit names its half in both: that is no release
    same = _numbers(batch, "source_position") == _numbers(batch, "prepared_position")
    found: Mask = named & ~(commits & same)
    return found


def _released_by_apache(batch: pa.RecordBatch) -> Mask:
    real_topic = batch.column("real_topic")
    if real_topic.null_count == len(real_topic):
        return np.zeros(len(real_topic), np.bool_)
    back = np.asarray(pc.equal(batch.column("topic"), real_topic).fill_null(False))
    waited = (_numbers(batch, "delay_level") >= 1) | _has(batch, TIMER_OUT_MS)
    found: Mask = back & waited & ~np.asarray(batch.column("source_position").is_valid())
    return found


def _property(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(column_of(name))


def _has(batch: pa.RecordBatch, name: str) -> Mask:
    column = _property(batch, name)
    if column.null_count == len(column):
        return np.zeros(len(column), np.bool_)
    return np.asarray(column.is_valid())


def _numbers(batch: pa.RecordBatch, name: str) -> Longs:
    found: Longs = batch.column(name).fill_null(0).to_numpy()
    return found


#: Columns that every row has, `corrupt` among them: what is wrong with the bytes, null for a sound record. `broker` is
#: the name of the broker whose log has it, null where nobody said one.
HEAD: dict[str, pa.DataType] = {
    "broker": pa.string(),
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
#: Groups of columns beside the head.
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
        """The selection to decode from the records for this; the kinds of the records are found out afterwards."""
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
