"""Logs for the tests of the reader: segments as bytes, by the position at which they begin."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from broker.rocketmq.message import encode, pack_host, record_size
from broker.rocketmq.properties import format_properties
from broker.rocketmq.topics import DELAY_LEVELS
from spark.columns import GROUPS, Selection, delays_of
from spark.segment import Stretch, read_stretch

#: Everything that a record itself says; what it is, group ``kinds``, is derived (test_kinds.py).
ALL = Selection(groups=frozenset(GROUPS) - {"kinds"}, delays_ms=delays_of(DELAY_LEVELS))
HOST = ("127.0.0.1", 10911)


def record(
    position: int,
    topic: str = "orders",
    body: bytes = b"x",
    properties: dict[str, str] | bytes = b"",
    *,
    born: tuple[str, int] = HOST,
    store: tuple[str, int] = HOST,
    sys_flag: int = 0,
    checksum: bool = True,
    **numbers: int,
) -> bytes:
    """Return one record as the engine writes it; ``checksum=False``: as an Apache broker does by default."""
    stored = properties if isinstance(properties, bytes) else format_properties(properties)
    name, born_host, store_host = topic.encode(), pack_host(*born), pack_host(*store)
    size = record_size(name, body, stored, born_host, store_host)
    given = {
        "queue_id": 1,
        "queue_offset": 2,
        "flag": 3,
        "born_ms": 4,
        "store_ms": 5,
        "times": 6,
        "prepared": 7,
    } | numbers
    made = encode(
        name, given["queue_id"], given["queue_offset"], position, body, stored, given["flag"], sys_flag,
        given["born_ms"], born_host, given["store_ms"], store_host, given["times"], given["prepared"], size,
    )  # fmt: skip
    return made if checksum else without_checksum(made, len(stored))


def without_checksum(made: bytes, stored: int) -> bytes:
    """Take ``__CRC32#`` off a record."""
    head, properties = made[: -20 - stored - 2], made[len(made) - 20 - stored : -20]
    return (len(made) - 20).to_bytes(4, "big") + head[4:] + stored.to_bytes(2, "big") + properties


def log_of(*parts: dict[str, Any], size: int = 1 << 16, start: int = 0) -> bytes:
    """Return one preallocated segment with these records."""
    data = b""
    for part in parts:
        data += record(start + len(data), **part)
    return data.ljust(size, b"\0")


def read(segments: dict[int, bytes], *, end: int | None = None, selection: Selection = ALL) -> list[dict[str, Any]]:
    """Read segments with the columnar reader; ``end``: where what is durable ends, if that is known."""
    rows: list[dict[str, Any]] = []
    for start, data in sorted(segments.items()):
        segment_end = start + len(data)
        later = any(other > start and content.strip(b"\0") for other, content in segments.items())
        stop = segment_end if end is None else min(segment_end, end)
        stretch = Stretch(start, stop, segment_end, bounded=later or end is not None)

        def bytes_at(position: int, count: int, data: bytes = data, start: int = start) -> bytes:
            return data[position - start : position - start + count]

        if stop > start:
            batches = list(read_stretch(bytes_at, stretch, selection))
            assert all(batch.schema == selection.schema for batch in batches)
            rows += pa.Table.from_batches(batches, selection.schema).to_pylist()
    return rows
