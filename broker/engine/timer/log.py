"""The timer log: one unit for each timer (and each delete), chained backwards within its second.

RocketMQ's files ``timerlog/<position of the first byte, 20 digits>``, all of one size, zero behind the last unit:

     0  4 size 52          4  8 unit before in the same second, -1 none     12  4 magic      16  8 write time
    24  4 delay           28  8 position of the message                     36  4 its size
    40  4 hash of the real topic                                            44  8 reserved

Write time is rounded down to a second; write time + delay is the start of the second the unit stands in.
Magic: 1 always, 2 on its way to a later moment (roll), 4 delete. A file ends with a blank where fewer than 68 bytes
are left: 4 bytes left over, 8 zero, 4 magic CBD43194.

Reserved is 0 in RocketMQ's files and read by nobody there. Here it spares reading the message:

    plain    queue offset << 16 | check << 10 | ms due after the start of the second, 1..1000
    roll     queue offset << 28 | check << 24 | turn << 22 | ms due after the start of its hour (see wheel.py)

Check is the sum of offset, position and the rest, modulo 63 or 15: a unit has no checksum.

New units stay in memory until upkeep writes them. All of it is derived from the commit log.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from ..disk import Files, Handles, join

UNIT = struct.Struct(">iqiqiqiiq")
UNIT_SIZE = UNIT.size
BLANK = struct.Struct(">iqI")
BLANK_MAGIC = 0xCBD43194
#: TimerLog: a unit goes into a file only if a blank still fits behind it.
_BLANK_ROOM = 16
MAGIC_PLAIN = 1
MAGIC_ROLL = 2
MAGIC_DELETE = 4
#: Bytes read at first and at most when a chain is followed: units of a herd lie together, others do not.
_SMALL_READ, _LARGE_READ = 4 << 10, 256 << 10


class Unit(NamedTuple):
    """A unit as it stands in the timer log."""

    size: int
    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    position: int
    record_size: int
    topic_hash: int
    reserved: int


class TimerLogWrite(NamedTuple):
    """Bytes that a job puts on disk: ``data`` belongs at ``at``."""

    log: TimerLog
    at: int
    data: bytes

    def run(self, files: Files) -> None:
        """Write and sync, making files as needed. Safe in any thread; raises OSError."""
        self.log.write(files, self.at, self.data)


class TimerLog:
    """The units of the timer log, addressed by position."""

    def __init__(self, files: Files, directory: str, file_size_bytes: int) -> None:
        self.directory = directory
        self.file_size = file_size_bytes
        self.min_position = 0
        self.end_position = 0
        self._files = files
        self._handles = Handles(files, limit=16)
        self._tail = bytearray()
        self._tail_at = 0
        self._file_end = 0
        self._pack = UNIT.pack

    # adding

    def append(
        self, previous: int, magic: int, second: int, write_ms: int, position: int, size: int, topic_hash: int, own: int
    ) -> int:
        """Add a unit at the place ``next_position`` names; return where it stands. ``own``: the reserved bytes."""
        at = self.next_position()
        write_ms -= write_ms % 1000
        delay_ms = second * 1000 - write_ms
        if not -0x8000_0000 <= delay_ms <= 0x7FFF_FFFF:
            # the clock jumped by weeks: any pair with the right sum will do, only the sum is read
            write_ms, delay_ms = second * 1000, 0
        self._tail += self._pack(UNIT_SIZE, previous, magic, write_ms, delay_ms, position, size, topic_hash, own)
        self.end_position = at + UNIT_SIZE
        return at

    @property
    def units_left(self) -> int:
        """The number of units that fit the file at the place that ``next_position`` has just named."""
        return (self._file_end - self.end_position - _BLANK_ROOM) // UNIT_SIZE

    def extend(self, units: bytes) -> None:
        """Add packed units at that place; the caller has checked that they fit."""
        self._tail += units
        self.end_position += len(units)

    def next_position(self) -> int:
        """Return where the next unit will stand; a file without room for it is closed with a blank."""
        at = self.end_position
        if at + UNIT_SIZE + _BLANK_ROOM <= self._file_end:
            return at
        start = at - at % self.file_size
        left = start + self.file_size - at
        if left >= UNIT_SIZE + _BLANK_ROOM:
            self._file_end = start + self.file_size
            return at
        if left >= _BLANK_ROOM:
            self._tail += BLANK.pack(left, 0, BLANK_MAGIC)
            self._tail += bytes(left - _BLANK_ROOM)
        else:
            self._tail += bytes(left)
        self.end_position = start + self.file_size
        self._file_end = self.end_position + self.file_size
        return self.end_position

    # reading

    def chain(self, first: int, last: int) -> Iterator[tuple[int, Unit]]:
        """Yield (position, unit) from the last unit of a second back to the first; stops where it makes no sense."""
        at = last
        base, raw, reach = 0, b"", _SMALL_READ
        unpack, new = UNIT.unpack_from, tuple.__new__  # Unit._make looks at the length once more
        while at >= self.min_position and at >= first >= 0:
            inside = at - base
            if inside < 0 or inside + UNIT_SIZE > len(raw):
                # a neighbour was wanted: the rest of the chain may well lie here too
                reach = min(reach * 4, _LARGE_READ) if 0 < base - at <= reach else _SMALL_READ
                base = max(at + UNIT_SIZE - reach, self.min_position, 0)
                raw = self.read(base, at + UNIT_SIZE - base)
                inside = at - base
                if len(raw) < inside + UNIT_SIZE:
                    return
            found = unpack(raw, inside)
            if found[0] != UNIT_SIZE or found[1] >= at:
                return
            yield at, new(Unit, found)
            at = found[1]

    def read(self, at: int, size: int) -> bytes:
        """Return bytes of the log, fewer if some are not there."""
        parts: list[bytes] = []
        while size > 0 and at < self._tail_at:
            inside = at % self.file_size
            step = min(size, self.file_size - inside, self._tail_at - at)
            try:
                part = self._handles.get(self._path_of(at)).read(step, inside)
            except FileNotFoundError:
                return b"".join(parts)
            parts.append(part)
            if len(part) < step:
                return b"".join(parts)
            at, size = at + step, size - step
        if size > 0 and at >= self._tail_at:
            parts.append(bytes(self._tail[at - self._tail_at : at - self._tail_at + size]))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def portions(self, begin: int) -> Iterator[tuple[int, bytes]]:
        """Yield (position, bytes of units that lie together) from a place to the end; stops where bytes are missing."""
        at = begin
        while at < self.end_position:
            start = at - at % self.file_size
            room = (start + self.file_size - at - _BLANK_ROOM) // UNIT_SIZE
            count = min(room, (self.end_position - at) // UNIT_SIZE, _LARGE_READ // UNIT_SIZE)
            if count <= 0:
                at = start + self.file_size
                continue
            raw = self.read(at, count * UNIT_SIZE)
            if len(raw) < count * UNIT_SIZE:
                return
            yield at, raw
            at += len(raw)

    def is_blank(self, at: int) -> bool:
        """Tell whether no unit fits at a place, so that its file ends with a blank there."""
        return self.file_size - at % self.file_size < UNIT_SIZE + _BLANK_ROOM

    def last_unit_of(self, start: int) -> Unit | None:
        """Return the last unit of a full file, None if it cannot be read."""
        at = start + ((self.file_size - _BLANK_ROOM) // UNIT_SIZE - 1) * UNIT_SIZE
        raw = self.read(at, UNIT_SIZE)
        return Unit._make(UNIT.unpack(raw)) if len(raw) == UNIT_SIZE else None

    # keeping

    def start_at(self, min_position: int, end_position: int) -> None:
        """Begin with what is on disk between two positions; nothing else is known."""
        self._tail = bytearray()
        self.min_position = min_position
        self.end_position = self._tail_at = end_position
        self._file_end = 0

    def open(self, end_position: int) -> bool:
        """Open what is on disk up to a position, and make everything behind it zero or gone; False if it is not there.

        Raises OSError.
        """
        size = self.file_size
        starts = sorted(int(name) for name in self._files.list(self.directory) if name.isdigit())
        keep = [start for start in starts if start < end_position]
        end = keep[-1] + size if keep else end_position
        whole = all(b - a == size for a, b in pairwise(keep))
        if not whole or end < end_position or any(start % size for start in keep):
            return False
        for start in starts:
            path = self._path_of(start)
            self._handles.forget(path)
            if start >= end_position:
                self._files.remove(path)
                continue
            file = self._files.open(path)
            try:
                if file.size() < min(size, end_position - start):
                    return False
                if start + size > end_position:
                    file.truncate(end_position - start)
                if file.size() != size:
                    file.truncate(size)
            finally:
                file.close()
        self.start_at(keep[0] if keep else end_position, end_position)
        return True

    def restart(self) -> None:
        """Forget everything on disk; go on in a file of its own. Raises OSError."""
        starts = [int(name) for name in self._files.list(self.directory) if name.isdigit()]
        self._handles.close()
        for start in starts:
            self._files.remove(self._path_of(start))
        following = max([self.end_position, *(start + self.file_size for start in starts)])
        following += -following % self.file_size
        self.start_at(following, following)

    def unwritten(self) -> TimerLogWrite | None:
        """Return what is not on disk yet."""
        return TimerLogWrite(self, self._tail_at, bytes(self._tail)) if self._tail else None

    def wrote(self, write: TimerLogWrite) -> None:
        """Forget bytes that are on disk now."""
        end = write.at + len(write.data)
        if write.at == self._tail_at and end > self._tail_at:
            del self._tail[: len(write.data)]
            self._tail_at = end

    def write(self, files: Files, at: int, data: bytes) -> None:
        """Put bytes on disk, durable on return. Safe in any thread; raises OSError."""
        done = 0
        files.make_directory(self.directory)
        fresh = False
        while done < len(data):
            inside = (at + done) % self.file_size
            step = min(len(data) - done, self.file_size - inside)
            path = self._path_of(at + done)
            fresh |= not files.exists(path)
            file = files.open(path, create=True)
            try:
                if file.size() < self.file_size:
                    file.truncate(self.file_size)
                file.write(data[done : done + step], inside)
                file.sync()
            finally:
                file.close()
            done += step
        if fresh:
            files.sync_directory(self.directory)

    def trim(self, wanted_position: int) -> None:
        """Remove files that end at or before a position. Raises OSError."""
        while self.min_position - self.min_position % self.file_size + self.file_size <= min(
            wanted_position, self._tail_at - 1
        ):
            path = self._path_of(self.min_position)
            self._handles.forget(path)
            self._files.remove(path)
            self.min_position += self.file_size - self.min_position % self.file_size

    def close(self) -> None:
        """Close open files; closing twice is fine."""
        self._handles.close()

    def _path_of(self, at: int) -> str:
        return join(self.directory, f"{at - at % self.file_size:020d}")
