"""The check of a whole store: the commit log, and against it the queues, the index, the services and the tables.

The log is walked record by record, past whatever is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...rocketmq.layout import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, PREFIX
from ...rocketmq.message import Message, decode, is_sound, string_hash
from ...rocketmq.properties import REAL_TOPIC, TAGS
from ...rocketmq.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from ..disk import File, Files, join, load_file
from ..errors import CorruptRecord
from ..log.checkpoint import Checkpoint, CheckpointFile
from ..message_header import extra_key_of
from ..outside import refuse_outside
from ..tables import json_file
from ..tables.topics import void_positions_in
from . import Damage, Report, Vouched
from .derived import IndexCheck, QueueCheck, TimerCheck, TransactionCheck

# The whole store.

_CHECKPOINT = "escapement.checkpoint"
_TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def check_store(files: Files, root: str) -> Report:
    """Check everything under ``root``; raises FileNotFoundError where no store is, StoreUnsupported."""
    directory = join(root, "commitlog")
    if not files.exists(directory):
        raise FileNotFoundError(directory)
    refuse_outside(files, root)
    report = Report()
    log = LogCheck(files, directory)
    # asked in this order: a broker that stops meanwhile writes its last checkpoint first
    was_stopped = not files.exists(join(root, "abort"))
    checkpoint = CheckpointFile(files, join(root, _CHECKPOINT), join(root, "checkpoint")).load()
    vouched = Vouched(checkpoint, was_stopped=was_stopped)
    queues = QueueCheck(files, join(root, "consumequeue"), report, vouched)
    sizes = (checkpoint.index_slots, checkpoint.index_entries) if checkpoint and checkpoint.index_slots else None
    index = IndexCheck(files, join(root, "index"), sizes, report, vouched)
    transactions = TransactionCheck(directory, report)
    timers = TimerCheck(files, root, report)
    void_below = _void_positions(files, join(root, "config", "topics.json"))
    for position, record in log.records():
        report.counts["records"] += 1
        report.counts["record bytes"] += len(record)
        try:
            message = decode(record, verify=False)
        except CorruptRecord as error:
            report.damages.append(Damage(directory, position, position + len(record), error.why))
            continue
        if position < void_below.get(message.topic, 0):
            # its topic was deleted since: the queue went with it, and an index that is made anew leaves it out
            queues.allow(message.topic, message.queue_id, message.queue_offset, position)
            index.allow(position)
        else:
            entry = (position, len(record), _tags_code(message))
            queues.expect(message.topic, message.queue_id, message.queue_offset, entry)
            index.expect(position, _index_hashes(message))
        if message.topic == TIMER_TOPIC:
            timers.expect(message.queue_offset, position, len(record), message.properties.get(REAL_TOPIC, ""))
        transactions.see(message)
    report.counts["segments"] = len(log.segments)
    report.damages += [Damage(*damage) for damage in log.damaged]
    queues.finish(log.min_position, [(start, end) for _, start, end, _ in log.damaged])
    index.finish(log.end_position)
    timers.finish()
    transactions.finish()
    _check_end(files, root, checkpoint, log, report, vouched)
    _check_tables(files, root, report)
    if was_stopped:
        # it was stopped cleanly, so nothing may be left to do
        report.damages += report.unfinished
        report.unfinished = []
    return report


def _void_positions(files: Files, path: str) -> dict[str, int]:
    """Return the position by name below which records are of a deleted topic, as the table that can be read says."""
    for version in (path, f"{path}.bak"):
        content = load_file(files, version)
        with suppress(ValueError, TypeError, AttributeError, RecursionError):
            if content is not None:
                return void_positions_in(json_file.parse(content))
    return {}


def _tags_code(message: Message) -> int | None:
    """Return what the queue entry must say; None for parked messages, whose entry says when they are due."""
    if message.topic == SCHEDULE_TOPIC:
        return None
    return string_hash(message.tags) if message.tags else 0


def _index_hashes(message: Message) -> list[int]:
    """Return the index hash of each key: unique id, keys, tag."""
    names = [*([message.unique_key] if message.unique_key else []), *message.keys]
    if tags := message.properties.get(TAGS):
        names.append(f"T#{tags}")
    if extra_key := extra_key_of(message.topic, message.properties):
        names.append(extra_key)
    hashes = [abs(string_hash(f"{message.topic}#{name}")) for name in names]
    return [value if value < 1 << 31 else 0 for value in hashes]


def _check_end(
    files: Files, root: str, checkpoint: Checkpoint | None, log: LogCheck, report: Report, vouched: Vouched
) -> None:
    """Compare the end of the log with what the checkpoint promises."""
    if log.loose is not None:
        path, start, end = log.loose
        report.unfinished.append(Damage(path, start, end, "bytes behind the last record"))
    path = join(root, _CHECKPOINT)
    if checkpoint is None and files.exists(path):
        vouched.damages_of(report).append(Damage(path, 0, 0, "neither slot can be read"))
    elif checkpoint is not None and checkpoint.position > log.end_position:
        why = f"the log ends here, the checkpoint says {checkpoint.position:,}"
        report.damages.append(Damage(join(root, "commitlog"), log.end_position, checkpoint.position, why))


def _check_tables(files: Files, root: str, report: Report) -> None:
    for name in _TABLES:
        for path in (join(root, "config", name), join(root, "config", f"{name}.bak")):
            content = load_file(files, path)
            if content is None:
                continue
            report.counts["tables"] += 1
            try:
                json_file.parse(content)
            except ValueError as error:
                report.damages.append(Damage(path, 0, len(content), f"not readable: {error}"))


# The commit log.

#: Bytes read at once.
_WINDOW_BYTES = 1 << 20
_MARKS = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))


class Segment:
    """A file of the log, read through a window."""

    def __init__(self, files: Files, path: str, start: int) -> None:
        self._file: File = files.open(path)
        self._window = b""
        self._window_at = 0
        self.path = path
        self.start = start
        self.size = self._file.size()

    def read(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes from a place of the segment."""
        if not self._window_at <= at or at + size > self._window_at + len(self._window):
            self._window, self._window_at = self._file.read(max(size, _WINDOW_BYTES), at), at
        return self._window[at - self._window_at : at - self._window_at + size]

    def record_at(self, at: int) -> bytes | None:
        """Return the sound record at this place of the segment, or None."""
        head = self.read(at, PREFIX.size)
        if len(head) < PREFIX.size:
            return None
        size, magic = PREFIX.unpack(head)
        if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= self.size - at:
            return None
        record = self.read(at, size)
        return record if len(record) == size and is_sound(record, self.start + at) is None else None

    def is_closed_at(self, at: int) -> bool:
        """Tell whether the rest is filled by a BLANK."""
        head = self.read(at, PREFIX.size)
        return len(head) == PREFIX.size and PREFIX.unpack(head) == (self.size - at, MAGIC_BLANK)

    def next_sound(self, at: int) -> int | None:
        """Return the first place from ``at`` on where a sound record starts."""
        while at < self.size:
            chunk = self.read(at, min(_WINDOW_BYTES, self.size - at))
            places = sorted(place for mark in _MARKS for place in _places(chunk, mark))
            for place in places:
                if place >= 4 and self.record_at(at + place - 4) is not None:
                    return at + place - 4
            if len(chunk) <= PREFIX.size:
                return None
            at += len(chunk) - PREFIX.size  # a magic number may stand across the border
        return None

    def is_zero_from(self, at: int) -> bool:
        """Tell whether nothing was ever written from ``at`` on."""
        while at < self.size:
            chunk = self._file.read(_WINDOW_BYTES, at)
            if not chunk or chunk.count(0) != len(chunk):
                return not chunk
            at += len(chunk)
        return True

    def close(self) -> None:
        """Close the file of the segment."""
        self._file.close()


class LogCheck:
    """Walks all segments; afterwards ``damaged`` holds the bad ranges and ``loose`` what stands behind the end."""

    def __init__(self, files: Files, directory: str) -> None:
        names = [name for name in files.list(directory) if name.isdigit()]
        self.segments = [Segment(files, join(directory, name), int(name)) for name in names]
        self.damaged: list[tuple[str, int, int, str]] = []
        self.loose: tuple[str, int, int] | None = None
        self.min_position = self.segments[0].start if self.segments else 0
        self.end_position = self.min_position
        self._open_end: tuple[Segment, int] | None = None

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield (position, record) of every sound record, oldest first."""
        for number, segment in enumerate(self.segments):
            if number and segment.start != self.segments[number - 1].start + self.segments[number - 1].size:
                before = self.segments[number - 1]
                self._damage(
                    before, before.start + before.size, segment.start, "the next segment does not follow this one"
                )
            yield from self._records_of(segment)
        self._end()
        for segment in self.segments:
            segment.close()

    def _records_of(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        at = 0
        while at < segment.size:
            record = segment.record_at(at)
            if record is None:
                if segment.is_closed_at(at):
                    self._settle_open_end()
                    self.end_position = segment.start + segment.size
                    return
                following = segment.next_sound(at + 1)
                if following is None:
                    if self._open_end is None:
                        self._open_end = (segment, at)
                    return
                self._settle_open_end()
                self._damage(
                    segment, segment.start + at, segment.start + following, "no sound record, though later ones are"
                )
                at = following
                continue
            self._settle_open_end()
            yield segment.start + at, record
            at += len(record)
            self.end_position = segment.start + at

    def _settle_open_end(self) -> None:
        """Report what looked like the end of the log as a hole, as a later record shows."""
        if self._open_end is not None:
            segment, at = self._open_end
            self._open_end = None
            self._damage(
                segment, segment.start + at, segment.start + segment.size, "neither a record nor the segment's end"
            )

    def _end(self) -> None:
        """Look at what stands behind the last record."""
        if self._open_end is None:
            return
        first, at = self._open_end
        for segment in self.segments[self.segments.index(first) :]:
            if not segment.is_zero_from(at):
                self.loose = (segment.path, segment.start + at, segment.start + segment.size)
                return
            at = 0

    def _damage(self, segment: Segment, start: int, end: int, why: str) -> None:
        self.damaged.append((segment.path, start, end, why))


def _places(chunk: bytes, mark: bytes) -> Iterator[int]:
    at = chunk.find(mark)
    while at >= 0:
        yield at
        at = chunk.find(mark, at + 1)
