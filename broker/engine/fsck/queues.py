"""Consume queues against the log: each record has its entry, each entry its record."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from ..disk.files import Files, join
from ..queues.consume_queue import ENTRY, ENTRY_SIZE
from .report import Damage, Report

#: Queue files kept in memory at once.
_OPEN_LIMIT = 64
#: RocketMQ fills a queue that does not start at offset 0 with entries of this size.
_FILLER_SIZE = 0x7FFFFFFF


@dataclass(slots=True)
class _Seen:
    """What the log says of one queue."""

    directory: str
    file_size: int
    matched: int = 0
    missing_from: int | None = None
    missing_count: int = 0


class QueueCheck:
    """Is told of each record in log order, and judges the queues at the end."""

    def __init__(self, files: Files, directory: str, report: Report) -> None:
        self._files = files
        self._directory = directory
        self._report = report
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._open: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def expect(self, topic: str, queue_id: int, offset: int, entry: tuple[int, int, int | None]) -> None:
        """Compare the entry (position, size, tags code or None for any) of a record."""
        seen = self._queue(topic, queue_id)
        position, size, tags_code = entry
        found = self._entry(seen, offset)
        if found is None or found[1] == 0:
            seen.missing_from = offset if seen.missing_from is None else seen.missing_from
            seen.missing_count += 1
            return
        if seen.missing_from is not None:
            self._damage(seen, seen.missing_from, offset, "no entry, though later ones are there")
            seen.missing_from, seen.missing_count = None, 0
        seen.matched += 1
        if found[:2] != (position, size):
            why = (
                f"the entry leads to {found[0]:,} with {found[1]:,} bytes, the record is at {position:,} with {size:,}"
            )
            self._damage(seen, offset, offset + 1, why)
        elif tags_code is not None and found[2] != tags_code:
            self._damage(seen, offset, offset + 1, f"the tags code is {found[2]}, the record says {tags_code}")

    def finish(self, log_min: int, damaged: list[tuple[int, int]]) -> None:
        """Judge what no record asked for, and count; entries of damaged parts of the log are as they must be."""
        for seen in self._seen.values():
            if seen.missing_count:
                begin = seen.missing_from or 0
                self._report.unfinished.append(
                    Damage(seen.directory, begin, begin + seen.missing_count, "entries are still to be written")
                )
        for topic in self._files.list(self._directory):
            for name in self._files.list(join(self._directory, topic)):
                if name.isdigit():
                    self._count(topic, int(name), log_min, damaged)

    def _count(self, topic: str, queue_id: int, log_min: int, damaged: list[tuple[int, int]]) -> None:
        seen = self._queue(topic, queue_id)
        live = 0
        for name in self._files.list(seen.directory):
            raw = self._load(join(seen.directory, name)) if name.isdigit() else b""
            whole = raw[: len(raw) - len(raw) % ENTRY_SIZE]
            for position, size, _ in ENTRY.iter_unpack(whole) if whole.strip(b"\0") else ():
                lost = any(start <= position < end for start, end in damaged)
                live += 0 < size < _FILLER_SIZE and position >= log_min and not lost
        self._report.counts["queues"] += 1
        self._report.counts["queue entries"] += live
        if live > seen.matched:
            why = f"{live - seen.matched} entries lead to no record"
            self._report.unfinished.append(Damage(seen.directory, seen.matched, live, why))

    def _queue(self, topic: str, queue_id: int) -> _Seen:
        seen = self._seen.get((topic, queue_id))
        if seen is None:
            directory = join(self._directory, topic, str(queue_id))
            names = [name for name in self._files.list(directory) if name.isdigit()]
            size = len(self._load(join(directory, names[0]))) if names else 0
            seen = self._seen[topic, queue_id] = _Seen(directory, size - size % ENTRY_SIZE)
        return seen

    def _entry(self, seen: _Seen, offset: int) -> tuple[int, int, int] | None:
        if not seen.file_size:
            return None
        at = offset * ENTRY_SIZE
        start = at - at % seen.file_size
        key = (seen.directory, start)
        content = self._open.get(key)
        if content is None:
            content = self._open[key] = self._load(join(seen.directory, f"{start:020d}"))
            if len(self._open) > _OPEN_LIMIT:
                self._open.popitem(last=False)
        if at - start + ENTRY_SIZE > len(content):
            return None
        position, size, tags_code = ENTRY.unpack_from(content, at - start)
        return position, size, tags_code

    def _load(self, path: str) -> bytes:
        try:
            file = self._files.open(path)
        except FileNotFoundError:
            return b""
        try:
            return file.read(file.size(), 0)
        finally:
            file.close()

    def _damage(self, seen: _Seen, start: int, end: int, why: str) -> None:
        self._report.damages.append(Damage(seen.directory, start, end, why))
