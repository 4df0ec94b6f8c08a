"""Records of a window to Arrow batches.

Records that are regular beyond doubt are decoded column by column; every other one by the engine's codec, so that
what this says about a record is always what the codec says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.rocketmq.layout import BORN_HOST_AT, FLAG_COMPRESSED, LONG
from broker.rocketmq.message import is_sound, unpack_host
from broker.rocketmq.properties import DELAY, KEYS, REAL_QUEUE_ID, REAL_TOPIC, SOURCE, TAGS, UNIQUE_KEY
from broker.rocketmq.topics import SCHEDULE_TOPIC

from .fields import Fields, Longs, Mask, Window, locate, surely_sound
from .properties import Properties, column_of, gather
from .rows import DUE, batch_of, host_text, inflated, row_of
from .selection import HEAD, Selection

_TEXTS = {"tag": TAGS, "keys": KEYS, "unique_key": UNIQUE_KEY, "real_topic": REAL_TOPIC}
_NUMBERS = {"delay_level": DELAY, "real_queue_id": REAL_QUEUE_ID, "source_position": SOURCE}
_NUMERIC = set(HEAD) - {"topic", "corrupt"}
#: Properties that group ``names`` looks for.
NAMED = (*_TEXTS.values(), *_NUMBERS.values(), *DUE)


def decode_records(
    window: Window, starts: Longs, sizes: Longs, selection: Selection
) -> tuple[list[pa.RecordBatch], int]:
    """Decode the records that begin at ``starts``, in their order, up to the first that is damaged.

    Returns the batches and how many records are in them.
    """
    if not len(starts):
        return [], 0
    fields = locate(window, starts, sizes)
    odd = ~surely_sound(window, fields)
    properties, irregular = gather(window, _without_properties(fields, odd))
    odd |= irregular
    if not odd.any() and properties is not None:
        batch = _columns(window, fields, properties, selection)
        if batch is not None:
            return [batch], len(starts)
        odd[:] = True
    count = _sound_until(window, starts, sizes, odd)
    return list(_mixed(window, fields.take(slice(0, count)), odd[:count], selection)), count


def _without_properties(fields: Fields, where: Mask) -> Fields:
    if not where.any():
        return fields
    at = np.where(where, fields.starts, fields.properties_at)
    end = np.where(where, fields.starts, fields.properties_end)
    kept = {name: getattr(fields, name) for name in fields.__dataclass_fields__}
    return Fields(**kept | {"properties_at": at, "properties_end": end})


def _sound_until(window: Window, starts: Longs, sizes: Longs, odd: Mask) -> int:
    """Return how many records are sound before the first that is not; the codec looks at the odd ones."""
    for number in np.flatnonzero(odd).tolist():
        at = int(starts[number])
        if is_sound(window.data[at : at + int(sizes[number])], window.position + at):
            return number
    return len(starts)


def _mixed(window: Window, fields: Fields, odd: Mask, selection: Selection) -> Iterator[pa.RecordBatch]:
    """Decode sound records, the regular runs among them as columns."""
    edges = [0, *(np.flatnonzero(odd[1:] != odd[:-1]) + 1).tolist(), len(odd)]
    for begin, end in pairwise(edges):
        run = fields.take(slice(begin, end))
        if begin < end and not odd[begin]:
            properties, _ = gather(window, run)
            batch = None if properties is None else _columns(window, run, properties, selection)
            if batch is not None:
                yield batch
                continue
        if begin < end:
            bounds = zip(run.starts.tolist(), run.ends.tolist(), strict=True)
            yield batch_of([row_of(window.data[a:b], window.position + a, selection) for a, b in bounds], selection)


def _columns(window: Window, fields: Fields, properties: Properties, selection: Selection) -> pa.RecordBatch | None:
    """Return the records as columns; None if a topic is no text, which the codec has to judge."""
    topic = window.between(fields.topic_at, fields.topic_at + fields.topic_size)
    try:
        topic = topic.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    schema = selection.schema
    found: dict[str, pa.Array | Longs] = {"topic": topic, "corrupt": pa.nulls(len(topic), pa.string())}
    found |= {name: _number(window, fields, name) for name in schema.names if name in _NUMERIC}
    if "hosts" in selection.groups:
        born_at = fields.starts + BORN_HOST_AT
        found["born_host"] = _hosts(window, born_at, fields.born_host_size)
        found["store_host"] = _hosts(window, born_at + fields.born_host_size + LONG.size, fields.store_host_size)
    properties.index((*(NAMED if "names" in selection.groups else ()), *selection.extract))
    if "names" in selection.groups:
        found |= _names(window, fields, topic, properties, selection)
    for name in selection.extract:
        found[column_of(name)] = properties.strings(name)
    if "properties" in selection.groups:
        found["properties"] = properties.as_map()
    if "body" in selection.groups:
        found["body"], found["corrupt"] = _bodies(window, fields, topic, selection)
    arrays = [_typed(found[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _number(window: Window, fields: Fields, column: str) -> Longs:
    """Return one of the head's columns that are numbers."""
    starts, tail_at = fields.starts, fields.body_at - 16
    match column:
        case "position":
            return starts + window.position
        case "size":
            return fields.ends - starts
        case "queue_id":
            return window.ints(starts + 12)
        case "queue_offset":
            return window.longs(starts + 20)
        case "flag":
            return window.ints(starts + 16)
        case "sys_flag":
            return fields.sys_flag
        case "born_ms":
            return window.longs(starts + 40)
        case "store_ms":
            return window.longs(starts + 48 + fields.born_host_size)
        case "reconsume_times":
            return window.ints(tail_at)
        case "prepared_position":
            return window.longs(tail_at + 4)
        case _:
            assert column == "body_size"
            return fields.body_size


def _typed(values: pa.Array | Longs, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values.astype(np.int32) if kind == pa.int32() else values)
    return values if values.type == kind else values.cast(kind)


def _hosts(window: Window, at: Longs, sizes: Longs) -> pa.Array:
    """Return hosts as text; few are different, so each is formatted once."""
    distinct = window.between(at, at + sizes).dictionary_encode()
    texts = [host_text(*unpack_host(host)) for host in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _names(
    window: Window, fields: Fields, topic: pa.Array, properties: Properties, selection: Selection
) -> dict[str, pa.Array | Longs]:
    wanted = set(selection.schema.names)
    found: dict[str, pa.Array | Longs] = {
        column: properties.strings(name) for column, name in _TEXTS.items() if column in wanted
    }
    found |= {column: properties.longs(name) for column, name in _NUMBERS.items() if column in wanted}
    if "due_ms" in wanted:
        found["due_ms"] = _due(window, fields, topic, properties, selection.delays_ms)
    return found


def _due(
    window: Window, fields: Fields, topic: pa.Array, properties: Properties, delays_ms: tuple[int, ...]
) -> pa.Array:
    due = pc.coalesce(*[properties.longs(name) for name in DUE])
    parked = np.flatnonzero(np.asarray(pc.equal(topic, SCHEDULE_TOPIC)))
    if not delays_ms or not len(parked):
        return due
    level = properties.longs(DELAY).take(pa.array(parked))
    level = pc.coalesce(level, pa.array(_number(window, fields, "queue_id")[parked] + 1)).to_numpy()
    delays = np.array(delays_ms)[np.clip(level, 1, len(delays_ms)) - 1]
    is_parked = np.zeros(len(topic), np.bool_)
    is_parked[parked] = True
    values = _number(window, fields, "store_ms")[parked] + delays
    return pc.replace_with_mask(due, pa.array(is_parked), pa.array(values))


def _bodies(window: Window, fields: Fields, topic: pa.Array, selection: Selection) -> tuple[pa.Array, pa.Array]:
    """Return bodies and what is wrong with those that do not inflate."""
    keep: Mask | None = None
    if selection.body_topics:
        keep = np.asarray(pc.is_in(topic, value_set=pa.array(sorted(selection.body_topics), pa.string())))
    bodies = window.between(fields.body_at, fields.body_at + fields.body_size, keep)
    wrong = pa.nulls(len(topic), pa.string())
    compressed = np.flatnonzero(fields.sys_flag & FLAG_COMPRESSED)
    if not selection.inflate or not len(compressed):
        return bodies, wrong
    values, reasons = bodies.to_pylist(), wrong.to_pylist()
    for number in compressed:
        if values[number] is not None:
            try:
                values[number] = inflated(values[number], int(fields.sys_flag[number]))
            except ValueError as error:
                reasons[number] = str(error)
    return pa.array(values, pa.binary()), pa.array(reasons, pa.string())
