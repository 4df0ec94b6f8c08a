"""Which timers are over: one bit for each offset of the queue of timers. This is what makes a release happen once.

Bits are kept in chunks of 65,536 offsets. A chunk without a timer that still waits costs nothing, so memory follows
the offsets between the oldest waiting timer and the newest: 1.25 MB for ten million.

    chunk n: bit (offset % 8) of byte (offset % 65,536 // 8) is 1 when the timer at n * 65,536 + ... is over

Kept in the state file (checkpoint.py) as ``lowest chunk``, then the chunks in order; an absent chunk in between is all
over.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

CHUNK_OFFSETS = 65_536
_CHUNK_BYTES = CHUNK_OFFSETS // 8
_SHIFT = 16
_MASK = CHUNK_OFFSETS - 1
_HEAD = struct.Struct(">qI")
#: for each byte the places of its zero bits
_ZEROS = tuple(tuple(bit for bit in range(8) if not byte >> bit & 1) for byte in range(256))


class Done:
    """The set of offsets that are over. Offsets at or above ``end`` were never there."""

    def __init__(self) -> None:
        self.end = 0
        self._chunks: dict[int, bytearray] = {}
        #: timers of each chunk that still wait
        self._left: dict[int, int] = {}

    def extend(self, end: int) -> None:
        """Say that offsets up to ``end`` (not included) exist now; the new ones wait."""
        begin = self.end
        while begin < end:
            number = begin >> _SHIFT
            stop = min(end, (number + 1) << _SHIFT)
            if number not in self._chunks:
                # what lies before the first offset of a chunk that starts in its middle is over
                self._chunks[number] = bytearray(_CHUNK_BYTES) if not begin & _MASK else _over_below(begin & _MASK)
                self._left[number] = 0
            self._left[number] += stop - begin
            begin = stop
        self.end = max(self.end, end)

    def has(self, offset: int) -> bool:
        """Tell whether a timer is over; one that never was is."""
        chunk = self._chunks.get(offset >> _SHIFT)
        if chunk is None or offset >= self.end:
            return True
        return bool(chunk[(offset & _MASK) >> 3] >> (offset & 7) & 1)

    def none_of(self, offsets: Iterable[int]) -> bool:
        """Tell whether none of these is over; they exist."""
        number, chunk = -1, None
        for offset in offsets:
            if offset >> _SHIFT != number:
                number = offset >> _SHIFT
                chunk = self._chunks.get(number)
            if chunk is None or chunk[(offset & _MASK) >> 3] >> (offset & 7) & 1:
                return False
        return True

    def add(self, offset: int) -> bool:
        """Mark a timer as over; False if it was."""
        number = offset >> _SHIFT
        chunk = self._chunks.get(number)
        if chunk is None or offset >= self.end:
            return False
        place, bit = (offset & _MASK) >> 3, 1 << (offset & 7)
        if chunk[place] & bit:
            return False
        chunk[place] |= bit
        left = self._left[number] - 1
        self._left[number] = left
        if not left:
            self._settle(number)
        return True

    def add_many(self, offsets: Iterable[int]) -> int:
        """Mark timers as over; return how many were not."""
        count = 0
        chunks, end = self._chunks, self.end
        number, chunk, fresh = -1, None, 0
        for offset in offsets:
            if offset >> _SHIFT != number:
                self._count_down(number, fresh)
                number, fresh = offset >> _SHIFT, 0
                chunk = chunks.get(number)
            if chunk is None or offset >= end:
                continue
            place, bit = (offset & _MASK) >> 3, 1 << (offset & 7)
            if not chunk[place] & bit:
                chunk[place] |= bit
                fresh += 1
                count += 1
        self._count_down(number, fresh)
        return count

    def _count_down(self, number: int, count: int) -> None:
        if count:
            self._left[number] -= count
            if not self._left[number]:
                self._settle(number)

    def _settle(self, number: int) -> None:
        """Let go of a chunk that is all over and will not grow."""
        if (number + 1) << _SHIFT <= self.end:
            del self._chunks[number], self._left[number]

    @property
    def waiting(self) -> int:
        """How many timers are not over."""
        return sum(self._left.values())

    def lowest(self) -> int | None:
        """Return the lowest offset that is not over, None without any."""
        for number in sorted(self._chunks):
            for offset in self.open_offsets(number << _SHIFT, (number + 1) << _SHIFT):
                return offset
        return None

    def open_offsets(self, begin: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``begin``..``end`` that are not over, ascending."""
        end = min(end, self.end)
        for number in sorted(number for number in self._chunks if number <= (end - 1) >> _SHIFT):
            base = number << _SHIFT
            if base + CHUNK_OFFSETS <= begin or not self._left.get(number):
                continue
            chunk = bytes(self._chunks[number])
            for place, byte in enumerate(chunk[: (min(end - base, CHUNK_OFFSETS) + 7) >> 3]):
                if byte != 0xFF:
                    for bit in _ZEROS[byte]:
                        offset = base + (place << 3) + bit
                        if begin <= offset < end:
                            yield offset

    def drop_below(self, offset: int) -> int:
        """Mark everything below an offset as over: its records are gone. Returns how many were not."""
        return self.add_many(list(self.open_offsets(0, offset)))

    def start_at(self, offset: int) -> None:
        """Forget everything; the first offset there is will be this one."""
        self._chunks.clear()
        self._left.clear()
        self.end = offset

    # keeping

    def copy(self) -> list[tuple[int, bytes]]:
        """Return the chunks as they are now."""
        return [(number, bytes(chunk)) for number, chunk in sorted(self._chunks.items())]

    def load(self, end: int, chunks: list[tuple[int, bytes]]) -> None:
        """Take chunks from disk."""
        self._chunks = {number: bytearray(chunk) for number, chunk in chunks}
        self.end = end
        self._left = {}
        for number, chunk in self._chunks.items():
            limit = min(max(end - (number << _SHIFT), 0), CHUNK_OFFSETS)
            over = int.from_bytes(chunk, "little") & ((1 << limit) - 1)
            self._left[number] = limit - over.bit_count()


def pack_chunks(chunks: list[tuple[int, bytes]]) -> bytes:
    """Return chunks in the form of the state file, compressed."""
    return zlib.compress(b"".join(_HEAD.pack(number, len(chunk)) + chunk for number, chunk in chunks), 1)


def unpack_chunks(raw: bytes) -> list[tuple[int, bytes]]:
    """Return the chunks of a state file; raises ValueError."""
    try:
        plain = zlib.decompress(raw)
    except zlib.error as error:
        raise ValueError(f"The map of timers that are over cannot be read: {error}.") from None
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(plain):
        number, size = _HEAD.unpack_from(plain, at)
        at += _HEAD.size
        if size != _CHUNK_BYTES or at + size > len(plain):
            raise ValueError("The map of timers that are over has a part of another size.")
        found.append((number, plain[at : at + size]))
        at += size
    return found


def _over_below(count: int) -> bytearray:
    """Return a chunk whose first ``count`` offsets are over."""
    value = (1 << count) - 1
    return bytearray(value.to_bytes(_CHUNK_BYTES, "little"))
