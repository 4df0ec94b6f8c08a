"""Halves read again from the log, many at a time: they stand close together, so a few calls bring all."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from ..errors import CorruptRecord, RecordNotFound
from ..layout import CRC_NAME, CRC_SIZE, HEAD_V4, MAGIC_V1, MIN_RECORD_SIZE, NOT_IPV6
from ..message import decode
from ..soundness import has_its_checksum
from ..store.store import Store
from ..store.topics import HALF_TOPIC

#: Read at once, and as far ahead as another half is wanted.
_READ_BYTES = 128 << 10
#: Read for one half that stands alone.
_ALONE_BYTES = 4 << 10
#: Of a record with IPv4 addresses: size, magic, queue id, queue offset, position, sysFlag, body length.
_LOOK = Struct(">II4xI4xqqI44xI").unpack_from
_NOTHING = (0,) * 7
_NAME = bytes([len(HALF_TOPIC)]) + HALF_TOPIC.encode()


def read_halves(store: Store, offsets: Sequence[int], positions: Sequence[int]) -> list[bytes | None]:
    """Return the record of each half, in order of position; None where none stands that is sound."""
    records: list[bytes | None] = []
    buffer, base, end = b"", 0, 0
    last = positions[-1] if positions else 0
    for offset, position in zip(offsets, positions, strict=True):
        at = position - base
        if not base <= position <= end - HEAD_V4.size:
            buffer, base, end = _read(store, position, last)
            at = 0
        size, *place, flags, body_length = _LOOK(buffer, at) if end - position >= HEAD_V4.size else _NOTHING
        if position + size > end and at and place[0] == MAGIC_V1:
            buffer, base, end = _read(store, position, last)
            at = 0
        record = buffer[at : at + size]
        is_usual = (
            place == [MAGIC_V1, 0, offset, position]
            and len(record) == size >= MIN_RECORD_SIZE
            and not flags & ~NOT_IPV6
            and record.startswith(_NAME, HEAD_V4.size + body_length)
            and record.startswith(CRC_NAME, size - CRC_SIZE)
            and has_its_checksum(record)
        )
        records.append(record if is_usual else _read_slowly(store, offset, position))
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
