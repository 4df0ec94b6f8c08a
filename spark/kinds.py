"""What a record is: the columns from which every dashboard is made, and group ``kinds`` of the data source.

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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
#: Bits of sysFlag that say what a record is to a transaction, and their value for a committed message.
_TRANSACTION_BITS, _COMMITTED = 0xC, 0x8


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

    commits = _numbers(batch, "sys_flag") & _TRANSACTION_BITS == _COMMITTED
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
