"""Index files against the log: each record's keys are there, each entry leads to a record that has the key."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from ..disk.files import File, Files, join
from ..queues.index_file import ENTRY, ENTRY_SIZE, HEADER, HEADER_SIZE
from .report import Damage, Report

_READ_ENTRIES = 10_000
#: RocketMQ's default ratio of entries to slots first (MessageStoreConfig), then those of small test stores.
_RATIOS = (4, 2, 1)


class IndexCheck:
    """Is told of each record in log order, and walks beside it the entries of all index files: they have that order."""

    def __init__(self, files: Files, directory: str, sizes: tuple[int, int] | None, report: Report) -> None:
        """``sizes``: slots and entries a file; None: found out from the files themselves, if one can."""
        self._files = files
        self._directory = directory
        self._report = report
        self._paths = [join(directory, name) for name in files.list(directory) if name.isdigit()]
        self._sizes = sizes or self._find_sizes()
        self._groups = groupby(self._entries(), key=itemgetter(1))
        self._position = -1
        self._hashes: list[int] = []
        self._begun = False
        self._missing = 0
        self._advance()

    def expect(self, position: int, hashes: list[int]) -> None:
        """Compare the keys of a record."""
        while self._hashes and self._position < position:
            if self._begun:
                self._damage("entries lead to no record", self._position)
            self._advance()
        if self._hashes and self._position == position:
            if self._missing and self._begun:
                self._damage(f"{self._missing} records before it are not indexed", position)
            self._begun, self._missing = True, 0
            if sorted(self._hashes) != sorted(hashes):
                self._damage("the entries are not the record's keys", position)
            self._advance()
        elif hashes:
            self._missing += 1

    def finish(self, end_position: int) -> None:
        """Judge what is left over."""
        if self._missing:
            self._note(self._missing, "records are still to be indexed", end_position)
        left = 0
        while self._hashes:
            left += 1
            self._advance()
        if left:
            self._note(left, "records of the index lie behind the end of the log", end_position)

    def _advance(self) -> None:
        self._hashes = []
        for position, group in self._groups:
            self._position = position
            self._hashes = [entry[0] for entry in group]
            return

    def _find_sizes(self) -> tuple[int, int] | None:
        """Return (slots, entries) a file, from a full file's count or a usual ratio; None if nothing fits."""
        for path in self._paths:
            file = self._files.open(path)
            head, rest = file.read(HEADER_SIZE, 0), file.size() - HEADER_SIZE
            file.close()
            if len(head) < HEADER_SIZE:
                continue
            number = HEADER.unpack(head)[5]
            if path != self._paths[-1] and 0 < number * ENTRY_SIZE < rest and (rest - number * ENTRY_SIZE) % 4 == 0:
                return (rest - number * ENTRY_SIZE) // 4, number
            for ratio in _RATIOS:
                slots, left = divmod(rest, 4 + ratio * ENTRY_SIZE)
                if not left and slots:
                    return slots, slots * ratio
        return None

    def _entries(self) -> Iterator[tuple[int, int]]:
        """Yield (hash, position) of every entry, oldest first; the chains of each file are checked on the way."""
        for path in self._paths:
            self._report.counts["index files"] += 1
            file = self._files.open(path)
            try:
                yield from self._entries_of(file)
            finally:
                file.close()

    def _entries_of(self, file: File) -> Iterator[tuple[int, int]]:
        head = file.read(HEADER_SIZE, 0)
        if self._sizes is None or len(head) < HEADER_SIZE:
            self._bad(file, 0, file.size(), "no index file has this size")
            return
        slots, limit = self._sizes
        base = HEADER_SIZE + 4 * slots
        number = HEADER.unpack(head)[5]
        if file.size() != base + ENTRY_SIZE * limit or not 0 <= number <= limit:
            self._bad(file, 0, file.size(), "size or header are not those of the other index files")
            return
        newest = array("i", bytes(4 * slots))
        for first in range(1, number, _READ_ENTRIES):
            count = min(_READ_ENTRIES, number - first)
            raw = file.read(count * ENTRY_SIZE, base + first * ENTRY_SIZE)
            for own, (key_hash, position, _, previous) in enumerate(ENTRY.iter_unpack(raw), first):
                slot = key_hash % slots
                if key_hash < 0 or previous != newest[slot]:
                    at = base + own * ENTRY_SIZE
                    self._bad(file, at, at + ENTRY_SIZE, "the entry is not chained to the one before")
                newest[slot] = own
                self._report.counts["index entries"] += 1
                yield key_hash, position
        self._check_slots(file, newest, number, limit)

    def _check_slots(self, file: File, newest: array[int], number: int, limit: int) -> None:
        found = array("i", file.read(4 * len(newest), HEADER_SIZE))
        if sys.byteorder == "little":
            found.byteswap()
        for slot, (has, needs) in enumerate(zip(found, newest, strict=True)) if found != newest else ():
            if has == needs:
                continue
            at = HEADER_SIZE + 4 * slot
            place = Damage(file.path, at, at + 4, f"the slot leads to entry {has}, the newest is {needs}")
            # an entry behind the count may be one that is being written now
            written_now = number <= has < limit
            (self._report.unfinished if written_now else self._report.damages).append(place)

    def _bad(self, file: File, start: int, end: int, why: str) -> None:
        self._report.damages.append(Damage(file.path, start, end, why))

    def _damage(self, why: str, position: int) -> None:
        self._report.damages.append(Damage(self._directory, position, position, why))

    def _note(self, count: int, why: str, position: int) -> None:
        self._report.unfinished.append(Damage(self._directory, position, position, f"{count:,} {why}"))
