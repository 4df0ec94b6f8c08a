"""Reading a store the way consumers and operators do: by queue, by time, by key.

A pull may want everything, the tags codes that stand in the queue's entries, or what a filter expression matches. For a
filter expression records are read a few at a time and matched one by one (``sift``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ...rocketmq.layout import QUEUE_OFFSET, TO_STORE_TIME, store_ms_of
from ...rocketmq.message import all_stand_here, stands_here
from ...rocketmq.sql92 import Filter
from ..errors import RecordNotFound, TopicNotFound
from ..log.commit_log import MAX_RECORD_SIZE
from ..store import Store
from .queues import FILLER_SIZE, ConsumeQueue, QueueEntry
from .repair import QueueRepair

__all__ = ["PullStatus", "Pulled", "Reader"]

#: What is wanted of a queue: hash codes of tags (as they stand in its entries), a filter, or everything (None).
Selection = frozenset[int] | Filter | None


class PullStatus(Enum):
    """The finding of a pull at its offset."""

    FOUND = "found"
    NO_MESSAGE = "no message"
    NO_MATCH = "no match"
    OFFSET_TOO_SMALL = "offset too small"
    OFFSET_OVERFLOW = "offset overflow"
    EMPTY_QUEUE = "empty queue"


class Pulled(NamedTuple):
    """Whole records in queue order, and where to go on."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]


#: Entries looked at in one pull, however few of them match the filter.
_SCAN_ENTRIES = 4096
#: A run of records is read at once up to this size.
_RUN_BYTES = 512 << 10
#: Records of other queues in between are read, too, rather than stepped over by one more system call.
_GAP_BYTES = 8 << 10


class Reader:
    """Answers questions about queues; changes nothing but the list of damage found."""

    def __init__(self, store: Store, repair: QueueRepair) -> None:
        self._store = store
        self._repair = repair

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) offset; (0, 0) for a queue that never held a message. Raises TopicNotFound."""
        queue = self._queue(topic, queue_id)
        return (queue.min_offset, queue.max_offset) if queue else (0, 0)

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Return entries as they stand in the queue. Raises TopicNotFound."""
        queue = self._queue(topic, queue_id)
        return queue.entries(offset, count) if queue else []

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: Selection = None,
    ) -> Pulled:
        """Return the records from ``offset`` on whose tags code is wanted, or which a filter wants (None: all); at
        least one if there is one among those that are looked at.

        Damaged entries are put right, damaged records stepped over and reported in the store's health. Raises
        TopicNotFound.
        """
        if isinstance(tags_codes, Filter):
            return sift(lambda *asked: self.pull(topic, queue_id, *asked), offset, max_count, max_bytes, tags_codes)
        queue = self._queue(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return Pulled(PullStatus.EMPTY_QUEUE, 0, 0, 0, [])
        low, high = queue.min_offset, queue.max_offset
        if offset < low:
            return Pulled(PullStatus.OFFSET_TOO_SMALL, low, low, high, [])
        if offset >= high:
            status = PullStatus.NO_MESSAGE if offset == high else PullStatus.OFFSET_OVERFLOW
            return Pulled(status, high, low, high, [])
        if tags_codes is None and offset + 1 == high and (record := self._last(queue, max_bytes)):
            return Pulled(PullStatus.FOUND, high, low, high, [record])
        if tags_codes is None and (run := self._run(queue, offset, max_count, max_bytes)):
            return Pulled(PullStatus.FOUND, offset + len(run), low, high, run)
        first = offset
        entries = queue.entries(offset, max_count if tags_codes is None else _SCAN_ENTRIES)
        size = 0
        wanted: list[QueueEntry] = []
        offsets: list[int] = []
        for entry in entries:
            if entry.size != FILLER_SIZE and (tags_codes is None or entry.tags_code in tags_codes):
                if len(wanted) >= max_count or (wanted and size + entry.size > max_bytes):
                    break
                wanted.append(entry)
                offsets.append(offset)
                size += entry.size
            offset += 1
        if not entries:
            offset += 1
        records, bad = self._records_of(wanted, offsets, queue_id)
        if bad or not entries:
            if self._repair.mend(queue, first, offset):
                return self.pull(topic, queue_id, first, max_count, max_bytes, tags_codes)
            for entry in bad:
                if self._repair.may_be_meant(entry):
                    self._store.note_damage(entry.position, entry.position + entry.size)
        status = PullStatus.FOUND if records else PullStatus.NO_MATCH
        return Pulled(status, offset, low, high, records)

    def _last(self, queue: ConsumeQueue, max_bytes: int) -> bytes:
        """Return a record that came just now, all that one who waited for it asks for; nothing unless it is sound and
        not too much."""
        entry = queue.last()
        if entry is None or not 0 < entry.size <= max_bytes:
            return b""
        record = self._read(entry.position, entry.position + entry.size)
        return record if stands_here(record, entry.position, queue.queue_id, queue.max_offset - 1) else b""

    def _run(self, queue: ConsumeQueue, offset: int, count: int, max_bytes: int) -> list[bytes]:
        """Return all that is asked for in the usual case: it lies near each other, is sound and not too much; nothing
        in any other."""
        columns = queue.columns(offset, count)
        if columns is None:
            return []
        positions, sizes = columns
        size_bytes = sum(sizes)
        if not 0 < size_bytes <= max_bytes:
            return []
        start, end = positions[0], positions[-1] + sizes[-1]
        chain = self._store.log.chain
        most_bytes = min(_RUN_BYTES, size_bytes + len(sizes) * _GAP_BYTES)
        if not start < end <= min(start + most_bytes, chain.segment_start(start) + chain.segment_size):
            return []
        data = self._read(start, end)
        records = [data[at - start : at - start + size] for at, size in zip(positions, sizes, strict=True)]
        return records if all_stand_here(records, positions, sizes, queue.queue_id, offset) else []

    def _records_of(
        self, entries: list[QueueEntry], offsets: list[int], queue_id: int
    ) -> tuple[list[bytes], list[QueueEntry]]:
        """Return the sound records of these entries, read together where they lie near, and the entries without one."""
        records: list[bytes] = []
        bad: list[QueueEntry] = []
        at = 0
        while at < len(entries):
            stop = self._run_end(entries, at)
            start = entries[at].position
            data = self._read(start, entries[stop - 1].position + entries[stop - 1].size)
            for number in range(at, stop):
                position, size, _ = entries[number]
                record = data[position - start : position - start + size]
                if stands_here(record, position, queue_id, offsets[number]):
                    records.append(record)
                else:
                    bad.append(entries[number])
            at = stop
        return records, bad

    def _run_end(self, entries: list[QueueEntry], at: int) -> int:
        """Return where the run that begins with entry ``at`` ends: entries near each other, in one segment."""
        start, size, _ = entries[at]
        end = start + size
        # an entry that stands for a lost end of a segment leads up to the next one: a run stays in one segment
        limit = min(start + _RUN_BYTES, self._store.log.chain.segment_start(start) + self._store.log.chain.segment_size)
        for number in range(at + 1, len(entries)):
            position, size, _ = entries[number]
            if not end <= position <= end + _GAP_BYTES or position >= limit:
                return number
            end = position + size
        return len(entries)

    def _read(self, start: int, end: int) -> bytes:
        """Return what stands in the log between two positions; nothing where that is no place."""
        size = min(end - start, _RUN_BYTES + MAX_RECORD_SIZE)
        try:
            return self._store.log.chain.read(start, size) if size > 0 else b""
        except RecordNotFound:
            return b""

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at or after a moment, else the end. Raises TopicNotFound."""
        queue = self._queue(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            stored = self._stored_ms(queue, middle)
            if stored is not None and stored < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return when a message was stored, None if it is gone. Raises TopicNotFound."""
        queue = self._queue(topic, queue_id)
        return self._stored_ms(queue, offset) if queue else None

    def _stored_ms(self, queue: ConsumeQueue, offset: int) -> int | None:
        position = self._repair.position_of(queue, offset)
        if position is None:
            return None
        head = self._store.log.chain.read(position, TO_STORE_TIME)
        return store_ms_of(head) if len(head) == TO_STORE_TIME else None

    def find(self, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int) -> list[int]:
        """Return positions of messages with a key or unique id stored between two moments, newest first."""
        store = self._store
        found = []
        for position in store.index.find(topic, key, max_count * 4, begin_ms, end_ms):
            if store.log.min_position <= position < store.visible_position and position not in found:
                found.append(position)
        return found[:max_count]

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queue = self._store.queues.get(topic, queue_id)
        if queue is None and self._store.topics.get(topic) is None:
            raise TopicNotFound(topic)
        return queue


# Pulling what a filter expression wants.

#: Records looked at in one pull, however few of them match: reading them holds up everybody else.
_MOST_LOOKED_AT = 512
_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20
_MOST_BYTES_LOOKED_AT = 4 << 20


def sift(
    pull: Callable[[int, int, int], Pulled], offset: int, max_count: int, max_bytes: int, wanted: Filter
) -> Pulled:
    """Return the records from ``offset`` on that are wanted, and where to go on.

    ``pull`` takes (offset, count, bytes) and gives what is there.
    """
    found: list[bytes] = []
    size = looked_at = bytes_looked_at = 0
    while True:
        pulled = pull(offset, _AT_ONCE, _BYTES_AT_ONCE)
        if pulled.status not in (PullStatus.FOUND, PullStatus.NO_MATCH):
            return pulled if not looked_at else _result(pulled, offset, found)
        for record in pulled.records:
            if not wanted.matches_record(record):
                continue
            at = int.from_bytes(record[QUEUE_OFFSET], "big")
            if found and size + len(record) > max_bytes:
                return _result(pulled, at, found)
            found.append(record)
            size += len(record)
            if len(found) >= max_count:
                return _result(pulled, at + 1, found)
        looked_at += max(pulled.next_offset - offset, 1)
        bytes_looked_at += sum(map(len, pulled.records))
        offset = pulled.next_offset
        if offset >= pulled.max_offset or looked_at >= _MOST_LOOKED_AT or bytes_looked_at >= _MOST_BYTES_LOOKED_AT:
            return _result(pulled, offset, found)


def _result(pulled: Pulled, next_offset: int, found: list[bytes]) -> Pulled:
    status = PullStatus.FOUND if found else PullStatus.NO_MATCH
    return Pulled(status, next_offset, pulled.min_offset, pulled.max_offset, found)
