"""Giving out again what was not acknowledged in time: a copy for another try, or for the dead letters.

The copy goes to the retry topic of group and topic, with one more try counted, and is popped from there; after the last
try that the group allows it goes to ``%DLQ%group``. What was given back to the group (returning.py) was counted before.
The copy names the message it stands for and the handle whose time was
over (``ESC_POPPED``: group@topic@queue id@offset@start@pop_ms), so that after a crash nothing is copied twice.
"""

from __future__ import annotations

from ...rocketmq.layout import CRC_SIZE, FLAG_TRANSACTION_MASK
from ...rocketmq.message import Message, pack_host
from ...rocketmq.properties import (
    DELAY,
    FIRST_POP_TIME,
    KEYS,
    ORIGIN_GROUP,
    ORIGIN_MESSAGE_ID,
    POPPED,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RESERVED,
    RETRY_TOPIC,
    TAGS,
    WAIT,
    format_properties,
)
from ..admission import STORED_LIMIT_BYTES
from ..derived import Derived
from ..errors import CorruptRecord, InvalidTopicName, RecordNotFound, StoreRefused
from ..message_header import Facts
from ..tables.groups import Group
from ..tables.topics import DLQ_PREFIX, RETRY_PREFIX
from .checkpoint import FOR_EVER_MS, CheckPoint, lowest_bit
from .popqueue import Key, PopQueue
from .state import Book, origin_topic, retry_topic
from .writer import Pen

#: Copies made in one tick, so that a herd does not keep the broker from answering.
COPIES_PER_TICK = 500
#: Retry after the store, or the table of topics, took nothing.
_REFUSED_PAUSE_MS = 100
_NOT_COPIED = RESERVED | {REAL_TOPIC, REAL_QUEUE_ID}
#: Handles remembered as over because their message was given out again.
_GONE_LIMIT = 50_000


class Reviver:
    """Makes the copies."""

    def __init__(self, book: Book, pen: Pen, service: Derived) -> None:
        self._book = book
        self._pen = pen
        self._service = service
        self._refused_until_ms = 0
        #: (queue, offset) of messages given out again lately: an acknowledgement of these comes too late
        self.gone: dict[tuple[Key, int], None] = {}
        self.revived_total = 0
        self.dead_total = 0

    def tick(self, now_ms: int) -> int | None:
        """Copy what is due; return when the next one is, None if nothing is out."""
        if now_ms < self._refused_until_ms <= now_ms + _REFUSED_PAUSE_MS:
            return self._refused_until_ms
        room = COPIES_PER_TICK
        while (first := self._book.next_due()) is not None:
            queue, point = first
            if point.due_ms > now_ms or not room:
                return max(point.due_ms, now_ms)
            try:
                # what is in the log of a pop must stand there before its copies
                self._pen.write(now_ms)
                room -= self._copy_some(queue, point, room, now_ms)
            except (StoreRefused, OSError):
                self._refused_until_ms = now_ms + _REFUSED_PAUSE_MS
                return self._refused_until_ms
        return None

    def _copy_some(self, queue: PopQueue, point: CheckPoint, room: int, now_ms: int) -> int:
        done = 0
        while point.held and done < room:
            self._copy(queue, point, point.start + lowest_bit(point.held), now_ms)
            done += 1
        self._book.touch(queue)
        return done

    def _copy(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> None:
        group, topic, queue_id = queue.key
        try:
            message = self._book.mender.message_of(topic, queue_id, offset)
        except (RecordNotFound, CorruptRecord):
            # nothing is left to give out; damage was noted
            self._over(queue, point, offset)
            return
        source = f"{group}@{topic}@{queue_id}@{offset}@{point.start}@{point.pop_ms}"
        try:
            names_source = self._append(message, queue.key, source, point.pop_ms, now_ms)
        except InvalidTopicName:
            self._keep(queue, point, offset, now_ms)
            return
        self.gone[queue.key, offset] = None
        if len(self.gone) > _GONE_LIMIT:
            del self.gone[next(iter(self.gone))]
        if names_source:
            queue.revive(point, offset)
            self._book.store.note(self._service, ("revived", queue, point, offset))
        else:
            self._over(queue, point, offset)

    def _keep(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> None:
        """Leave a message of which no topic can hold a copy where it is: whoever pulls the queue gets it there."""
        pop_ms = max(now_ms, point.pop_ms + 1, self._book.pop_floor_ms)
        changed = queue.change(point, offset, pop_ms, now_ms + FOR_EVER_MS)
        assert changed is not None, "the point holds it"
        self._pen.changed(queue, point, changed)
        self._book.plan(queue, changed)

    def _over(self, queue: PopQueue, point: CheckPoint, offset: int) -> None:
        """End the message without a record that names it: the ledger says so."""
        bit = 1 << (offset - point.start)
        self._pen.acked(queue, point, bit)
        queue.ack(point, bit)

    def _append(self, message: Message, key: Key, source: str, pop_ms: int, now_ms: int) -> bool:
        """Append the copy; tell whether it names its source. Raises StoreRefused, OSError, InvalidTopicName."""
        store, (group, topic, _) = self._book.store, key
        most = (store.groups.get(group) or Group(group)).retry_max_times
        kept = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
        is_given_back = topic == RETRY_PREFIX + group
        if is_given_back:
            origin = origin_topic(group, kept.pop(RETRY_TOPIC, ""))
        else:
            origin = origin_topic(group, topic)
            kept.setdefault(FIRST_POP_TIME, str(pop_ms))
        kept.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        kept |= {ORIGIN_GROUP: group, WAIT: "false"}
        is_dead = not is_given_back and message.reconsume_times >= max(most, 0)
        target = DLQ_PREFIX + group if is_dead else retry_topic(group, origin)
        if is_dead:
            kept |= {
                DELAY: "0", RETRY_TOPIC: origin, "DLQ_ORIGIN_TOPIC": origin,
                "DLQ_ORIGIN_MESSAGE_ID": kept[ORIGIN_MESSAGE_ID],
            }  # fmt: skip
        if store.topics.get(target) is None:
            store.topics.ensure(target, 1, is_due=True)
            if not is_dead:
                # the group is behind there from now on, though nobody has popped it yet
                queue = self._book.queue_at((group, target, 0), 0)
                self._pen.placed(queue, queue.next_offset)
                self._book.touch(queue)
        stored, names_source = _stored(message, kept, source)
        facts = Facts(stored, message.unique_key, kept.get(TAGS), kept.get(KEYS))
        store.append(
            target, 0, message.body, facts, store.tags_code(facts.tags), message.flag,
            message.sys_flag & ~FLAG_TRANSACTION_MASK, message.born_ms, pack_host(*message.born_host), now_ms,
            message.reconsume_times + (not is_given_back),
        )  # fmt: skip
        self.dead_total += is_dead
        self.revived_total += not is_dead and not is_given_back
        return names_source

    def synced(self, queue: PopQueue, point: CheckPoint, offset: int) -> None:
        """Hear that a copy is visible."""
        queue.revived(point, offset)
        self._book.touch(queue)


def _stored(message: Message, kept: dict[str, str], source: str) -> tuple[bytes, bool]:
    """Return the copy's properties in stored form, and whether they name its source: the largest ones cannot."""
    stored = format_properties(kept | {POPPED: source})
    if len(stored) + CRC_SIZE <= STORED_LIMIT_BYTES:
        return stored, True
    plain = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
    return format_properties(plain), False


def read_source(text: str) -> tuple[Key, int, int, int] | None:
    """Return queue, start, pop_ms and offset that ``ESC_POPPED`` names, None if it names none."""
    parts = text.split("@")
    if len(parts) != 6 or not all(number.isdigit() and len(number) < 19 for number in parts[2:]):
        return None
    queue_id, offset, start, pop_ms = map(int, parts[2:])
    return (parts[0], parts[1], queue_id), start, pop_ms, offset
