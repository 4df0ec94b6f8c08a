"""What an engine tells of queues, records and keys: changes nothing."""

from __future__ import annotations

from .queues.queues import QueueEntry
from .queues.reader import Pulled, Reader, Selection
from .store import Store


class Readable:
    """The reading half of an engine."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) offset of a queue. Raises TopicNotFound."""
        return self._reader.bounds(topic, queue_id)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue will have. Raises TopicNotFound."""
        return self._reader.bounds(topic, queue_id)[1]

    def queue_growth(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the end of a queue, as ``queue_end``, and the bytes of all records that it took since it was opened
        (of some that are not to be seen yet, too). Raises TopicNotFound."""
        queue = self._store.queues.get(topic, queue_id)
        return self._reader.bounds(topic, queue_id)[1], queue.taken_bytes if queue is not None else 0

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: Selection = None,
    ) -> Pulled:
        """Return records from an offset on. Raises TopicNotFound."""
        return self._reader.pull(topic, queue_id, offset, max_count, max_bytes, tags_codes)

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Return queue entries; their tags code is the due time in SCHEDULE_TOPIC_XXXX. Raises TopicNotFound."""
        return self._reader.entries(topic, queue_id, offset, count)

    def record_at(self, position: int) -> bytes:
        """Return a whole verified record. Raises RecordNotFound, CorruptRecord."""
        return self._store.record_at(position)

    def look_at(self, position: int) -> bytes:
        """As ``record_at``, for a position that a client has made up: no record there is no damage."""
        return self._store.look_at(position)

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a moment. Raises TopicNotFound."""
        return self._reader.offset_at_time(topic, queue_id, timestamp_ms)

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return when a message was stored, None if it is gone. Raises TopicNotFound."""
        return self._reader.store_ms(topic, queue_id, offset)

    def find(self, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int, now_ms: int) -> list[int]:
        """Return positions of messages with a key or unique id, newest first.

        Messages stored before the clock was set back lie in the future, so ``now_ms`` sets no limit.
        """
        return self._reader.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)
