"""Records made ready before their moment, and appended together when it comes.

A record depends on its place in four spots only; everything else is encoded ahead, so that a herd due in one
millisecond needs little more than its checksums then:

    20  8 queue offset     28  8 position     56 | 68  8 store time     the ten digits of __CRC32#
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING
from zlib import crc32

from ...rocketmq.layout import BLANK_SIZE, CRC_SIZE, MASK31
from ..queues.consume_queue import ENTRY, ConsumeQueue

if TYPE_CHECKING:
    from ..store import Store

_PLACE_AT = 20
_PLACE = struct.Struct(">qq")
_TIME = struct.Struct(">q")
#: Where the ten digits stand, from the end of a record.
_DIGITS_BEGIN, _DIGITS_END = 11, 1


class Run:
    """Records back to back in ``data``. ``places`` names the queues (topic, queue id) that ``groups`` counts in."""

    __slots__ = ("data", "groups", "hash_ends", "hashes", "places", "sizes", "starts", "tags_codes", "time_at")

    def __init__(self) -> None:
        self.data = bytearray()
        self.starts = array("I")
        self.sizes = array("I")
        self.time_at = array("B")
        self.groups = array("H")
        self.tags_codes = array("q")
        #: index hashes of all records, and where those of each end
        self.hashes = array("I")
        self.hash_ends = array("I")
        self.places: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self.starts)


def append_run(store: Store, run: Run, begin: int, stop: int, now_ms: int) -> int:
    """Append the records ``begin``..``stop`` of a run; return where it stopped: before ``stop`` if the store is full.

    Raises StoreRefused, OSError; then nothing was appended.
    """
    queues = [store.queues.ensure(topic, queue_id) for topic, queue_id in run.places]
    at = begin
    while at < stop:
        try:
            at = _append_part(store, run, at, stop, now_ms, queues)
        except Exception:
            if at == begin:
                raise
            return at
    return at


def _append_part(store: Store, run: Run, begin: int, stop: int, now_ms: int, queues: list[ConsumeQueue]) -> int:
    """Append as much as fits the segment; return where it stopped."""
    log = store.log
    starts, sizes = run.starts, run.sizes
    position = log.place(sizes[begin])
    room = log.room - BLANK_SIZE
    first = starts[begin]
    if starts[stop - 1] + sizes[stop - 1] - first > room:
        stop = begin + 1
        while starts[stop] + sizes[stop] - first <= room:
            stop += 1
    last = starts[stop - 1] + sizes[stop - 1]
    _fill_in(run, begin, stop, position, now_ms, queues)
    size = last - first
    log.push(bytes(memoryview(run.data)[first:last]), size)
    base = position - first
    low = run.hash_ends[begin - 1] if begin else 0
    positions: list[int] = []
    for number in range(begin, stop):
        high = run.hash_ends[number]
        positions += [base + starts[number]] * (high - low)
        low = high
    if positions:
        store.index.add_many(run.hashes[low - len(positions) : low], positions, now_ms)
    store.appended(size, {queues[group] for group in set(run.groups[begin:stop])}, now_ms)
    return stop


def _fill_in(run: Run, begin: int, stop: int, position: int, now_ms: int, queues: list[ConsumeQueue]) -> None:
    """Write place, time and checksum into the records, and their queue entries."""
    data, starts, sizes, time_at, groups, tags = (
        run.data, run.starts, run.sizes, run.time_at, run.groups, run.tags_codes,
    )  # fmt: skip
    place_into, time_into, entry = _PLACE.pack_into, _TIME.pack_into, ENTRY.pack
    tails = [bytearray() for _ in queues]
    following = [queue.end_offset for queue in queues]
    totals = [0] * len(queues)
    with memoryview(data) as view:
        for number in range(begin, stop):
            at, size, group = starts[number], sizes[number], groups[number]
            offset = following[group]
            following[group] = offset + 1
            place_into(data, at + _PLACE_AT, offset, position)
            time_into(data, at + time_at[number], now_ms)
            end = at + size
            digits = b"%010d" % (crc32(view[at : end - CRC_SIZE]) & MASK31)
            view[end - _DIGITS_BEGIN : end - _DIGITS_END] = digits[::-1]
            tails[group] += entry(position, size, tags[number])
            totals[group] += size
            position += size
    for queue, tail, size_bytes in zip(queues, tails, totals, strict=True):
        if tail:
            queue.append_many(tail, size_bytes)
            queue.last_ms = now_ms
