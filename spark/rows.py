"""One record to one row of plain Python values: the way of every record that is not regular beyond doubt.

Bodies are as the sender had them: what was compressed on the way is inflated when asked.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from broker.rocketmq.errors import CorruptRecord
from broker.rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED
from broker.rocketmq.message import Message, decode
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

from .properties import column_of
from .selection import Selection

#: No body is larger when it is inflated: what a producer may send is a few MiB, and few bytes can claim to be many GiB.
LARGEST_BYTES = 64 << 20
#: Compression types (RocketMQ, CompressionType): 1 LZ4 in frames, 2 ZSTD, 3 ZLIB; 0 is ZLIB of old clients.
_CODECS = {1: "lz4", 2: "zstd"}


def is_compressed(sys_flag: int) -> bool:
    """Tell whether a body with that sysFlag is stored compressed."""
    return bool(sys_flag & FLAG_COMPRESSED)


def inflated(body: bytes, sys_flag: int) -> bytes:
    """Return the body as it was sent. Raises ValueError for bytes that are not what the flag says."""
    if not is_compressed(sys_flag):
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
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


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
        "born_host": host_text(*message.born_host),
        "store_host": host_text(*message.store_host),
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


def host_text(address: str, port: int) -> str:
    """Return a host as text, IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


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
    return int(text) if text is not None and _WHOLE_NUMBER.fullmatch(text) else None
