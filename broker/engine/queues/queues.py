"""All consume queues of a store, by topic and queue id."""

from __future__ import annotations

from ..disk.files import Files, join
from ..disk.handles import Handles
from ..errors import StoreUnsupported
from ..log.commit_log import CommitLog
from .consume_queue import ENTRY_SIZE, ConsumeQueue


class Queues:
    """Makes, opens and finds consume queues."""

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
        """Return every queue."""
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
        head = log.chain.read(position, 28)
        return len(head) == 28 and int.from_bytes(head[20:28], "big") == offset

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
