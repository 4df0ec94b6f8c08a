"""One index file: from a hash of ``topic#key`` to positions in the commit log, newest first.

     0  8 begin time   8  8 end time   16  8 begin position   24  8 end position   32  4 used slots   36  4 next number
    40                 slots x 4: number of the newest entry with this hash, 0 none
    40 + slots x 4     entries x 20: 4 hash, 8 position, 4 seconds after begin time, 4 previous entry of the slot

Entry 0 is never used; a file is full when its next number reaches the configured count of entries. The file is sparse
and has its full size from the start. Entries and slots of the newest file stay in memory until a job writes them:
entries first, synced, then slots, so that a slot on disk never names an entry that is not.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import repeat

from ..disk.files import File, Files

HEADER = struct.Struct(">qqqqii")
HEADER_SIZE = HEADER.size
ENTRY = struct.Struct(">iqii")
ENTRY_SIZE = ENTRY.size
#: Slots are written in pages of this many.
_PAGE_SLOTS = 1024
#: Pages written at once at most, and untouched ones in between that are cheaper to write than to leave out.
_RUN_PAGES, _GAP_PAGES = 64, 2


class IndexFile:
    """The entries of one file. Only the newest file of a store takes more."""

    def __init__(self, path: str, slots: int, limit: int) -> None:
        self.path = path
        self.slot_count = slots
        self.limit = limit
        self.begin_ms = 0
        self.end_ms = 0
        self.begin_position = 0
        self.end_position = 0
        self.used_slots = 0
        self.next_number = 1
        self._slots: array[int] | None = None
        self._tail = bytearray()
        self._tail_number = 1
        self._dirty_pages: set[int] = set()
        #: what slots held that were changed while a job has still to copy them, see IndexWrite
        self.before: dict[int, int] | None = None
        self._pack = ENTRY.pack

    @property
    def is_full(self) -> bool:
        """Tell whether another entry fits."""
        return self.next_number >= self.limit

    @property
    def size_bytes(self) -> int:
        """The size of the whole file."""
        return HEADER_SIZE + self.slot_count * 4 + self.limit * ENTRY_SIZE

    def begin(self) -> None:
        """Start a new, empty file in memory."""
        self._slots = array("i", bytes(4 * self.slot_count))

    def add(self, key_hash: int, position: int, store_ms: int) -> None:
        """Add an entry; the caller has checked that the file is not full."""
        assert self._slots is not None
        number = self.next_number
        slot = key_hash % self.slot_count
        previous = self._slots[slot]
        if number == 1:
            self.begin_ms, self.begin_position = store_ms, position
        if not previous:
            self.used_slots += 1
        seconds = (store_ms - self.begin_ms) // 1000
        self._tail += self._pack(key_hash, position, min(max(seconds, 0), 0x7FFFFFFF), previous)
        if (before := self.before) is not None:
            before.setdefault(slot, previous)
        self._slots[slot] = number
        self._dirty_pages.add(slot // _PAGE_SLOTS)
        self.next_number = number + 1
        self.end_ms, self.end_position = store_ms, position

    def add_many(self, hashes: Sequence[int], positions: Sequence[int], store_ms: int) -> None:
        """Add entries; the caller has checked that they fit."""
        slots, slot_count, count = self._slots, self.slot_count, len(hashes)
        assert slots is not None
        number = self.next_number
        if number == 1 and positions:
            self.begin_ms, self.begin_position = store_ms, positions[0]
        seconds = min(max((store_ms - self.begin_ms) // 1000, 0), 0x7FFFFFFF)
        places = [key_hash % slot_count for key_hash in hashes]
        previous = [slots[place] for place in places]
        if len(set(places)) < count:
            # some follow one another in one slot
            latest: dict[int, int] = {}
            for at, place in enumerate(places):
                previous[at] = latest.get(place, previous[at])
                latest[place] = number + at
        if (before := self.before) is not None:
            for place, old in zip(places, previous, strict=True):
                before.setdefault(place, old)
        for newest, place in enumerate(places, number):
            slots[place] = newest
        self.used_slots += previous.count(0)
        self._tail += b"".join(map(self._pack, hashes, positions, repeat(seconds), previous))
        self._dirty_pages.update([place // _PAGE_SLOTS for place in places])
        self.next_number = number + count
        self.end_ms, self.end_position = store_ms, positions[-1]

    def find(self, file: File | None, key_hash: int, count: int) -> list[tuple[int, int]]:
        """Return up to ``count`` (position, approximate store ms) of entries with this hash, newest first.

        ``file`` is the file on disk, None if nothing of it is written yet.
        """
        found: list[tuple[int, int]] = []
        number = self._slot(file, key_hash % self.slot_count)
        steps = 0
        while 0 < number < self.next_number and len(found) < count and steps < self.limit:
            entry = self._entry(file, number)
            if entry is None:
                break
            own_hash, position, seconds, previous = entry
            if own_hash == key_hash:
                found.append((position, self.begin_ms + seconds * 1000))
            number = previous if previous < number else 0
            steps += 1
        return found

    def _slot(self, file: File | None, slot: int) -> int:
        if self._slots is not None:
            return self._slots[slot]
        raw = file.read(4, HEADER_SIZE + slot * 4) if file else b""
        return int.from_bytes(raw, "big", signed=True)

    def _entry(self, file: File | None, number: int) -> tuple[int, int, int, int] | None:
        if number >= self._tail_number:
            at = (number - self._tail_number) * ENTRY_SIZE
            return ENTRY.unpack_from(self._tail, at) if at + ENTRY_SIZE <= len(self._tail) else None
        raw = file.read(ENTRY_SIZE, self._entry_at(number)) if file else b""
        return ENTRY.unpack(raw) if len(raw) == ENTRY_SIZE else None

    def _entry_at(self, number: int) -> int:
        return HEADER_SIZE + self.slot_count * 4 + number * ENTRY_SIZE

    # on disk

    def read_header(self, file: File) -> bool:
        """Read the header; False if it cannot be one of ours."""
        raw = file.read(HEADER_SIZE, 0)
        if len(raw) < HEADER_SIZE:
            return False
        begin_ms, end_ms, begin, end, used, number = HEADER.unpack(raw)
        if not (1 <= number <= self.limit and 0 <= begin <= end and 0 <= used <= self.slot_count):
            return False
        self.begin_ms, self.end_ms, self.begin_position, self.end_position = begin_ms, end_ms, begin, end
        self.used_slots, self.next_number, self._tail_number = used, number, number
        return True

    def load_slots(self, file: File, next_number: int, *, clean: bool = False) -> bool:
        """Make ready to take entries from ``next_number`` on, unlinking later ones. False if the chains do not hold.

        After a clean stop there are none: looking through millions of slots would take longer than all the rest.
        """
        raw = file.read(4 * self.slot_count, HEADER_SIZE)
        slots = array("i", raw + bytes(4 * self.slot_count - len(raw)))
        if sys.byteorder == "little":
            slots.byteswap()
        looks = not clean or self.next_number != next_number
        if looks and slots and (max(slots) >= next_number or min(slots) < 0):
            for slot in [slot for slot, number in enumerate(slots) if not 0 <= number < next_number]:
                number = slots[slot]
                while number >= next_number:
                    entry = ENTRY.unpack(file.read(ENTRY_SIZE, self._entry_at(number)).ljust(ENTRY_SIZE, b"\0"))
                    if not 0 <= entry[3] < number:
                        return False
                    number = entry[3]
                if number < 0:
                    return False
                slots[slot] = number
                self._dirty_pages.add(slot // _PAGE_SLOTS)
        self._slots = slots
        self.next_number = self._tail_number = next_number
        return True

    def take(self) -> IndexWrite | None:
        """Return what a job must write, None if nothing is new."""
        if not self._tail and not self._dirty_pages:
            return None
        assert self._slots is not None
        runs = _merged(self._dirty_pages)
        # copied by the job: 20 MB at once would hold up whoever sends meanwhile
        self.before = {}
        self._dirty_pages = set()
        header = HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_position, self.end_position, self.used_slots, self.next_number
        )
        return IndexWrite(self, self._entry_at(self._tail_number), bytes(self._tail), self._slots, runs, header)

    def wrote(self, write: IndexWrite) -> None:
        """Forget entries that are on disk now."""
        self.before = None
        count = len(write.entries) // ENTRY_SIZE
        del self._tail[: len(write.entries)]
        self._tail_number += count

    def failed(self, write: IndexWrite) -> None:
        """Take back what could not be written, to write it again later."""
        self.before = None
        for first, last in write.runs:
            self._dirty_pages.update(range(first, last))

    def rest(self) -> None:
        """Free the memory of a full file whose entries are all on disk."""
        if not self._tail and not self._dirty_pages:
            self._slots = None

    @property
    def rests(self) -> bool:
        """Tell whether everything of it is on disk."""
        return not self._tail and not self._dirty_pages


class IndexWrite:
    """What a job writes of one index file: entries as they were when it was put together, and the slots as of then.

    It copies the slots itself, piece by piece, while more entries are added: what ``IndexFile.before`` says of a slot
    is put back into the copy, so that it names no entry that is not written.
    """

    __slots__ = ("_slots", "at", "entries", "file", "header", "runs")

    def __init__(
        self,
        file: IndexFile,
        at: int,
        entries: bytes,
        slots: array[int],
        runs: list[tuple[int, int]],
        header: bytes,
    ) -> None:
        self.file = file
        self.at = at
        self.entries = entries
        self._slots = slots
        #: pages that were touched: (first, behind the last)
        self.runs = runs
        self.header = header

    def _copy(self) -> list[array[int]]:
        """Return the slots of all runs as they were. A slice is taken, and the dict's items are, at one stroke."""
        copies = [self._slots[first * _PAGE_SLOTS : last * _PAGE_SLOTS] for first, last in self.runs]
        before, self.file.before = self.file.before, None
        starts = [first * _PAGE_SLOTS for first, _ in self.runs]
        for slot, number in list((before or {}).items()):
            run = bisect_right(starts, slot) - 1
            if run >= 0 and slot - starts[run] < len(copies[run]):
                copies[run][slot - starts[run]] = number
        return copies

    def run(self, files: Files) -> None:
        """Write and sync. Safe in any thread; raises OSError."""
        copies = self._copy()
        file = files.open(self.file.path, create=True)
        try:
            if file.size() < self.file.size_bytes:
                file.truncate(self.file.size_bytes)
            if self.entries:
                file.write(self.entries, self.at)
                file.sync()
            for (first, _), slots in zip(self.runs, copies, strict=True):
                if sys.byteorder == "little":
                    slots.byteswap()
                file.write(slots.tobytes(), HEADER_SIZE + first * _PAGE_SLOTS * 4)
            file.write(self.header, 0)
            file.sync()
        finally:
            file.close()


def _merged(pages: set[int]) -> list[tuple[int, int]]:
    """Return runs of pages (first, behind the last) that take few calls; what lies between two near ones is copied too.

    Unique keys are spread over all slots, so under load nearly every page is touched.
    """
    runs: list[tuple[int, int]] = []
    first = last = -_GAP_PAGES - 2
    for page in sorted(pages):
        if page - last <= _GAP_PAGES and page - first < _RUN_PAGES:
            last = page + 1
            continue
        if last >= 0:
            runs.append((first, last))
        first, last = page, page + 1
    if last >= 0:
        runs.append((first, last))
    return runs
