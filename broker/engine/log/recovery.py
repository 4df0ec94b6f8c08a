"""Recovery: bring a store that was just opened to the state the log says.

    1  choose where to start: the checkpoint's position, else the beginning of the log
    2  open queues and index up to there; if they do not match the checkpoint, start at the beginning after all
    3  walk the log from there to its end: fill queues and index, tell the services; step over bytes that are no record
       if sound records follow, otherwise the log ends there
    4  write the walked part again and sync it (a page that failed to reach the disk may look fine in the cache),
       make everything behind the end read as zero

After a crash the last unsynced writes may be there, torn or gone, in any order. Nothing that was acknowledged can be
among the bytes lost, and nothing readable is dropped: it is not known which sends were acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...rocketmq.layout import FLAG_TRANSACTION_COMMIT, FLAG_TRANSACTION_MASK, MAGIC_BLANK, POSITION, PREFIX
from ...rocketmq.message import Message, decode
from ...rocketmq.properties import KEYS, POPPED, SOURCE
from ...rocketmq.topics import POP_TOPIC, SYSTEM_PREFIX, SYSTEM_TOPICS
from ..disk import join
from ..errors import BrokerError, CorruptRecord, RecordNotFound, StoreUnsupported
from ..message_header import Facts, extra_key_of
from ..queues.queues import FILLER_SIZE, ConsumeQueue
from ..store import Store
from ..tables.topics import Topic
from .checkpoint import NO_INDEX, Checkpoint, DamagedRange, Derived

#: How far behind bytes that are no record a later record is looked for: more than is ever written between two syncs.
LOOK_AHEAD_BYTES = 64 << 20
#: Walked bytes written again at a time.
_REWRITE_BYTES = 1 << 20


class Recovery:
    """A recovery run over a store; the services hear of what it finds."""

    def __init__(self, store: Store, services: Sequence[Derived]) -> None:
        self._store = store
        self._services = services
        self._by_topic = {topic: service for service in services for topic in service.topics}
        self._missing_topics: dict[str, Topic] = {}
        self._lost: DamagedRange | None = None
        self.records_walked = 0
        self.start_position = 0

    def run(self, checkpoint: Checkpoint | None, *, was_clean: bool, topics_known: bool) -> None:
        """Bring log, queues, index and services to one state. Raises StoreUnsupported, OSError."""
        store = self._store
        log = store.log
        log.end_position = log.chain.end_position
        if checkpoint is not None and checkpoint.position > log.chain.end_position:
            raise StoreUnsupported(
                f"The log ends at {log.chain.end_position:,}, it was at {checkpoint.position:,}: a segment is missing. "
                "Restore it from a copy, or remove escapement.checkpoint to continue without what it held."
            )
        if topics_known:
            self._sweep_deleted_topics()
        else:
            self._adopt_topics_of_queues()
        start = self._open_derived(checkpoint, was_clean)
        self.start_position = start
        kept = checkpoint.states if checkpoint is not None else {}
        for service in self._services:
            service.resume(kept.get(service.name), whole=checkpoint is None or start != checkpoint.position)
        if checkpoint is not None:
            store.damaged = [DamagedRange(a, b) for a, b in checkpoint.damaged if b > log.min_position]
        stopped_here = was_clean and checkpoint is not None and start == checkpoint.position
        end = start if stopped_here and self._ends_at(start) else self._walk(start, topics_known)
        if checkpoint is not None and end < checkpoint.position:
            # durable once, so this is damage and not an unfinished end
            store.note_damage(end, checkpoint.position)
            end = checkpoint.position
        if not was_clean:
            self._rewrite(start, end)
        self._zero_behind(end, was_clean=was_clean)
        log.end_position = log.durable_position = end
        store.visible_position = end
        store.visible_index_mark = store.index.mark()
        if self._missing_topics:
            store.topics.restore(list(self._missing_topics.values()))
        adopt_topic_names(store)
        store.offsets.fit(self._end_of)

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    # 1 and 2

    def _adopt_topics_of_queues(self) -> None:
        """Remember topics that the table has lost but that have queues on disk."""
        for topic in self._store.files.list(self._store.queues.directory):
            self._adopt(topic)

    def _adopt(self, topic: str) -> None:
        store = self._store
        numbers = [int(name) for name in store.files.list(join(store.queues.directory, topic)) if name.isdigit()]
        if store.topics.get(topic) is None and numbers:
            count = max(*numbers, SYSTEM_TOPICS.get(topic, store.config.default_topic_queues) - 1) + 1
            self._missing_topics[topic] = Topic(topic, count, count)

    def _sweep_deleted_topics(self) -> None:
        """Remove queues whose topic was deleted shortly before a crash: made again, the topic would find them.

        Of a topic that the table neither has nor deleted the queues stay, and it comes back with them: that table is
        an older one, or another store's, and what it does not name is no waste for that.
        """
        store = self._store
        for topic in store.files.list(store.queues.directory):
            if store.topics.get(topic) is not None or _is_system(topic):
                continue
            if store.topics.void_below(topic):
                store.queues.remove(topic)
            else:
                self._adopt(topic)

    def _open_derived(self, checkpoint: Checkpoint | None, was_clean: bool) -> int:
        store = self._store
        log = store.log
        usable = (
            checkpoint is not None
            and log.min_position <= checkpoint.position <= log.chain.end_position
            and checkpoint.segment_size == log.chain.segment_size
            and checkpoint.queue_file_entries == store.queues.file_entries
        )
        if usable and checkpoint is not None:
            store.queues.open_all(log, checkpoint.position, cut=not was_clean)
            is_whole = not store.queues.has_gaps
            if is_whole and store.queues.used() == (checkpoint.queue_count, checkpoint.queue_total):
                if store.index.open((checkpoint.index_name, checkpoint.index_number), clean=was_clean):
                    return checkpoint.position
                self._begin_index_anew(checkpoint)
                return log.min_position
            store.queues.forget()
        store.queues.open_all(log, log.min_position, cut=True)
        store.index.open(None)
        if checkpoint is not None:
            self._begin_index_anew(checkpoint)
        return log.min_position

    def _begin_index_anew(self, checkpoint: Checkpoint) -> None:
        """Have the checkpoint vouch for no index until the next one: files that are made anew have the same names, and
        half of one, left by a power loss, would be taken for the whole."""
        if checkpoint.index_name != NO_INDEX:
            self._store.checkpoints.save(replace(checkpoint, index_name=NO_INDEX, index_number=1, clean=False))

    # 3

    def _walk(self, position: int, topics_known: bool) -> int:
        log = self._store.log
        limit = log.chain.end_position
        while True:
            start = position
            for at, record in log.walk(start, limit):
                position = at
                if record is not None:
                    self._dispatch(record, topics_known)
            following = log.next_sound(position, min(limit, position + LOOK_AHEAD_BYTES))
            if following is None:
                return position
            if not self._close_segment(position, following):
                self._lost = DamagedRange(position, following)
                self._store.note_damage(position, following)
            position = following

    def _close_segment(self, position: int, following: int) -> bool:
        """Write a BLANK that got lost: nothing but zeros up to the segment where the next record starts."""
        chain = self._store.log.chain
        if following != chain.segment_start(following) or following - position > chain.segment_size:
            return False
        if not chain.has(position) or chain.segment_start(position) + chain.segment_size != following:
            return False
        left = following - position
        if left < 8 or chain.read(position, left).strip(b"\0"):
            return False
        from_file, at = chain.file_at(position)
        from_file.write(PREFIX.pack(left, MAGIC_BLANK), at)
        from_file.sync()
        return True

    def _dispatch(self, record: bytes, topics_known: bool) -> None:
        store = self._store
        try:
            message = decode(record, verify=False)
        except CorruptRecord:
            position = int.from_bytes(record[POSITION], "big")
            self._lost = DamagedRange(position, position + len(record))
            store.note_damage(position, position + len(record))
            return
        self.records_walked += 1
        # also where the topic was deleted since: what went out does not go out again
        source = message.properties.get(SOURCE, "")
        if source.isdigit():
            self._tell_source(int(source))
        elif message.sys_flag & FLAG_TRANSACTION_MASK == FLAG_TRANSACTION_COMMIT:
            self._tell_source(message.prepared_position)  # Apache RocketMQ names the half message so
        if POPPED in message.properties:
            self._by_topic[POP_TOPIC].walked(message)
        if not self._topic_is_known(message, topics_known):
            return
        queue = store.queues.ensure(message.topic, message.queue_id)
        properties = message.properties
        if not self._put_entry(queue, message):
            return
        queue.last_ms = message.store_ms
        store.visible_ms = message.store_ms
        facts = Facts(b"", message.unique_key, message.tags, properties.get(KEYS))
        store.add_to_index(message.topic, facts, message.position, message.store_ms)
        if extra_key := extra_key_of(message.topic, properties):
            store.index.add(f"{message.topic}#{extra_key}", message.position, message.store_ms)
        if (service := self._by_topic.get(message.topic)) is not None:
            service.walked(message)

    def _tell_source(self, position: int) -> None:
        """Tell a service that one of its parked records went out."""
        try:
            parked = decode(self._store.log.record_at(position))
        except (RecordNotFound, CorruptRecord):
            return
        if (service := self._by_topic.get(parked.topic)) is not None:
            service.heard(parked)

    def _put_entry(self, queue: ConsumeQueue, message: Message) -> bool:
        """Place the entry where the record says; False if an older life of the topic had it."""
        offset, end = message.queue_offset, queue.end_offset
        if offset < 0:
            return False
        if offset < end:
            known = queue.entries(offset, 1)
            if known and known[0].position == message.position:
                return True
            queue.start_at(offset, offset)
        elif offset > end and end == queue.min_offset:
            queue.start_at(offset, offset)
        while queue.end_offset < offset:
            # what was lost before a segment's restored end left no trace in the log: RocketMQ's filler stands for it
            start, size = message.position, FILLER_SIZE
            if self._lost is not None:
                start, size = self._lost.start, max(1, min(self._lost.end - self._lost.start, FILLER_SIZE))
            queue.append(start, size, 0)
        queue.append(message.position, message.size, self._store.tags_code_of(message))
        queue.max_offset = queue.end_offset
        return True

    def _topic_is_known(self, message: Message, topics_known: bool) -> bool:
        """Remember topics that the table has lost; records of a deleted topic stay out of the queues."""
        name, queues = message.topic, message.queue_id + 1
        if self._store.topics.get(name) is not None:
            return message.position >= self._store.topics.void_below(name)
        system = _is_system(name)
        known = self._missing_topics.get(name)
        if topics_known and not system and known is None:
            return False
        if known is None or known.read_queues < queues:
            count = max(queues, SYSTEM_TOPICS.get(name, 1 if system else self._store.config.default_topic_queues))
            self._missing_topics[name] = Topic(name, count, count)
        return True

    # 4

    def _rewrite(self, start: int, end: int) -> None:
        chain = self._store.log.chain
        position = start
        while position < end:
            file, at = chain.file_at(position)
            left = chain.segment_start(position) + chain.segment_size - position
            data = chain.read(position, min(_REWRITE_BYTES, left, end - position))
            file.write(data, at)
            position += len(data)
            if position == end or position == chain.segment_start(position):
                file.sync()

    def _ends_at(self, position: int) -> bool:
        """Tell whether only zeros follow a place within its segment, as far as one look shows."""
        chain = self._store.log.chain
        if not chain.has(position):
            return False
        left = chain.segment_start(position) + chain.segment_size - position
        return not chain.read(position, min(left, 4096)).strip(b"\0")

    def _zero_behind(self, end: int, *, was_clean: bool) -> None:
        chain = self._store.log.chain
        if not chain.has(end):
            return
        if was_clean and self._ends_at(end):
            return
        later = [start for start in chain.segments() if start > end]
        position, dirty = end, False
        stop = min(chain.end_position, end + LOOK_AHEAD_BYTES)
        while position < stop and not dirty:
            chunk = chain.read(position, _REWRITE_BYTES)
            dirty = chunk.count(0) != len(chunk)
            position += len(chunk)
        if dirty or any(chain.read(start, 4096).strip(b"\0") for start in later):
            chain.clear_from(end)


def _is_system(topic: str) -> bool:
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def adopt_topic_names(store: Store) -> None:
    """Make the broker's own topics where they are missing."""
    missing = [Topic(name, queues, queues) for name, queues in SYSTEM_TOPICS.items() if store.topics.get(name) is None]
    if missing:
        try:
            store.topics.restore(missing)
        except OSError as error:
            raise BrokerError(f"The table of topics cannot be written: {error.strerror or error}.") from error
