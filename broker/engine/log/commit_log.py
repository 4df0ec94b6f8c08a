"""The commit log: every message of every topic, one record after another, in segments of one size.

A segment's name is the position of its first byte in 20 digits, so the folder alone tells what is there:

    commitlog/00000000000000000000   positions 0 .. size-1
    commitlog/00000000000268435456   positions size .. 2*size-1     (the oldest may be gone)

A new segment is made under another name outside the folder, allocated whole, synced and then renamed, so a segment
that can be seen is complete. (RocketMQ refuses to start on a name in the folder that is not a number.)

Appends collect in batches; one batch at a time is written and synced by a job that may run in another thread while
appends go on. A record never crosses a segment: a BLANK closes a segment where the next record does not fit.

A file system notes of allocated room that nothing was written to it yet, and where something is it has that to sync as
well. Small batches that are synced write zeros behind their end now and then, where zeros are read anyway, so that most
syncs have their own bytes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...rocketmq.layout import BLANK_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, PREFIX
from ...rocketmq.message import blank, is_sound
from ..disk import NO_DESCRIPTOR, File, Files, directory_of, join
from ..errors import CorruptRecord, DiskFull, RecordNotFound, StoreBusy, StoreUnsupported

# Segments.

#: Bytes zeroed at a time.
_ZERO_BYTES = 1 << 20


def segment_name(position: int) -> str:
    """Return the file name of the segment that starts at ``position``."""
    return f"{position:020d}"


def make_segment(files: Files, directory: str, position: int, size: int) -> None:
    """Make one allocated segment, durable on return. Safe in any thread; raises OSError and leaves nothing behind."""
    temporary = join(directory_of(directory), f"escapement.segment.{position:020d}")
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.allocate(size)
        file.sync()
    except OSError:
        file.close()
        files.remove(temporary)
        raise
    file.close()
    files.rename(temporary, join(directory, segment_name(position)))
    files.sync_directory(directory)


class Chain:
    """The allocated segments of a log."""

    def __init__(self, files: Files, directory: str, segment_size_bytes: int) -> None:
        """Open what is there. Raises StoreUnsupported for a segment of another size or a gap."""
        self.directory = directory
        self.segment_size = segment_size_bytes
        self._files = files
        self._segments: dict[int, File] = {}
        files.make_directory(directory)
        self._sweep_unfinished()
        names = [name for name in files.list(directory) if name.isdigit()]
        for name in names:
            self._open_segment(int(name), last=name == names[-1])
        self.min_position = min(self._segments, default=0)
        self.end_position = max(self._segments, default=0) + (segment_size_bytes if self._segments else 0)
        if len(self._segments) * segment_size_bytes != self.end_position - self.min_position:
            raise StoreUnsupported(f"A segment is missing in the middle of {directory}; restore it from a copy.")

    def _sweep_unfinished(self) -> None:
        parent = directory_of(self.directory)
        for name in self._files.list(parent):
            if name.startswith("escapement.segment."):
                self._files.remove(join(parent, name))

    def _open_segment(self, position: int, *, last: bool) -> None:
        path = join(self.directory, segment_name(position))
        file = self._files.open(path)
        if file.size() != self.segment_size:
            if last and not file.read(8, 0).strip(b"\0"):
                # RocketMQ was stopped while it made this segment; nothing is in it
                file.close()
                self._files.remove(path)
                return
            size = file.size()
            file.close()
            raise StoreUnsupported(
                f"Segment {path} has {size:,} bytes, the configuration says {self.segment_size:,}; "
                "the segment size of a store cannot be changed."
            )
        self._segments[position] = file

    def segment_start(self, position: int) -> int:
        """Return the first position of the segment that holds ``position``."""
        return position - position % self.segment_size

    def file_at(self, position: int) -> tuple[File, int]:
        """Return the file that holds ``position`` and the place in it. Raises RecordNotFound."""
        at = position % self.segment_size
        file = self._segments.get(position - at)
        if file is None:
            raise RecordNotFound(position)
        return file, at

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from ``position``, never beyond its segment. Raises RecordNotFound."""
        file, at = self.file_at(position)
        return file.read(min(size, self.segment_size - at), at)

    def has(self, position: int) -> bool:
        """Tell whether the segment of ``position`` is there."""
        return position - position % self.segment_size in self._segments

    def adopt(self, position: int) -> None:
        """Take in the segment at the end that ``make_segment`` has made."""
        if position not in self._segments:
            self._segments[position] = self._files.open(join(self.directory, segment_name(position)))
            self.min_position = min(self._segments)
            self.end_position = max(self._segments) + self.segment_size

    def add(self, position: int) -> None:
        """Make and take in the next segment. Raises OSError."""
        if position not in self._segments:
            make_segment(self._files, self.directory, position, self.segment_size)
            self.adopt(position)

    def remove_first(self) -> None:
        """Remove the oldest segment. Raises OSError; then it is forgotten all the same."""
        position = self.min_position
        self._segments.pop(position).close()
        self.min_position = min(self._segments, default=self.end_position)
        self._files.remove(join(self.directory, segment_name(position)))
        self._files.sync_directory(self.directory)

    def clear_from(self, position: int) -> None:
        """Make everything from ``position`` on read as zero, durably; later segments are removed."""
        for start in sorted(self._segments, reverse=True):
            if start >= position and start != self.min_position:
                self._segments.pop(start).close()
                self._files.remove(join(self.directory, segment_name(start)))
                # one by one, the last first: a power loss must not take one from the middle
                self._files.sync_directory(self.directory)
        self.end_position = max(self._segments, default=0) + (self.segment_size if self._segments else 0)
        if self.has(position):
            file, at = self.file_at(position)
            # zeros are written, not made by cutting: a power loss between cut and growth would leave a short segment
            for start in range(at, self.segment_size, _ZERO_BYTES):
                size = min(_ZERO_BYTES, self.segment_size - start)
                if file.read(size, start).count(0) != size:
                    file.write(bytes(size), start)
            file.sync()
        self._files.sync_directory(self.directory)

    def segments(self) -> list[int]:
        """Return the first position of each segment, oldest first."""
        return sorted(self._segments)

    def close(self) -> None:
        """Close all files; closing twice is fine."""
        for file in self._segments.values():
            file.close()
        self._segments.clear()


# Batches and records.

#: Bigger than any record that can be written: body 4 MiB, properties 32 KiB, topic, header.
MAX_RECORD_SIZE = (4 << 20) + (1 << 18)
#: So much is zeroed ahead of batches that are synced; larger ones would gain less by it than it costs.
_AHEAD_BYTES = 64 << 10
_LARGE_BATCH_BYTES = 16 << 10
#: Bytes read at once when walking the log.
_WALK_BYTES = 1 << 20


class Writes:
    """The writes of one batch to the log: (file, place in it, parts that follow one another), oldest first."""

    __slots__ = ("_spans", "end_position", "size_bytes")

    def __init__(self) -> None:
        self._spans: list[tuple[File, int, list[bytes]]] = []
        self.size_bytes = 0
        self.end_position = 0

    def start(self, file: File, at: int) -> list[bytes]:
        """Begin a run of parts at a place in a file; the caller appends to the list."""
        parts: list[bytes] = []
        self._spans.append((file, at, parts))
        return parts

    def run(self, *, sync: bool) -> None:
        """Write, and make durable if asked. Safe in any thread; raises OSError."""
        touched: list[File] = []
        for file, at, parts in self._spans:
            if parts:
                file.write_many(parts, at)
                if file not in touched:
                    touched.append(file)
        if sync:
            for file in touched:
                file.sync()


class CommitLog:
    """The records of a store, addressed by position."""

    def __init__(self, files: Files, directory: str, segment_size_bytes: int) -> None:
        """Open the segments; ``end_position`` is set by recovery."""
        self._files = files
        self.chain = Chain(files, directory, segment_size_bytes)
        self.end_position = self.chain.min_position
        self.durable_position = self.end_position
        self.batch = Writes()
        self._parts: list[bytes] | None = None
        self._segment_end = self.end_position
        #: what was written since the store was opened ends there, with the zeros ahead of it
        self._zeroed_position = self.end_position
        self._making: int | None = None

    @property
    def min_position(self) -> int:
        """Position of the oldest byte still there."""
        return self.chain.min_position

    # appending

    def place(self, size: int) -> int:
        """Return the position where a record of ``size`` bytes will stand; ``push`` must follow.

        Raises DiskFull or StoreBusy before anything is changed.
        """
        position = self.end_position
        if self._parts is None or position + size + BLANK_SIZE > self._segment_end:
            return self._open_room(size)
        return position

    @property
    def room(self) -> int:
        """Bytes left in the segment for which ``place`` was just asked."""
        return self._segment_end - self.end_position

    def push(self, record: bytes, size: int) -> None:
        """Append the record of ``size`` bytes for which ``place`` was just asked."""
        assert self._parts is not None
        self._parts.append(record)
        self.end_position += size
        self.batch.size_bytes += size

    def _open_room(self, size: int) -> int:
        """Continue in the current segment, or close it with a BLANK and go to the next one."""
        chain = self.chain
        position = self.end_position
        if size + BLANK_SIZE > chain.segment_size:
            raise DiskFull(f"A record of {size:,} bytes does not fit a segment of {chain.segment_size:,} bytes.")
        start = chain.segment_start(position)
        left = start + chain.segment_size - position
        if chain.has(position) and size + BLANK_SIZE <= left:
            if self._parts is None:
                self._parts = self.batch.start(*chain.file_at(position))
                self._segment_end = start + chain.segment_size
            return position
        fresh = position if left == chain.segment_size else start + chain.segment_size
        self._need_segment(fresh)
        if fresh != position:
            if self._parts is None:
                self._parts = self.batch.start(*chain.file_at(position))
            self._parts.append(blank(left))
            self.batch.size_bytes += BLANK_SIZE
        self.end_position = fresh
        self._parts = self.batch.start(*chain.file_at(fresh))
        self._segment_end = fresh + chain.segment_size
        return fresh

    def make_room(self, size: int) -> None:
        """Make sure that records of ``size`` bytes in all will find a place. Raises DiskFull or StoreBusy."""
        chain = self.chain
        position, last = self.end_position, self.end_position + 2 * (size + BLANK_SIZE)
        for start in range(chain.segment_start(position), last, chain.segment_size):
            self._need_segment(start)

    def _need_segment(self, position: int) -> None:
        if self.chain.has(position):
            return
        if self._making is not None:
            raise StoreBusy("The next segment of the log is being created; retry shortly.")
        try:
            self.chain.add(position)
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise StoreBusy("No file can be opened for the next segment of the log; retry shortly.") from None
            raise DiskFull(f"The next segment of the log cannot be created: {error.strerror or error}.") from None

    def take(self, *, sync: bool) -> Writes | None:
        """Return what was appended since the last call, None if nothing; `sync`: it will be synced."""
        batch = self.batch
        if not batch.size_bytes:
            return None
        batch.end_position = self.end_position
        if sync and self.end_position > self._zeroed_position and batch.size_bytes <= _LARGE_BATCH_BYTES:
            self._zeroed_position = min(self.end_position + _AHEAD_BYTES, self._segment_end)
            assert self._parts is not None
            self._parts.append(bytes(self._zeroed_position - self.end_position))
        self.batch = Writes()
        self._parts = None
        return batch

    # making the next segment before it is needed

    def wanted_segment(self) -> int | None:
        """Return the position of a segment worth making ahead, None if there is one."""
        size = self.chain.segment_size
        following = self.chain.segment_start(self.end_position) + size
        if self._making is not None or size < (16 << 20) or self.chain.has(following):
            return None
        return following if self.chain.has(self.end_position) else None

    def begin_segment(self, position: int) -> None:
        """Note that a job makes this segment now."""
        self._making = position

    def make_segment(self, position: int) -> None:
        """Make it. Safe in any thread; raises OSError."""
        make_segment(self._files, self.chain.directory, position, self.chain.segment_size)

    def end_segment(self, *, made: bool) -> None:
        """Take in the segment that the job has made, or forget about it: what cannot be opened now is made again when
        it is needed, nothing is in it."""
        position, self._making = self._making, None
        if made and position is not None:
            with suppress(OSError):
                self.chain.adopt(position)

    def sync_all(self, positions: list[int]) -> None:
        """Make the segments that hold these positions durable. Safe in any thread; raises OSError."""
        for file in {id(f): f for f in (self.chain.file_at(p)[0] for p in positions if self.chain.has(p))}.values():
            file.sync()

    # reading

    def record_at(self, position: int, size: int | None = None) -> bytes:
        """Return one whole verified record. Raises RecordNotFound or CorruptRecord."""
        if not self.min_position <= position < self.end_position:
            raise RecordNotFound(position)
        if size is None:
            head = self.chain.read(position, PREFIX.size)
            if len(head) < PREFIX.size:
                raise RecordNotFound(position)
            size, magic = PREFIX.unpack(head)
            if magic not in (MAGIC_V1, MAGIC_V2) or size > MAX_RECORD_SIZE:
                raise CorruptRecord(position, "no record starts here")
        record = self.chain.read(position, size)
        if why := is_sound(record, position):
            raise CorruptRecord(position, why)
        return record

    def walk(self, position: int, end: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield (position, record) from ``position``; a None record ends the walk at the first bytes that are no
        sound record (or at ``end``)."""
        buffer, base = b"", position
        while position < end and self.chain.has(position):
            left = self.chain.segment_start(position) + self.chain.segment_size - position
            at = position - base
            if len(buffer) - at < min(left, PREFIX.size):
                buffer, base, at = self.chain.read(position, _WALK_BYTES), position, 0
            if left < PREFIX.size:
                break
            size, magic = PREFIX.unpack_from(buffer, at)
            if magic == MAGIC_BLANK and size == left:
                position += left
                buffer, base = b"", position
                continue
            if magic not in (MAGIC_V1, MAGIC_V2) or not 0 < size <= min(left, MAX_RECORD_SIZE):
                break
            if len(buffer) - at < size:
                buffer, base, at = self.chain.read(position, max(size, _WALK_BYTES)), position, 0
            record = buffer[at : at + size]
            if is_sound(record, position):
                break
            yield position, record
            position += size
        yield position, None

    def next_sound(self, position: int, end: int) -> int | None:
        """Return the position of the first sound record after ``position`` and below ``end``, None without."""
        marks = (MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big"))
        at = position
        while at < end and self.chain.has(at):
            chunk = self.chain.read(at, min(_WALK_BYTES, end - at) + PREFIX.size)
            if not chunk:
                break
            if chunk.count(0) != len(chunk):
                found = min(
                    (p for p in (self._sound_in(chunk, at, mark) for mark in marks) if p is not None), default=None
                )
                if found is not None:
                    return found
            left = self.chain.segment_start(at) + self.chain.segment_size - at
            at += min(_WALK_BYTES, left)
        return None

    def _sound_in(self, chunk: bytes, base: int, mark: bytes) -> int | None:
        at = chunk.find(mark)
        while at >= 0:
            candidate = base + at - 4
            if at >= 4 or self.chain.has(candidate):
                head = self.chain.read(candidate, PREFIX.size)
                size = PREFIX.unpack(head)[0] if len(head) == PREFIX.size else 0
                if 0 < size <= MAX_RECORD_SIZE and not is_sound(self.chain.read(candidate, size), candidate):
                    return candidate
            at = chunk.find(mark, at + 1)
        return None

    def close(self) -> None:
        """Close all files; closing twice is fine."""
        self.chain.close()
