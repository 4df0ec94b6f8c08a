"""The index of a store: from a key or a unique id to the messages that have it. A row of index files, newest last.

It is derived from the log: what is missing at the end is added again by recovery, and a damaged file is made again. One
file leads from a hash of ``topic#key`` to positions in the commit log, newest first:

     0  8 begin time   8  8 end time   16  8 begin position   24  8 end position   32  4 used slots   36  4 next number
    40                 slots x 4: number of the newest entry with this hash, 0 none
    40 + slots x 4     entries x 20: 4 hash, 8 position, 4 seconds after begin time, 4 previous entry of the slot

Entry 0 is never used; a file is full when its next number reaches the configured count of entries. The file is sparse
and has its full size from the start. Entries and slots of the newest file stay in memory until a job writes them:
entries first, synced, then slots, so that a slot on disk never names an entry that is not there. For the same reason a
file that is opened after a crash is first cut off behind its last entry that counts: others will stand there.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import add

from ...rocketmq.compiled import FAST, twin
from ...rocketmq.message import string_hash
from ..disk import File, Files, directory_of, join

# One index file.

HEADER = struct.Struct(">qqqqii")
HEADER_SIZE = HEADER.size
ENTRY = struct.Struct(">iqii")
ENTRY_SIZE = ENTRY.size
#: Slots are written in pages of this many.
_PAGE_SLOTS = 1024
#: Pages written at once at most, and untouched ones in between that are cheaper to write than to leave out.
_RUN_PAGES, _GAP_PAGES = 64, 2


@twin("put_entries")
def _put_entries(
    slots: array[int],
    hashes: Sequence[int],
    positions: Sequence[int],
    seconds: int,
    first_number: int,
    pages: bytearray,
    page_slots: int,
) -> tuple[bytes, int]:
    """Lead the slots of hashes to new entries, and mark their pages; return the entries and how many slots were
    empty."""
    slot_count = len(slots)
    places = [key_hash % slot_count for key_hash in hashes]
    previous = [slots[place] for place in places]
    if len(set(places)) < len(places):
        # some follow one another in one slot
        latest: dict[int, int] = {}
        for at, place in enumerate(places):
            previous[at] = latest.get(place, previous[at])
            latest[place] = first_number + at
    for newest, place in enumerate(places, first_number):
        slots[place] = newest
        pages[place // page_slots] = 1
    return b"".join(map(ENTRY.pack, hashes, positions, repeat(seconds), previous)), previous.count(0)


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
        #: entries that are not on disk: those a job is to write, and all behind them
        self._taken = bytearray()
        self._tail = bytearray()
        #: the first of them
        self._tail_number = 1
        #: one byte a page of slots, 1 where one was changed since a job took them; then its entry is in the tail
        self._dirty_pages = bytearray()
        #: what slots held that were changed while a job has still to copy them, see IndexWrite
        self.before: dict[int, int] | None = None
        self._pack = ENTRY.pack

    @property
    def is_full(self) -> bool:
        """Tell whether no other entry fits into the file."""
        return self.next_number >= self.limit

    @property
    def size_bytes(self) -> int:
        """The size of the whole file."""
        return HEADER_SIZE + self.slot_count * 4 + self.limit * ENTRY_SIZE

    def begin(self) -> None:
        """Start a new, empty file in memory."""
        self._slots = array("i", [0]) * self.slot_count
        self._dirty_pages = self._clean_pages()

    def _clean_pages(self) -> bytearray:
        return bytearray(-(-self.slot_count // _PAGE_SLOTS))

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
        self._dirty_pages[slot // _PAGE_SLOTS] = 1
        self.next_number = number + 1
        self.end_ms, self.end_position = store_ms, position

    def add_many(self, hashes: Sequence[int], positions: Sequence[int], store_ms: int) -> None:
        """Add entries; the caller has checked that they fit."""
        slots = self._slots
        assert slots is not None
        number, pages = self.next_number, self._dirty_pages
        if number == 1 and positions:
            self.begin_ms, self.begin_position = store_ms, positions[0]
        seconds = min(max((store_ms - self.begin_ms) // 1000, 0), 0x7FFFFFFF)
        if (before := self.before) is not None:
            for key_hash in hashes:
                slot = key_hash % self.slot_count
                before.setdefault(slot, slots[slot])
        packed, fresh = _put_entries(slots, hashes, positions, seconds, number, pages, _PAGE_SLOTS)
        self._tail += packed
        self.used_slots += fresh
        self.next_number = number + len(hashes)
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
            at, entries = (number - self._tail_number) * ENTRY_SIZE, self._taken
            if at >= len(entries):
                at, entries = at - len(entries), self._tail
            return ENTRY.unpack_from(entries, at) if at + ENTRY_SIZE <= len(entries) else None
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
        Raises OSError.
        """
        slots = array("i", file.read(4 * self.slot_count, HEADER_SIZE).ljust(4 * self.slot_count, b"\0"))
        if sys.byteorder == "little":
            slots.byteswap()
        if not clean or self.next_number != next_number:
            pages = self._unlink(file, slots, next_number)
            if pages is None:
                return False
            if any(pages) or self.next_number != next_number:
                self._cut(file, slots, next_number, pages)
        self._slots = slots
        self._dirty_pages = self._clean_pages()
        self.next_number = self._tail_number = next_number
        return True

    def _unlink(self, file: File, slots: array[int], next_number: int) -> bytearray | None:
        """Let slots lead to entries before ``next_number`` only; return their pages, one byte each, 1 where one was
        changed; None if a chain does not hold."""
        pages = self._clean_pages()
        if max(slots) < next_number and min(slots) >= 0:
            return pages
        for slot in [slot for slot, number in enumerate(slots) if not 0 <= number < next_number]:
            number = slots[slot]
            while number >= next_number:
                entry = ENTRY.unpack(file.read(ENTRY_SIZE, self._entry_at(number)).ljust(ENTRY_SIZE, b"\0"))
                if entry[0] % self.slot_count != slot or not 0 <= entry[3] < number:
                    return None
                number = entry[3]
            if number < 0:
                return None
            slots[slot] = number
            pages[slot // _PAGE_SLOTS] = 1
        return pages

    def _cut(self, file: File, slots: array[int], next_number: int, pages: bytearray) -> None:
        """End the file before ``next_number`` on the disk too, before other entries are written there: with a slot that
        still names such a place, a crash would leave it leading into the chain of another slot."""
        self.next_number = next_number
        self.used_slots = self.slot_count - slots.count(0)
        if next_number > 1:
            _, self.end_position, seconds, _ = ENTRY.unpack(file.read(ENTRY_SIZE, self._entry_at(next_number - 1)))
            self.end_ms = self.begin_ms + seconds * 1000
        for first, last in _merged(pages):
            _write_slots(file, first, memoryview(slots)[first * _PAGE_SLOTS : last * _PAGE_SLOTS])
        file.write(self._header(), 0)
        file.sync()

    def _header(self) -> bytes:
        return HEADER.pack(
            self.begin_ms, self.end_ms, self.begin_position, self.end_position, self.used_slots, self.next_number
        )

    def take(self) -> IndexWrite | None:
        """Return what a job must write, None if nothing is new. The job before has ended, one way or the other."""
        if not self._tail:
            return None
        assert self._slots is not None and not self._taken
        runs = _merged(self._dirty_pages)
        # slots are copied by the job, entries by nobody: 20 MB at once would hold up whoever sends meanwhile
        self.before = {}
        self._dirty_pages = self._clean_pages()
        self._taken, self._tail = self._tail, bytearray()
        return IndexWrite(self, self._entry_at(self._tail_number), self._taken, self._slots, runs, self._header())

    def wrote(self, write: IndexWrite) -> None:
        """Forget entries that are on disk now."""
        self._tail_number += len(write.entries) // ENTRY_SIZE
        self._taken = bytearray()

    def failed(self, write: IndexWrite) -> None:
        """Take back what could not be written, to write it again later."""
        self.before = None
        self._taken, self._tail = bytearray(), self._taken + self._tail
        for first, last in write.runs:
            self._dirty_pages[first:last] = b"\1" * (last - first)

    def rest(self) -> None:
        """Free the memory of a full file whose entries are all on disk."""
        if self.rests:
            self._slots = None
            self._dirty_pages = bytearray()

    @property
    def rests(self) -> bool:
        """Tell whether everything of it is on disk."""
        return not self._taken and not self._tail


class IndexWrite:
    """The part of one index file that a job writes: entries and slots as they were when the job was put together.

    It copies the slots itself, piece by piece, while more entries are added: what ``IndexFile.before`` says of a slot
    is put back into the copy, so that it names no entry that is not written. Until then each entry that is added is
    dearer, so a job copies them before all else.
    """

    __slots__ = ("_copies", "_slots", "at", "entries", "file", "header", "runs")

    def __init__(
        self,
        file: IndexFile,
        at: int,
        entries: bytearray,
        slots: array[int],
        runs: list[tuple[int, int]],
        header: bytes,
    ) -> None:
        self.file = file
        self.at = at
        self.entries = entries
        self._slots = slots
        self._copies: list[memoryview] | None = None
        #: pages that were touched: (first, behind the last)
        self.runs = runs
        self.header = header

    def copy(self) -> None:
        """Copy the slots of all runs as they were. Safe in any thread: each run is copied at one stroke, and so are the
        dict's items.

        The copies share one piece of memory, which is given back as a whole.
        """
        slots = memoryview(self._slots)
        pieces = [slots[first * _PAGE_SLOTS : last * _PAGE_SLOTS] for first, last in self.runs]
        room = memoryview(bytearray(sum(piece.nbytes for piece in pieces))).cast("i")
        copies = []
        for piece in pieces:
            copy, room = room[: len(piece)], room[len(piece) :]
            copy[:] = piece
            copies.append(copy)
        before, self.file.before = self.file.before, None
        starts = [first * _PAGE_SLOTS for first, _ in self.runs]
        for slot, number in list((before or {}).items()):
            run = bisect_right(starts, slot) - 1
            if run >= 0 and slot - starts[run] < len(copies[run]):
                copies[run][slot - starts[run]] = number
        self._copies = copies

    def run(self, files: Files) -> None:
        """Write and sync what was copied. Safe in any thread; raises OSError."""
        assert self._copies is not None, "the slots are copied first"
        file = files.open(self.file.path, create=True)
        try:
            if file.size() < self.file.size_bytes:
                file.truncate(self.file.size_bytes)
            if self.entries:
                file.write(self.entries, self.at)
                file.sync()
            for (first, _), slots in zip(self.runs, self._copies, strict=True):
                _write_slots(file, first, slots)
            file.write(self.header, 0)
            file.sync()
        finally:
            file.close()


def _write_slots(file: File, first_page: int, slots: memoryview) -> None:
    """Write slots, from the beginning of a page on."""
    swapped = array("i")
    swapped.frombytes(slots.cast("B"))
    if sys.byteorder == "little":
        swapped.byteswap()
    file.write(memoryview(swapped).cast("B"), HEADER_SIZE + first_page * _PAGE_SLOTS * 4)


def _merged(pages: bytearray) -> list[tuple[int, int]]:
    """Return runs of marked pages (first, behind the last) that take few calls; what lies between two near ones is
    copied too.

    Unique keys are spread over all slots, so under load nearly every page is touched.
    """
    runs: list[tuple[int, int]] = []
    first = last = -_GAP_PAGES - 2
    for page in [number for number, is_dirty in enumerate(pages) if is_dirty]:
        if page - last <= _GAP_PAGES and page - first < _RUN_PAGES:
            last = page + 1
            continue
        if last >= 0:
            runs.append((first, last))
        first, last = page, page + 1
    if last >= 0:
        runs.append((first, last))
    return runs


# The row of files.

#: How many hashes of key beginnings and middles are remembered, each; and of endings.
_MEMORY_LIMIT, _ENDINGS_LIMIT = 8_192, 65_536
#: Letters of an ending, and of a middle and an ending together.
_ENDING, _LATTER = 4, 16
_ENDING_POWER: int = 31**_ENDING
_MIDDLE_POWER: int = 31 ** (_LATTER - _ENDING)
_LATTER_POWER: int = 31**_LATTER
#: No clock is set back further: 8,900 years.
_LONGEST_STEP_MS = 1 << 48


class Index:
    """The index files of a store: they take keys, and find the positions of messages by them."""

    def __init__(self, files: Files, directory: str, slots: int, entries: int) -> None:
        self._files = files
        self.directory = directory
        self._slots = slots
        self._entries = entries
        self._row: list[IndexFile] = []
        self._newest: IndexFile | None = None
        self._beginnings: dict[str, int] = {}
        self._middles: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        files.make_directory(directory)

    # adding

    def add(self, topic_and_key: str, position: int, store_ms: int) -> None:
        """Add ``topic#key``; at most one new file is begun."""
        newest = self._newest
        if newest is None or newest.next_number >= newest.limit:
            newest = self._begin_file(store_ms)
        newest.add(self.hash_of(topic_and_key), position, store_ms)

    def add_many(self, hashes: Sequence[int], positions: Sequence[int], store_ms: int) -> None:
        """Add entries by hash, in order of position."""
        done = 0
        while done < len(hashes):
            newest = self._newest
            if newest is None or newest.next_number >= newest.limit:
                newest = self._begin_file(store_ms)
            step = min(newest.limit - newest.next_number, len(hashes) - done)
            newest.add_many(hashes[done : done + step], positions[done : done + step], store_ms)
            done += step

    def hash_of(self, text: str) -> int:
        """Return the index hash: the absolute value of Java's string hash.

        Unique ids of one client differ only at their end, those of one ms in the last letters: the hashes of what
        comes before are remembered.
        """
        if FAST is not None:
            return FAST.index_hash(text)
        if not text.isascii():
            return _absolute(string_hash(text))
        start = self._beginnings.get(text[:-_LATTER])
        if start is None:
            start = _remembered(self._beginnings, text[:-_LATTER])
        middle = self._middles.get(text[-_LATTER:-_ENDING])
        if middle is None:
            middle = _remembered(self._middles, text[-_LATTER:-_ENDING])
        end = self._endings.get(text[-_ENDING:])
        if end is None:
            end = _remembered(self._endings, text[-_ENDING:], _ENDINGS_LIMIT)
        value = (start * _LATTER_POWER + middle * _ENDING_POWER + end) & 0xFFFFFFFF
        return value if value < 0x8000_0000 else (0x1_0000_0000 - value) & 0x7FFF_FFFF

    def hashes_of(self, topic: str, keys: Sequence[str]) -> list[int]:
        """Return the index hashes of keys of one topic."""
        if FAST is not None:
            return FAST.hashes(f"{topic}#", keys)
        beginnings = [key[:-_ENDING] for key in keys]
        if not all(beginnings) or not topic.isascii():
            return self.hashes([f"{topic}#{key}" for key in keys])
        starts = {start: self._hash_before(f"{topic}#{start}") * _ENDING_POWER for start in set(beginnings)}
        return self._ended(map(starts.__getitem__, beginnings), [key[-_ENDING:] for key in keys])

    def hashes(self, texts: Sequence[str]) -> list[int]:
        """Return the index hashes of ``topic#key``."""
        if FAST is not None:
            return FAST.hashes("", texts)
        if not all(map(str.isascii, texts)):
            return [self.hash_of(text) for text in texts]
        beginnings = [text[:-_ENDING] for text in texts]
        starts = {start: self._hash_before(start) * _ENDING_POWER for start in set(beginnings)}
        return self._ended(map(starts.__getitem__, beginnings), [text[-_ENDING:] for text in texts])

    def _hash_before(self, text: str) -> int:
        """Return Java's string hash of what comes before an ending, any of those that are the same in 32 bits."""
        start = self._beginnings.get(text[: _ENDING - _LATTER])
        if start is None:
            start = _remembered(self._beginnings, text[: _ENDING - _LATTER])
        middle = self._middles.get(text[_ENDING - _LATTER :])
        if middle is None:
            middle = _remembered(self._middles, text[_ENDING - _LATTER :])
        return start * _MIDDLE_POWER + middle

    def _ended(self, starts: Iterable[int], endings: list[str]) -> list[int]:
        """Return the hashes of texts by what comes before their endings."""
        known = self._endings
        known.update({end: string_hash(end) & 0xFFFFFFFF for end in set(endings).difference(known)})
        hashes = [
            value if value < 0x8000_0000 else (0x1_0000_0000 - value) & 0x7FFF_FFFF
            for value in [each & 0xFFFFFFFF for each in map(add, starts, map(known.__getitem__, endings))]
        ]
        if len(known) > _ENDINGS_LIMIT:
            known.clear()
        return hashes

    def _begin_file(self, store_ms: int) -> IndexFile:
        if self._row:
            self._row[-1].rest()
        name = _stamp(store_ms)
        if self._row and name <= (last := self._row[-1].path[len(self.directory) + 1 :]):
            name = _stamp_after(last, store_ms)
        file = IndexFile(join(self.directory, name), self._slots, self._entries)
        file.begin()
        self._row.append(file)
        self._newest = file
        return file

    # finding

    def find(self, topic: str, key: str, count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Return up to ``count`` positions of messages that may have the key, newest first."""
        key_hash = self.hash_of(f"{topic}#{key}")
        positions: list[int] = []
        for index_file in reversed(self._row):
            if index_file.begin_ms > end_ms + 1000 or (index_file.end_ms and index_file.end_ms < begin_ms - 1000):
                continue
            file = self._opened(index_file.path)
            found = index_file.find(file, key_hash, count - len(positions))
            if file is not None:
                file.close()
            positions += [position for position, ms in found if begin_ms - 1000 <= ms <= end_ms + 1000]
            if len(positions) >= count:
                break
        return positions

    def _opened(self, path: str) -> File | None:
        try:
            return self._files.open(path)
        except FileNotFoundError:
            return None

    # opening and keeping

    def mark(self) -> tuple[str, int]:
        """Return the newest file's name and next number: what a checkpoint remembers."""
        if not self._row:
            return "", 1
        return self._row[-1].path[len(self.directory) + 1 :], self._row[-1].next_number

    def open(self, mark: tuple[str, int] | None, *, clean: bool = False) -> bool:
        """Open the files up to a mark and drop what came after; False if they cannot be trusted and all is dropped.

        Without a mark everything is dropped: the log is read again from its beginning. ``clean``: the store was
        stopped right there, so that no slot leads to an entry behind the mark. Raises OSError.
        """
        names = [name for name in self._files.list(self.directory) if name.isdigit()]
        self._row.clear()
        self._newest = None
        good = mark is not None and (mark[0] in names or (not mark[0] and not names))
        if mark is not None and not mark[0]:
            good = True
        if mark is None or not good:
            self._drop(names)
            return good
        last, number = mark
        self._drop([name for name in names if name > last])
        for name in [name for name in names if name <= last]:
            if not self._open_one(join(self.directory, name), number if name == last else None, clean=clean):
                self._row.clear()
                self._drop(names)
                return False
        self._newest = self._row[-1] if self._row else None
        return good

    def _drop(self, names: list[str]) -> None:
        """Remove files, the newest first and durably: a checkpoint names the newest, so whatever a crash leaves of the
        others is not taken for the whole."""
        for count, name in enumerate(reversed(names)):
            self._files.remove(join(self.directory, name))
            if not count:
                self._files.sync_directory(self.directory)

    def _open_one(self, path: str, next_number: int | None, *, clean: bool) -> bool:
        index_file = IndexFile(path, self._slots, self._entries)
        file = self._files.open(path)
        try:
            if file.size() != index_file.size_bytes or not index_file.read_header(file):
                return False
            if next_number is not None and not (
                next_number <= index_file.next_number and index_file.load_slots(file, next_number, clean=clean)
            ):
                return False
        finally:
            file.close()
        self._row.append(index_file)
        return True

    def take(self) -> list[IndexWrite]:
        """Return what a job must write to make the index durable."""
        return [write for file in self._row if (write := file.take()) is not None]

    def wrote(self, write: IndexWrite) -> None:
        """Note that a write is on disk."""
        write.file.wrote(write)
        if write.file is not self._row[-1]:
            write.file.rest()

    def failed(self, write: IndexWrite) -> None:
        """Note that a write did not succeed, it is made again with the next one."""
        write.file.failed(write)

    def trim(self, log_min_position: int) -> None:
        """Remove files all of whose records are gone."""
        while len(self._row) > 1 and self._row[0].end_position < log_min_position and self._row[0].rests:
            path = self._row.pop(0).path
            self._files.remove(path)
            self._files.sync_directory(directory_of(path))


def _remembered(memory: dict[str, int], part: str, limit: int = _MEMORY_LIMIT) -> int:
    """Return Java's string hash of a part of a key, without a sign, and remember it."""
    if len(memory) >= limit:
        memory.clear()
    value = memory[part] = string_hash(part) & 0xFFFFFFFF
    return value


def _absolute(value: int) -> int:
    return abs(value) if value != -0x8000_0000 else 0


def _stamp_after(last: str, store_ms: int) -> str:
    """Return the first name behind one that is not before this moment: the clock may have been set back for years."""
    step = 1
    while _stamp(store_ms + step) <= last and step < _LONGEST_STEP_MS:
        step *= 2
    moments = range(store_ms, store_ms + step)
    return _stamp(store_ms + bisect_right(moments, last, key=_stamp))


def _stamp(store_ms: int) -> str:
    """Return a moment as RocketMQ names index files, yyyyMMddHHmmssSSS (ours in UTC)."""
    days, rest_ms = divmod(store_ms, 86_400_000)
    # civil date from days since 1970 (Howard Hinnant's algorithm): the engine has no clock and no calendar
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    hours, rest_ms = divmod(rest_ms, 3_600_000)
    minutes, rest_ms = divmod(rest_ms, 60_000)
    seconds, millis = divmod(rest_ms, 1000)
    return f"{year:04d}{month:02d}{day:02d}{hours:02d}{minutes:02d}{seconds:02d}{millis:03d}"
