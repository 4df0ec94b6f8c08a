"""Consume queues: for each queue of a topic, where its messages stand in the commit log.

    consumequeue/<topic>/<queue id>/<byte position of the file's first entry, 20 digits>
    entry, 20 bytes:   8 position   4 size   8 tags code (in SCHEDULE_TOPIC_XXXX: when the message is due, ms)

Files have their full size from the start but are sparse. New entries stay in memory until the next upkeep job writes
them; everything here is derived from the log and can be rebuilt.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ..disk.files import Files, directory_of, join
from ..disk.handles import Handles

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE = ENTRY.size
#: Size of an entry that stands for nothing (ConsumeQueue.fillPreBlank).
FILLER_SIZE = 0x7FFFFFFF


class QueueEntry(NamedTuple):
    """One entry: record position and size, and the tags code."""

    position: int
    size: int
    tags_code: int


class QueueWrite(NamedTuple):
    """Entries that a job puts on disk: ``data`` belongs at byte ``at`` of the queue."""

    queue: ConsumeQueue
    at: int
    data: bytes


class ConsumeQueue:
    """The entries of one queue. ``end_offset`` counts what was appended, ``max_offset`` what readers may see;
    ``taken_bytes`` are those of all records that were appended since it was opened."""

    __slots__ = (
        "_handles",
        "_pack",
        "_tail",
        "_tail_offset",
        "directory",
        "end_offset",
        "file_entries",
        "last_ms",
        "max_offset",
        "min_offset",
        "queue_id",
        "taken_bytes",
        "topic",
    )

    def __init__(self, handles: Handles, directory: str, topic: str, queue_id: int, file_entries: int) -> None:
        self._handles = handles
        self._pack = ENTRY.pack
        self._tail = bytearray()
        self._tail_offset = 0
        self.directory = directory
        self.topic = topic
        self.queue_id = queue_id
        self.file_entries = file_entries
        self.min_offset = 0
        self.max_offset = 0
        self.end_offset = 0
        self.last_ms = 0
        self.taken_bytes = 0

    def start_at(self, min_offset: int, end_offset: int) -> None:
        """Say what is on disk: entries from ``min_offset`` to ``end_offset``."""
        self._tail = bytearray()
        self._tail_offset = end_offset
        self.min_offset = min_offset
        self.end_offset = self.max_offset = end_offset

    def append(self, position: int, size: int, tags_code: int) -> int:
        """Add an entry that readers do not see yet; return its offset."""
        self._tail += self._pack(position, size, tags_code)
        self.taken_bytes += size
        offset = self.end_offset
        self.end_offset = offset + 1
        return offset

    def append_many(self, entries: bytes | bytearray, size_bytes: int) -> None:
        """Add packed entries that readers do not see yet, of records that have so many bytes in all."""
        self._tail += entries
        self.taken_bytes += size_bytes
        self.end_offset += len(entries) // ENTRY_SIZE

    def drop_from(self, offset: int) -> None:
        """Take back entries that were appended last and never shown."""
        del self._tail[(offset - self._tail_offset) * ENTRY_SIZE :]
        self.end_offset = offset

    def entries(self, offset: int, count: int) -> list[QueueEntry]:
        """Return up to ``count`` visible entries from ``offset``."""
        count = min(count, self.max_offset - offset)
        if count <= 0 or offset < self.min_offset:
            return []
        raw = self._raw(offset, count)
        return [QueueEntry._make(entry) for entry in ENTRY.iter_unpack(raw[: len(raw) - len(raw) % ENTRY_SIZE])]

    def unseen_positions(self) -> list[int]:
        """Return where the records stand that were appended and are not visible yet."""
        at = (self.max_offset - self._tail_offset) * ENTRY_SIZE
        return [position for position, _, _ in ENTRY.iter_unpack(bytes(self._tail[at:]))]

    def last(self) -> QueueEntry | None:
        """Return the last visible entry if it is so new that it was not written to a file yet."""
        at = (self.max_offset - 1 - self._tail_offset) * ENTRY_SIZE
        return QueueEntry._make(ENTRY.unpack_from(self._tail, at)) if at >= 0 else None

    def columns(self, offset: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return positions and sizes of up to ``count`` visible entries from ``offset``, None without any."""
        count = min(count, self.max_offset - offset)
        if count <= 0 or offset < self.min_offset:
            return None
        raw = self._raw(offset, count)
        if len(raw) < ENTRY_SIZE:
            return None
        positions, sizes, _ = zip(*ENTRY.iter_unpack(raw[: len(raw) - len(raw) % ENTRY_SIZE]), strict=True)
        return positions, sizes

    def _raw(self, offset: int, count: int) -> bytes:
        if offset >= self._tail_offset:
            at = (offset - self._tail_offset) * ENTRY_SIZE
            return bytes(self._tail[at : at + count * ENTRY_SIZE])
        parts: list[bytes] = []
        while count > 0 and offset < self._tail_offset:
            inside = offset % self.file_entries
            step = min(count, self.file_entries - inside, self._tail_offset - offset)
            try:
                file = self._handles.get(self.path_of(offset))
            except FileNotFoundError:
                return b"".join(parts)
            part = file.read(step * ENTRY_SIZE, inside * ENTRY_SIZE)
            parts.append(part)
            if len(part) < step * ENTRY_SIZE:
                return b"".join(parts)
            offset += step
            count -= step
        if count > 0:
            parts.append(bytes(self._tail[: count * ENTRY_SIZE]))
        return b"".join(parts)

    def path_of(self, offset: int) -> str:
        """Return the path of the file that holds an entry."""
        first = offset - offset % self.file_entries
        return join(self.directory, f"{first * ENTRY_SIZE:020d}")

    def forget_handle(self, offset: int) -> None:
        """Close the file of an entry, which is about to be written or made anew."""
        self._handles.forget(self.path_of(offset))

    # writing, by upkeep

    def unwritten(self) -> QueueWrite | None:
        """Return what is not on disk yet and may be (it is visible, so the log holds it durably)."""
        count = self.max_offset - self._tail_offset
        if count <= 0:
            return None
        return QueueWrite(self, self._tail_offset * ENTRY_SIZE, bytes(self._tail[: count * ENTRY_SIZE]))

    def wrote(self, write: QueueWrite) -> None:
        """Forget entries that are on disk now."""
        end = (write.at + len(write.data)) // ENTRY_SIZE
        if end > self._tail_offset:
            del self._tail[: (end - self._tail_offset) * ENTRY_SIZE]
            self._tail_offset = end

    # finding

    def search(self, low: int, high: int, position: int) -> int:
        """Return the first offset in low..high whose entry stands at ``position`` or later in the log."""
        while low < high:
            middle = (low + high) // 2
            found = self.entries(middle, 1)
            # a damaged entry must not make those before it look expired
            if found and found[0].size > 0 and 0 <= found[0].position < position:
                low = middle + 1
            else:
                high = middle
        return low

    def trim(self, log_min_position: int, files: Files) -> bool:
        """Move ``min_offset`` past entries whose records are gone, remove files that hold only such. True if moved.

        The file of the last entry stays even so: it alone tells a later start where to go on counting.
        """
        before = self.min_offset
        self.min_offset = self.search(self.min_offset, self.max_offset, log_min_position)
        if self.min_offset == before:
            return False
        keep = directory_keeps(self.path_of(min(self.min_offset, self.max_offset - 1)))
        for name in files.list(self.directory):
            if name.isdigit() and name < keep:
                path = join(self.directory, name)
                self._handles.forget(path)
                files.remove(path)
        return True


def directory_keeps(path: str) -> str:
    """Return the name of the oldest file to keep, from its path."""
    return path[len(directory_of(path)) + 1 :]


def write_entries(files: Files, write: QueueWrite) -> list[str]:
    """Put entries on disk, making files as needed; return the paths written. Safe in any thread; raises OSError."""
    queue, at, data = write
    file_size = queue.file_entries * ENTRY_SIZE
    paths: list[str] = []
    done = 0
    while done < len(data):
        inside = (at + done) % file_size
        step = min(len(data) - done, file_size - inside)
        path = queue.path_of((at + done) // ENTRY_SIZE)
        fresh = not files.exists(path)
        if fresh:
            files.make_directory(queue.directory)
        file = files.open(path, create=True)
        try:
            if file.size() < file_size:
                file.truncate(file_size)
            file.write(data[done : done + step], inside)
        finally:
            file.close()
        if fresh:
            files.sync_directory(queue.directory)
        paths.append(path)
        done += step
    return paths
