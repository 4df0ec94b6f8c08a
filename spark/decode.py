"""Records of a window to Arrow batches.

Records that are regular beyond doubt are decoded column by column; every other one by the project's codec to a row of
plain Python values, so that what this says about a record is always what the codec says. Bodies are as the sender had
them: what was compressed on the way is inflated when asked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.rocketmq.errors import CorruptRecord
from broker.rocketmq.layout import BORN_HOST_AT, COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED, LONG
from broker.rocketmq.message import Message, decode, is_sound, unpack_host, written_address
from broker.rocketmq.properties import (
    DELAY,
    DUE_MS,
    KEYS,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SOURCE,
    TAGS,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
)
from broker.rocketmq.topics import SCHEDULE_TOPIC

from .columns import HEAD, Selection
from .fields import Fields, Longs, Mask, Window, locate, surely_sound
from .properties import WHOLE_NUMBER, Properties, column_of, gather

#: No body is larger when it is inflated: what a producer may send is a few MiB, and few bytes can claim to be many GiB.
LARGEST_BYTES = 64 << 20
#: Compression types (RocketMQ, CompressionType): 1 LZ4 in frames, 2 ZSTD, 3 ZLIB; 0 is ZLIB of old clients.
_CODECS = {1: "lz4", 2: "zstd"}


def inflated(body: bytes, sys_flag: int) -> bytes:
    """Return the body as it was sent. Raises ValueError for bytes that are not what the flag says."""
    if not sys_flag & FLAG_COMPRESSED:
        return body
    codec = _CODECS.get(sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK)
    try:
        if codec is None:
            found, is_whole = _from_zlib(body)
        else:
            found, is_whole = _from_stream(body, codec), True
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise ValueError(f"its body does not inflate: {error}") from None
    if len(found) > LARGEST_BYTES:
        raise ValueError(f"its body does not inflate: it would be larger than {LARGEST_BYTES >> 20} MiB")
    if not is_whole:
        raise ValueError("its body does not inflate: it is cut off")
    return found


def _from_zlib(body: bytes) -> tuple[bytes, bool]:
    """Return what a body inflates to, up to one byte too many, and whether it ended. Raises zlib.error."""
    inflater = zlib.decompressobj()
    found = inflater.decompress(body, LARGEST_BYTES + 1)
    return found, inflater.eof


def _from_stream(body: bytes, codec: str) -> bytes:
    """Return what an LZ4 or ZSTD body inflates to, and whether it ended. Raises OSError, ArrowException."""
    return bytes(pa.CompressedInputStream(pa.BufferReader(body), codec).read(LARGEST_BYTES + 1))


#: A timer's moment, the most exact first.
DUE = (DUE_MS, TIMER_DELIVER_MS, TIMER_OUT_MS)


def row_of(record: bytes, position: int, selection: Selection) -> dict[str, Any]:
    """Return the row of one sound record; a layout that does not hold is said in ``corrupt``."""
    try:
        message = decode(record, verify=False)
    except CorruptRecord as error:
        return damage(position, len(record), str(error))
    row: dict[str, Any] = {
        "position": position,
        "size": message.size,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_ms": message.born_ms,
        "store_ms": message.store_ms,
        "reconsume_times": message.reconsume_times,
        "prepared_position": message.prepared_position,
        "body_size": len(message.body),
        "born_host": written_address(*message.born_host),
        "store_host": written_address(*message.store_host),
        "properties": list(message.properties.items()),
        "body": _body(message, selection),
        "corrupt": None,
    }
    row |= _named(message, selection)
    row |= {column_of(name): message.properties.get(name) for name in selection.extract}
    if row["body"] is not None and selection.inflate:
        try:
            row["body"] = inflated(message.body, message.sys_flag)
        except ValueError as error:
            row["corrupt"] = str(error)
    return row


def damage(position: int, size: int, why: str) -> dict[str, Any]:
    """Return the row that stands for bytes without a readable record."""
    return {"position": position, "size": size, "corrupt": why}


def batch_of(rows: Sequence[dict[str, Any]], selection: Selection) -> pa.RecordBatch:
    """Return rows as one batch."""
    return pa.RecordBatch.from_pylist(rows, schema=selection.schema)


def of_broker(batch: pa.RecordBatch, broker: str | None) -> pa.RecordBatch:
    """Return rows with the name of the broker to which they belong, if that is a column of theirs."""
    at = batch.schema.get_field_index("broker")
    if at < 0 or broker is None:
        return batch
    return batch.set_column(at, batch.schema.field(at), pa.repeat(broker, batch.num_rows))


def _body(message: Message, selection: Selection) -> bytes | None:
    wanted = not selection.body_topics or message.topic in selection.body_topics
    return message.body if wanted else None


def _named(message: Message, selection: Selection) -> dict[str, Any]:
    found = message.properties
    level = _number(found.get(DELAY))
    row: dict[str, Any] = {
        "tag": found.get(TAGS),
        "keys": found.get(KEYS),
        "unique_key": found.get(UNIQUE_KEY),
        "delay_level": level,
        "real_topic": found.get(REAL_TOPIC),
        "real_queue_id": _number(found.get(REAL_QUEUE_ID)),
        "source_position": _number(found.get(SOURCE)),
        "due_ms": next((ms for ms in (_number(found.get(name)) for name in DUE) if ms is not None), None),
    }
    if message.topic == SCHEDULE_TOPIC and selection.delays_ms:
        level = message.queue_id + 1 if level is None else level
        row["due_ms"] = message.store_ms + selection.delays_ms[min(max(level, 1), len(selection.delays_ms)) - 1]
    return row


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and WHOLE_NUMBER.fullmatch(text) else None


_TEXTS = {"tag": TAGS, "keys": KEYS, "unique_key": UNIQUE_KEY, "real_topic": REAL_TOPIC}
_NUMBERS = {"delay_level": DELAY, "real_queue_id": REAL_QUEUE_ID, "source_position": SOURCE}
_NUMERIC = set(HEAD) - {"topic", "broker", "corrupt"}
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
    numbers = np.flatnonzero(odd)
    positions = window.positions(starts[numbers])
    for number, position in zip(numbers.tolist(), positions.tolist(), strict=True):
        at = int(starts[number])
        if is_sound(window.data[at : at + int(sizes[number])], position):
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
            places = window.positions(run.starts).tolist()
            bounds = zip(run.starts.tolist(), run.ends.tolist(), places, strict=True)
            yield batch_of([row_of(window.data[a:b], place, selection) for a, b, place in bounds], selection)


def _columns(window: Window, fields: Fields, properties: Properties, selection: Selection) -> pa.RecordBatch | None:
    """Return the records as columns; None if a topic is no text, which the codec has to judge."""
    topic = window.between(fields.topic_at, fields.topic_at + fields.topic_size)
    try:
        topic = topic.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    schema = selection.schema
    nothing = pa.nulls(len(topic), pa.string())
    found: dict[str, pa.Array | Longs] = {"topic": topic, "broker": nothing, "corrupt": nothing}
    found |= {name: _of_head(window, fields, name) for name in schema.names if name in _NUMERIC}
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


def _of_head(window: Window, fields: Fields, column: str) -> Longs:
    """Return one of the head's columns that are numbers."""
    starts, tail_at = fields.starts, fields.body_at - 16
    match column:
        case "position":
            return window.positions(starts)
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
    texts = [written_address(*unpack_host(host)) for host in distinct.dictionary.to_pylist()]
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
    level = pc.coalesce(level, pa.array(_of_head(window, fields, "queue_id")[parked] + 1)).to_numpy()
    delays = np.array(delays_ms)[np.clip(level, 1, len(delays_ms)) - 1]
    is_parked = np.zeros(len(topic), np.bool_)
    is_parked[parked] = True
    values = _of_head(window, fields, "store_ms")[parked] + delays
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
