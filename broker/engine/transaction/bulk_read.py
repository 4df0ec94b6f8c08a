"""Halves read again from the log, many at a time: they stand close together, so a few calls bring all, and those of
one size that stand back to back are looked at in one piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, starmap
from struct import Struct, error
from typing import Any
from zlib import crc32

from ...rocketmq.layout import (
    BODY_LENGTH_AT,
    CRC_NAME,
    CRC_SIZE,
    HEAD_V4,
    MAGIC_V1,
    MIN_RECORD_SIZE,
    NOT_IPV6,
    U32,
    crc_properties,
)
from ...rocketmq.message import decode, has_its_checksum
from ...rocketmq.topics import HALF_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..store import Store

#: Read at once, and as far ahead as another half is wanted.
_READ_BYTES = 128 << 10
#: Read for one half that stands alone.
_ALONE_BYTES = 4 << 10
#: Of a record with IPv4 addresses: size, magic, queue id, queue offset, position, sysFlag, body length.
_LOOK = Struct(">II4xI4xqqI44xI").unpack_from
_NAME = bytes([len(HALF_TOPIC)]) + HALF_TOPIC.encode()
#: Fewer than these are looked at one by one.
_FEW = 4


def read_halves(store: Store, offsets: Sequence[int], positions: Sequence[int]) -> Iterator[tuple[slice, bytes | None]]:
    """Yield which of these halves, in order of position, and their records: of several at once if those and their
    bodies are equally long; None where none stands that is sound."""
    number = 0
    while number < len(positions):
        begin = number
        buffer = _read(store, positions[begin], positions[-1])
        for part, records in _alike(buffer, positions, begin):
            number = part.stop
            if part.stop - part.start >= _FEW and _are_sound(records, offsets[part], positions[part]):
                yield part, records
                continue
            size = len(records) // (part.stop - part.start)
            for at in range(part.start, part.stop):
                record = records[(at - part.start) * size : (at - part.start + 1) * size]
                is_usual = _is_sound(record, offsets[at], positions[at])
                yield slice(at, at + 1), record if is_usual else _read_slowly(store, offsets[at], positions[at])
        if number == begin:
            yield slice(begin, begin + 1), _read_slowly(store, offsets[begin], positions[begin])
            number += 1


def _alike(buffer: bytes, positions: Sequence[int], begin: int) -> Iterator[tuple[slice, bytes]]:
    """Yield which halves, from one on, have records and bodies that are equally long, and their records one behind the
    other, as far as those stand in the buffer, which starts with the first."""
    base, end = positions[begin], positions[begin] + len(buffer)
    kind: tuple[int, bytes] = 0, b""
    parts: list[bytes] = []
    number = first = begin
    while number < len(positions) and base <= positions[number] <= end - HEAD_V4.size:
        at = positions[number] - base
        size = U32.unpack_from(buffer, at)[0]
        stop = _stop(positions, number, size, end)
        if stop == number:
            break
        own = size, buffer[at + BODY_LENGTH_AT : at + HEAD_V4.size]
        if own != kind:
            if parts:
                yield slice(first, number), b"".join(parts)
            kind, parts, first = own, [], number
        parts.append(buffer[at : at + (stop - number) * size])
        number = stop
    if parts:
        yield slice(first, number), b"".join(parts)


def _stop(positions: Sequence[int], begin: int, size: int, end: int) -> int:
    """Return the number behind the last half of those that stand back to back from ``begin`` on, as far as they are of
    this size and before the byte ``end``."""
    if size < MIN_RECORD_SIZE:
        return begin
    position = positions[begin]
    stop = min(len(positions), begin + (end - position) // size)
    while stop - begin >= _FEW and positions[stop - 1] - position != (stop - 1 - begin) * size:
        stop = begin + (stop - begin) // 2
    return stop


def _is_sound(record: bytes, offset: int, position: int) -> bool:
    """Tell what ``_are_sound`` does, of a single record."""
    size, *place, flags, body_length = _LOOK(record)
    return (
        place == [MAGIC_V1, 0, offset, position]
        and not flags & ~NOT_IPV6
        and record.startswith(_NAME, HEAD_V4.size + body_length)
        and record.startswith(CRC_NAME, size - CRC_SIZE)
        and has_its_checksum(record)
    )


def _are_sound(records: bytes, offsets: Sequence[int], positions: Sequence[int]) -> bool:
    """Tell whether records of one size are those of halves at these offsets and positions, all sound, as usual, and
    with bodies of one length."""
    size, _, _, _, _, flags, body_length = _LOOK(records)
    try:
        look, content = _unpacks_of(size, body_length)
    except error:
        return False
    count = len(offsets)
    heads, queues, places, sys_flags, lengths, names, ends = zip(*look(records), strict=True)
    return (
        not flags & ~NOT_IPV6
        and heads.count(U32.pack(size) + U32.pack(MAGIC_V1)) == count
        and queues.count(bytes(4)) == sys_flags.count(sys_flags[0]) == lengths.count(lengths[0]) == count
        and names.count(_NAME) == count
        and b"".join(places)
        == Struct(f">{2 * count}q").pack(*chain.from_iterable(zip(offsets, positions, strict=True)))
        and b"".join(ends) == crc_properties(list(starmap(crc32, content(records))))
    )


@lru_cache(maxsize=256)
def _unpacks_of(
    size: int, body_length: int
) -> tuple[Callable[[bytes], Iterator[tuple[Any, ...]]], Callable[[bytes], Iterator[tuple[bytes]]]]:
    """Return what cuts size and magic, queue id, place, sysFlag, body length, topic and checksum out of back-to-back
    records of one size and body length, and what cuts out all that the checksum is of. Raises error if no record
    is so."""
    content = size - CRC_SIZE
    rest = content - HEAD_V4.size - body_length - len(_NAME)
    look = Struct(f">8s4x4s4x16s4s44x4s{body_length}x{len(_NAME)}s{rest}x{CRC_SIZE}s")
    return look.iter_unpack, Struct(f"{content}s{CRC_SIZE}x").iter_unpack


def _read(store: Store, position: int, last: int) -> bytes:
    """Return what stands from a position on, as far as the other halves are close."""
    wanted = min(max(last - position, 0) + _ALONE_BYTES, store.visible_position - position)
    try:
        return store.log.chain.read(position, min(wanted, _READ_BYTES))
    except RecordNotFound:
        return b""


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
