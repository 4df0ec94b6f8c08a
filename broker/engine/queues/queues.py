"""Consume queues: for each queue of a topic, where its messages stand in the commit log.

    consumequeue/<topic>/<queue id>/<byte position of the file's first entry, 20 digits>
    entry, 20 bytes:   8 position   4 size   8 tags code (in SCHEDULE_TOPIC_XXXX: when the message is due, ms)

Files have their full size from the start but are sparse. New entries stay in memory until the next upkeep job writes
them; everything here is derived from the log and can be rebuilt.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple

from ...rocketmq.compiled import twin
from ...rocketmq.layout import QUEUE_OFFSET
from ..disk import File, Files, Handles, Write, directory_of, join
from ..errors import StoreUnsupported
from ..log.commit_log import CommitLog

# One queue.

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE = ENTRY.size
#: Size of an entry that stands for nothing (ConsumeQueue.fillPreBlank).
FILLER_SIZE = 0x7FFFFFFF
#: Where no record stands: behind all of them.
_FAR = 1 << 63


class QueueEntry(NamedTuple):
    """An entry of a consume queue: record position and size, and the tags code."""

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
        "laid_out",
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
        #: the file that was written last, and so has its whole length
        self.laid_out = ""

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
            if self._is_below(middle, position):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_below(self, offset: int, position: int) -> bool:
        """Tell whether an entry stands below a position. One that is not in line with its neighbours is damaged: it
        must not make those before it look expired."""
        begin = max(offset - 1, self.min_offset)
        around = self.entries(begin, offset - begin + 2)
        if len(around) <= offset - begin:
            return False
        own, after = around[offset - begin], around[offset - begin + 1 :]
        if own.size > 0 and around[0].position <= own.position <= (after[0].position if after else _FAR):
            return 0 <= own.position < position
        return bool(after) and after[0].size > 0 and around[0].position <= after[0].position < position

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


@twin("entries")
def pack_entries(positions: Sequence[int], sizes: Sequence[int], tags_codes: Sequence[int] | None) -> bytes:
    """Return packed entries of one queue; without codes no message has tags."""
    return b"".join(map(ENTRY.pack, positions, sizes, repeat(0) if tags_codes is None else tags_codes))


def write_all_entries(files: Files, writes: Sequence[QueueWrite]) -> None:
    """Put entries of many queues on disk, durable on return. Safe in any thread; raises OSError.

    A thread that writes and the loop take turns at the interpreter with each call to the system, and a checkpoint may
    write a thousand queues: what goes into files that were laid out before is handed over as a whole.
    """
    known: list[Write] = []
    others: list[QueueWrite] = []
    for write in writes:
        found = _into_laid_out(write)
        if found is None:
            others.append(write)
        else:
            known.append(found)
    try:
        files.write_durably(known)
    except FileNotFoundError:
        others = list(writes)  # retention took one of them
    for write in others:
        write_entries(files, write, durable=True)


def _into_laid_out(write: QueueWrite) -> Write | None:
    """Return where entries belong if that is one file which is known to have its whole length."""
    queue, at, data = write
    file_size = queue.file_entries * ENTRY_SIZE
    inside = at % file_size
    path = queue.path_of(at // ENTRY_SIZE)
    return (path, inside, data) if path == queue.laid_out and inside + len(data) <= file_size else None


def write_entries(files: Files, write: QueueWrite, *, durable: bool) -> None:
    """Put entries on disk, making files as needed. Safe in any thread, one at a time for a queue; raises OSError."""
    queue, at, data = write
    file_size = queue.file_entries * ENTRY_SIZE
    done = 0
    while done < len(data):
        inside = (at + done) % file_size
        step = min(len(data) - done, file_size - inside)
        file = _laid_out(files, queue, queue.path_of((at + done) // ENTRY_SIZE), file_size)
        try:
            file.write(data[done : done + step], inside)
            if durable:
                file.sync()
        finally:
            file.close()
        done += step


def _laid_out(files: Files, queue: ConsumeQueue, path: str, file_size: int) -> File:
    """Open a file of a queue that has its whole length, and whose name is durable once it is synced."""
    if path == queue.laid_out:
        with suppress(FileNotFoundError):  # retention may have taken it
            return files.open(path)
    fresh = not files.exists(path)
    if fresh:
        files.make_directory(queue.directory)
    file = files.open(path, create=True)
    try:
        if file.size() < file_size:
            file.truncate(file_size)
        if fresh:
            files.sync_directory(queue.directory)
    except BaseException:
        file.close()
        raise
    queue.laid_out = path
    return file


# All queues of a store.


class Queues:
    """Makes, opens and finds consume queues, by topic and queue id."""

    def __init__(self, files: Files, directory: str, file_entries: int) -> None:
        self._files = files
        self._handles = Handles(files)
        self.directory = directory
        self.file_entries = file_entries
        #: by (topic, queue id); read-only for others
        self.known: dict[tuple[str, int], ConsumeQueue] = {}
        #: files are missing in front of others of the same queue, whose records are still there
        self.has_gaps = False
        files.make_directory(directory)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue that has ever held a message, or None."""
        return self.known.get((topic, queue_id))

    def ensure(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, an empty one if it is new."""
        queue = self.known.get((topic, queue_id))
        if queue is None:
            directory = join(self.directory, topic, str(queue_id))
            queue = ConsumeQueue(self._handles, directory, topic, queue_id, self.file_entries)
            self.known[topic, queue_id] = queue
        return queue

    def all(self) -> list[ConsumeQueue]:
        """Return all queues of the store."""
        return list(self.known.values())

    def used(self) -> tuple[int, int]:
        """Return how many queues ever held a message, and the sum of their next offsets: a fingerprint of the whole."""
        ends = [queue.max_offset for queue in self.known.values() if queue.max_offset]
        return len(ends), sum(ends)

    def open_all(self, log: CommitLog, below: int, *, cut: bool) -> None:
        """Find what each queue on disk holds of the log's records below a position.

        ``cut`` zeroes what stands behind that: needed unless the store was closed cleanly right there.
        """
        for topic in self._files.list(self.directory):
            for name in self._files.list(join(self.directory, topic)):
                if name.isdigit():
                    queue = self.ensure(topic, int(name))
                    self._open(queue, log, below, cut)

    def forget(self) -> None:
        """Forget what was opened, to open again below another position."""
        self._handles.close()
        self.known.clear()
        self.has_gaps = False

    def remove(self, topic: str) -> None:
        """Forget and remove the queues of a topic, durably: a topic made again must not find them. Raises OSError."""
        for key in [key for key in self.known if key[0] == topic]:
            queue = self.known.pop(key)
            for name in self._files.list(queue.directory):
                self._handles.forget(join(queue.directory, name))
        self._files.remove_directory(join(self.directory, topic))
        self._files.sync_directory(self.directory)

    def _open(self, queue: ConsumeQueue, log: CommitLog, below: int, cut: bool) -> None:
        size = self.file_entries * ENTRY_SIZE
        starts = [int(name) for name in self._files.list(queue.directory) if name.isdigit()]
        self._check_sizes(queue, starts, size)
        found, starts = starts, _unbroken(starts, size)
        if not starts:
            return
        self.has_gaps |= any(not self._is_over(queue, start, log) for start in found if start < starts[0])
        first = starts[0] // ENTRY_SIZE
        end = first
        for start in reversed(starts):
            base = start // ENTRY_SIZE
            queue.start_at(base, base + self.file_entries)
            count = self._sound_count(queue, log, base, below, cut)
            if count or start == starts[0]:
                end = base + count
                break
        if cut:
            self._cut_after(queue, starts, end)
        queue.start_at(first, end)
        queue.min_offset = queue.search(first, end, log.min_position)

    def _is_over(self, queue: ConsumeQueue, start: int, log: CommitLog) -> bool:
        """Tell whether all of a full file is of records that are gone with their segments."""
        base = start // ENTRY_SIZE
        queue.start_at(base, base + self.file_entries)
        last = queue.entries(base + self.file_entries - 1, 1)
        return bool(last) and last[0].size > 0 and 0 <= last[0].position < log.min_position

    def _check_sizes(self, queue: ConsumeQueue, starts: list[int], size: int) -> None:
        """Raise StoreUnsupported if the files were made with another number of entries."""
        for start in starts:
            path = join(queue.directory, f"{start:020d}")
            file = self._files.open(path)
            found = file.size()
            file.close()
            if start % size or found > size:
                raise StoreUnsupported(
                    f"Queue file {path} ({found:,} bytes) was not made for {self.file_entries:,} entries a file; "
                    "this number cannot be changed on an existing store."
                )

    def _sound_count(self, queue: ConsumeQueue, log: CommitLog, base: int, below: int, cut: bool) -> int:
        """Return how many entries of one file are of records below a position.

        What was made durable together with the checkpoint forms a prefix. Behind it may be anything a power loss
        left, so the border found by halving is checked against the log itself. After a clean stop nothing is left
        there, and an entry without a sound record means that the record is damaged.
        """
        low, high = 0, self.file_entries
        while low < high:
            middle = (low + high) // 2
            entry = queue.entries(base + middle, 1)
            if entry and entry[0].size > 0 and entry[0].position < below:
                low = middle + 1
            else:
                high = middle
        while cut and low and not self._is_real(queue, log, base + low - 1, below):
            low -= 1
        return low

    def _is_real(self, queue: ConsumeQueue, log: CommitLog, offset: int, below: int) -> bool:
        found = queue.entries(offset, 1)
        if not found or found[0].size <= 0 or found[0].position >= below:
            return False
        position = found[0].position
        if position < log.min_position or not log.chain.has(position):
            return position >= 0
        head = log.chain.read(position, QUEUE_OFFSET.stop)
        return len(head) == QUEUE_OFFSET.stop and int.from_bytes(head[QUEUE_OFFSET], "big") == offset

    def _cut_after(self, queue: ConsumeQueue, starts: list[int], end: int) -> None:
        """Zero what stands behind the last entry, so that no later reader takes it for one."""
        size = self.file_entries * ENTRY_SIZE
        for start in starts:
            path = join(queue.directory, f"{start:020d}")
            keep = min(max(end * ENTRY_SIZE - start, 0), size)
            self._handles.forget(path)
            if start > starts[0] and keep == 0:
                self._files.remove(path)
            elif keep < size:
                file = self._files.open(path)
                file.truncate(keep)
                file.truncate(size)
                file.close()

    def close(self) -> None:
        """Close open files; closing twice is fine."""
        self._handles.close()


def _unbroken(starts: list[int], size: int) -> list[int]:
    """Return the last run of files that follow one another without a gap."""
    run: list[int] = []
    for start in sorted(starts):
        if run and start != run[-1] + size:
            run = []
        run.append(start)
    return run
