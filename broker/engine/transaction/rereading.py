"""Halves read again from the log, many at a time: they stand close together, so a few calls bring all."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CorruptRecord, RecordNotFound
from ..layout import HEAD_V4, MAGIC_V1, NOT_IPV6, PREFIX, U32
from ..message import decode
from ..soundness import stands_here
from ..store.store import Store
from ..store.topics import HALF_TOPIC

#: Read at once, and as far ahead as another half is wanted.
_READ_BYTES = 128 << 10
#: Read for one half that stands alone.
_ALONE_BYTES = 4 << 10
_SYS_FLAG_AT = 36
_BODY_LENGTH_AT = HEAD_V4.size - 4
_NAME = bytes([len(HALF_TOPIC)]) + HALF_TOPIC.encode()


def read_halves(store: Store, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Return the record of each (offset, position), in order of position; None where none stands that is sound."""
    records: list[bytes | None] = []
    buffer, base, end = b"", 0, 0
    last = places[-1][1] if places else 0
    for offset, position in places:
        at = position - base
        if not base <= position <= end - PREFIX.size:
            buffer, base, end = _read(store, position, last)
            at = 0
        size, magic = PREFIX.unpack_from(buffer, at) if len(buffer) - at >= PREFIX.size else (0, 0)
        if position + size > end and magic == MAGIC_V1 and at:
            buffer, base, end = _read(store, position, last)
            at = 0
        record = buffer[at : at + size]
        records.append(record if _is_half(record, offset, position) else _read_slowly(store, offset, position))
    return records


def _read(store: Store, position: int, last: int) -> tuple[bytes, int, int]:
    """Return what stands from a position on, as far as the other halves are close; where it begins and ends."""
    wanted = min(max(last - position, 0) + _ALONE_BYTES, store.visible_position - position)
    size = min(wanted, _READ_BYTES)
    try:
        buffer = store.log.chain.read(position, size)
    except RecordNotFound:
        buffer = b""
    return buffer, position, position + len(buffer)


def _is_half(record: bytes, offset: int, position: int) -> bool:
    if not stands_here(record, position, 0, offset) or U32.unpack_from(record, _SYS_FLAG_AT)[0] & ~NOT_IPV6:
        return False
    at = HEAD_V4.size + U32.unpack_from(record, _BODY_LENGTH_AT)[0]
    return record[at : at + len(_NAME)] == _NAME


def _read_slowly(store: Store, offset: int, position: int) -> bytes | None:
    """Read one that is long, has IPv6 addresses, comes from Apache RocketMQ, or is no half at all."""
    if position >= store.visible_position:
        return None
    try:
        record = store.log.record_at(position)
        half = decode(record, verify=False)
    except (RecordNotFound, CorruptRecord):
        return None
    return record if (half.topic, half.queue_offset) == (HALF_TOPIC, offset) else None
