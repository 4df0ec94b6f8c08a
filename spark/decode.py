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

from broker.engine.layout import FLAG_COMPRESSED
from broker.engine.message import is_sound, unpack_host

from .bodies import inflated
from .fields import Fields, Longs, Mask, Window, locate, surely_sound
from .properties import Properties, gather
from .rows import DUE, LEVEL_TOPIC, batch_of, host_text, row_of
from .selection import Selection, column_of

_TEXTS = {"tag": "TAGS", "keys": "KEYS", "unique_key": "UNIQ_KEY", "real_topic": "REAL_TOPIC"}
_NUMBERS = {"delay_level": "DELAY", "real_queue_id": "REAL_QID", "source_position": "ESC_SOURCE"}
_NAMED = (*_TEXTS.values(), *_NUMBERS.values(), *DUE)


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
    starts = fields.starts
    topic = _between(window, fields.topic_at, fields.topic_at + fields.topic_size)
    try:
        topic = topic.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    store_ms_at = starts + 48 + fields.born_host_size
    tail_at = fields.body_at - 16
    found: dict[str, pa.Array | Longs] = {
        "position": starts + window.position,
        "size": fields.ends - starts,
        "topic": topic,
        "queue_id": window.ints(starts + 12),
        "queue_offset": window.longs(starts + 20),
        "flag": window.ints(starts + 16),
        "sys_flag": fields.sys_flag,
        "born_ms": window.longs(starts + 40),
        "store_ms": window.longs(store_ms_at),
        "reconsume_times": window.ints(tail_at),
        "prepared_position": window.longs(tail_at + 4),
        "body_size": fields.body_size,
        "corrupt": pa.nulls(len(starts), pa.string()),
    }
    if "hosts" in selection.groups:
        found["born_host"] = _hosts(window, starts + 48, fields.born_host_size)
        found["store_host"] = _hosts(window, store_ms_at + 8, fields.store_host_size)
    if "names" in selection.groups:
        found |= _names(found, properties, selection)
    for name in selection.extract:
        properties.index([name])
        found[column_of(name)] = properties.strings(name)
    if "properties" in selection.groups:
        found["properties"] = properties.as_map()
    if "body" in selection.groups:
        found["body"], found["corrupt"] = _bodies(window, fields, topic, selection)
    schema = selection.schema
    values = [found[name] for name in schema.names]
    arrays = [pa.array(value) if isinstance(value, np.ndarray) else value for value in values]
    return pa.RecordBatch.from_arrays(
        [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _between(window: Window, begin: Longs, end: Longs, keep: Mask | None = None) -> pa.Array:
    """Return the bytes between two places of each record; null where not kept."""
    edges = np.empty(len(begin) * 2, np.int32)
    edges[0::2], edges[1::2] = begin, end
    every = pa.BinaryArray.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(window.data)]
    )
    return every.take(pa.array(np.arange(0, len(edges), 2), mask=None if keep is None else ~keep))


def _hosts(window: Window, at: Longs, sizes: Longs) -> pa.Array:
    """Return hosts as text; few are different, so each is formatted once."""
    distinct = _between(window, at, at + sizes).dictionary_encode()
    texts = [host_text(*unpack_host(host)) for host in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _names(
    head: dict[str, pa.Array | Longs], properties: Properties, selection: Selection
) -> dict[str, pa.Array | Longs]:
    properties.index(_NAMED)
    found: dict[str, pa.Array | Longs] = {column: properties.strings(name) for column, name in _TEXTS.items()}
    found |= {column: properties.longs(name) for column, name in _NUMBERS.items()}
    due = pc.coalesce(*[properties.longs(name) for name in DUE])
    parked = pc.equal(head["topic"], LEVEL_TOPIC)
    if selection.delays_ms and pc.any(parked).as_py():
        delays = np.array(selection.delays_ms)
        level = pc.coalesce(found["delay_level"], pa.array(head["queue_id"] + 1)).to_numpy(zero_copy_only=False)
        level_due = head["store_ms"] + delays[np.clip(level, 1, len(delays)) - 1]
        due = pc.if_else(parked, pa.array(level_due), due)
    return found | {"due_ms": due}


def _bodies(window: Window, fields: Fields, topic: pa.Array, selection: Selection) -> tuple[pa.Array, pa.Array]:
    """Return bodies and what is wrong with those that do not inflate."""
    keep: Mask | None = None
    if selection.body_topics:
        keep = np.asarray(pc.is_in(topic, value_set=pa.array(sorted(selection.body_topics), pa.string())))
    bodies = _between(window, fields.body_at, fields.body_at + fields.body_size, keep)
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
