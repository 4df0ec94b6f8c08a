"""Putting damaged queue entries right while the store is open: the log knows what they must say.

A queue entry has no checksum. One that leads to no sound record of its own queue and offset is looked for in the log
between its sound neighbours and written anew. Entries whose record is itself damaged stay as they are.
"""

from __future__ import annotations

from ...rocketmq.layout import POSITION, QUEUE_OFFSET
from ...rocketmq.message import Message, decode
from ..disk import Files
from ..errors import CorruptRecord, RecordNotFound
from ..log.commit_log import MAX_RECORD_SIZE
from ..store import Store
from .queues import (
    ENTRY,
    ENTRY_SIZE,
    ConsumeQueue,
    QueueEntry,
    QueueWrite,
    write_entries,
)

#: Entries remembered as beyond help, so that not every pull looks for them again.
_HOPELESS_LIMIT = 10_000
#: Entries behind those that are beyond help that are asked where the records begin.
_LOOKED_BEHIND = 64


class QueueRepair:
    """Finds out whether entries are right, and mends those that are not."""

    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self._files = files
        self._hopeless: set[tuple[str, int, int]] = set()

    def mend(self, queue: ConsumeQueue, begin: int, end: int) -> bool:
        """Put entries of ``begin``..``end`` right; True if one was wrong and is right now."""
        changed = False
        offset = begin
        while offset < min(end, queue.max_offset):
            if (queue.topic, queue.queue_id, offset) in self._hopeless or self.is_right(queue, offset):
                offset += 1
                continue
            stop = offset + 1
            while stop < queue.max_offset and not self.is_right(queue, stop):
                stop += 1
            try:
                changed |= self._write_anew(queue, offset, stop)
            except OSError:
                return changed
            offset = stop
        return changed

    def is_right(self, queue: ConsumeQueue, offset: int) -> bool:
        """Tell whether an entry leads to the sound record of its queue and offset."""
        return self._read(queue, offset) is not None

    def _read(self, queue: ConsumeQueue, offset: int) -> Message | None:
        found = queue.entries(offset, 1)
        if not found or not 0 < found[0].size <= MAX_RECORD_SIZE:
            return None
        try:
            message = decode(self._store.log.record_at(found[0].position, found[0].size), verify=False)
        except (RecordNotFound, CorruptRecord):
            return None
        return message if _stands_at(message, queue) and message.queue_offset == offset else None

    def message_of(self, topic: str, queue_id: int, offset: int) -> Message:
        """Return the message at a place, its entry put right if need be. Raises RecordNotFound, CorruptRecord."""
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            raise RecordNotFound(-1)
        message = self._read(queue, offset)
        if message is None and self.mend(queue, offset, offset + 1):
            message = self._read(queue, offset)
        if message is None:
            entry = next(iter(queue.entries(offset, 1)), QueueEntry(-1, 0, 0))
            if self.may_be_meant(entry):
                self._store.note_damage(entry.position, entry.position + entry.size)
            raise CorruptRecord(entry.position, "it cannot be read")
        return message

    def oldest_position(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return where in the log the records begin that a queue holds from an offset on, None if it holds none.

        Entries that are wrong are put right: by one that led further retention would take what is still wanted. Where
        nothing helps, the records of those behind them count.
        """
        first = max(offset, queue.min_offset)
        if first >= queue.max_offset:
            return None
        for at in range(first, min(first + _LOOKED_BEHIND, queue.max_offset)):
            if (position := self.position_of(queue, at)) is not None:
                return position
        return self._store.log.min_position

    def position_of(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Return where the record of an entry begins, which is put right if need be; None if nothing helps."""
        if not self._leads_to_its_own(queue, offset):
            self.mend(queue, offset, offset + 1)
            # that others behind it were put right says nothing of this one
            if not self._leads_to_its_own(queue, offset):
                return None
        return queue.entries(offset, 1)[0].position

    def _leads_to_its_own(self, queue: ConsumeQueue, offset: int) -> bool:
        """Tell whether where an entry leads a record begins that says so of itself, sound or not."""
        log = self._store.log
        found = queue.entries(offset, 1)
        if not found or found[0].position >= self._store.visible_position or not log.chain.has(found[0].position):
            return False
        head = log.chain.read(found[0].position, POSITION.stop)
        told = [int.from_bytes(head[part], "big") for part in (QUEUE_OFFSET, POSITION)]
        return told == [offset, found[0].position]

    def may_be_meant(self, entry: QueueEntry) -> bool:
        """Tell whether an entry that leads to no sound record may well be right, the record damaged."""
        log = self._store.log
        return 0 < entry.size <= MAX_RECORD_SIZE and log.min_position <= entry.position < self._store.visible_position

    def _write_anew(self, queue: ConsumeQueue, begin: int, stop: int) -> bool:
        found = self._search(queue, begin, stop)
        for offset in range(begin, stop):
            entry = found.get(offset)
            if entry is not None:
                queue.forget_handle(offset)
                write_entries(self._files, QueueWrite(queue, offset * ENTRY_SIZE, ENTRY.pack(*entry)), durable=False)
            elif len(self._hopeless) < _HOPELESS_LIMIT:
                self._hopeless.add((queue.topic, queue.queue_id, offset))
        return bool(found)

    def _search(self, queue: ConsumeQueue, begin: int, stop: int) -> dict[int, QueueEntry]:
        """Return what the log holds of offsets ``begin``..``stop``, from between the sound entries around them."""
        store, log = self._store, self._store.log
        before = begin - 1
        while before >= queue.min_offset and not self.is_right(queue, before):
            before -= 1
        position = queue.entries(before, 1)[0].position if before >= queue.min_offset else log.min_position
        # records of a topic of this name that was deleted since stood at the same offsets
        position = max(position, store.topics.void_below(queue.topic))
        end = queue.entries(stop, 1)[0].position if stop < queue.max_offset else store.visible_position
        found: dict[int, QueueEntry] = {}
        while True:
            for reached, record in log.walk(position, end):
                position = reached
                message = _decoded(record)
                if message is not None and _stands_at(message, queue) and begin <= message.queue_offset < stop:
                    entry = QueueEntry(message.position, message.size, store.tags_code_of(message))
                    found[message.queue_offset] = entry
            following = log.next_sound(position, end)
            if following is None:
                return found
            position = following


def _stands_at(message: Message, queue: ConsumeQueue) -> bool:
    return message.topic == queue.topic and message.queue_id == queue.queue_id


def _decoded(record: bytes | None) -> Message | None:
    try:
        return decode(record, verify=False) if record is not None else None
    except CorruptRecord:
        return None
