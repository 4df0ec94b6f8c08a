"""The index of a store: which messages have a key or a unique id. A row of index files, newest last.

Derived from the log: what is missing at the end is added again by recovery; a damaged file is made again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from operator import add

from ...rocketmq.message import string_hash
from ..disk.files import File, Files, directory_of, join
from .index_file import IndexFile, IndexWrite

#: How many hashes of key beginnings and middles are remembered, each; and of endings.
_MEMORY_LIMIT, _ENDINGS_LIMIT = 8_192, 65_536
#: Letters of an ending, and of a middle and an ending together.
_ENDING, _LATTER = 4, 16
_ENDING_POWER: int = 31**_ENDING
_LATTER_POWER: int = 31**_LATTER
#: No clock is set back further: 8,900 years.
_LONGEST_STEP_MS = 1 << 48


class Index:
    """Adds keys and finds positions."""

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

    def add_many(self, hashes: array[int] | list[int], positions: Sequence[int], store_ms: int) -> None:
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
        """Return the index hashes of keys of one topic, ASCII letters only."""
        beginnings = [key[:-_ENDING] for key in keys]
        if not all(beginnings):
            return [self.hash_of(f"{topic}#{key}") for key in keys]
        endings = [key[-_ENDING:] for key in keys]
        known = self._endings
        known.update({end: string_hash(end) & 0xFFFFFFFF for end in set(endings).difference(known)})
        starts = {start: string_hash(f"{topic}#{start}") * _ENDING_POWER for start in set(beginnings)}
        sums = map(add, map(starts.__getitem__, beginnings), map(known.__getitem__, endings))
        hashes = [
            value if value < 0x8000_0000 else (0x1_0000_0000 - value) & 0x7FFF_FFFF
            for value in [each & 0xFFFFFFFF for each in sums]
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
        stopped right there, so that no slot leads to an entry behind the mark.
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
