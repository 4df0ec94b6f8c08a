"""Giving popped messages out again: those not acknowledged in time, and those that consumers gave back to their group.

A message whose time is over is copied, for another try or for the dead letters. The copy goes to the retry topic of
group and topic, ``%RETRY%group_topic``, with one more try counted, and is popped from there; after the last try that
the group allows it goes to ``%DLQ%group``. The copy names the message it stands for and the handle whose time was over
(``ESC_POPPED``: group@topic@queue id@offset@start@pop_ms), so that after a crash nothing is copied twice.

Messages that were given back to a group (request 36) stand in ``%RETRY%group``, one topic for all that the group
consumes, but whoever pops a topic reads ``%RETRY%group_topic``. So a pop first has what was given back copied there.
The try was counted when the message was given back, and is not counted again. Otherwise these copies are named and
counted as every other, so that a crash copies nothing twice and the group's offset on ``%RETRY%group`` says what is not
over.

Only what belongs to a topic that the group pops is taken. The rest stays for whoever pops, or pulls, that topic; and a
message stays that has no retry topic because its names are too long together. While somebody of the group pulls
``%RETRY%group``, all of it is theirs, and nobody asks for it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...rocketmq.layout import CRC_SIZE, FLAG_TRANSACTION_MASK
from ...rocketmq.message import Message, decode, pack_host
from ...rocketmq.properties import (
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
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
from ...rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX, check_topic_name, origin_topic, retry_topic
from ..admission import STORED_LIMIT_BYTES
from ..errors import CorruptRecord, InvalidTopicName, RecordNotFound, StoreRefused
from ..message_header import Facts
from ..tables.groups import is_dead_letter
from .popqueue import FOR_EVER_MS, CheckPoint, Key, PopQueue, PopTable, lowest_bit, mask_of
from .records import PopWriter
from .take import Taker, Wanted, offsets_of

# Messages whose time is over.

#: Copies made in one tick, so that a herd does not keep the broker from answering.
COPIES_PER_TICK = 500
#: Copies wait once the next sync has so many bytes to write, so that who sends meanwhile does not wait for large ones;
#: in each tick so many are copied all the same, or those of others could keep them from being given out.
COPIED_BYTES, _LEAST_COPIED_BYTES = 256 << 10, 64 << 10
#: Retry after the store, or the table of topics, took nothing.
_REFUSED_PAUSE_MS = 100
_NOT_COPIED = RESERVED | {REAL_TOPIC, REAL_QUEUE_ID}
#: Handles remembered as over because their message was given out again.
_GONE_LIMIT = 50_000


class Revived(NamedTuple):
    """Noted on a copy: the message at an offset of a queue is done, and its check point needs it no more."""

    queue: PopQueue
    point: CheckPoint
    offset: int


class Reviver:
    """Makes the copies of messages whose time is over. ``note`` is told of each copy that names its source."""

    def __init__(self, table: PopTable, writer: PopWriter, note: Callable[[Revived], None]) -> None:
        self._table = table
        self._writer = writer
        self._note = note
        self._refused_until_ms = 0
        self._begin_bytes = 0
        #: (queue, offset) of messages given out again lately: an acknowledgement of these comes too late
        self.gone: dict[tuple[Key, int], None] = {}
        self.revived_total = 0
        self.dead_total = 0

    def tick(self, now_ms: int) -> int | None:
        """Copy what is due; return when the next one is, None if nothing is out."""
        if now_ms < self._refused_until_ms <= now_ms + _REFUSED_PAUSE_MS:
            return self._refused_until_ms
        room = COPIES_PER_TICK
        self._begin_bytes = self._table.store.pending_bytes
        while (first := self._table.next_due()) is not None:
            queue, point = first
            if point.due_ms > now_ms or not room or self._is_full():
                return max(point.due_ms, now_ms)
            try:
                # what is in the log of a pop must stand there before its copies
                self._writer.write(now_ms)
                room -= self._copy_some(queue, point, room, now_ms)
            except (StoreRefused, OSError):
                self._refused_until_ms = now_ms + _REFUSED_PAUSE_MS
                return self._refused_until_ms
        return None

    def _copy_some(self, queue: PopQueue, point: CheckPoint, room: int, now_ms: int) -> int:
        done = 0
        while point.held and done < room and not self._is_full():
            self._copy(queue, point, point.start + lowest_bit(point.held), now_ms)
            done += 1
        self._table.touch(queue)
        return done

    def _is_full(self) -> bool:
        """Tell whether the next sync has enough to write, and this tick had its share of it."""
        store = self._table.store
        has_share = store.pending_bytes - self._begin_bytes >= _LEAST_COPIED_BYTES
        return has_share and store.log.batch.size_bytes >= COPIED_BYTES

    def _copy(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> None:
        group, topic, queue_id = queue.key
        try:
            message = self._table.repair.message_of(topic, queue_id, offset)
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
            self._note(Revived(queue, point, offset))
        else:
            self._over(queue, point, offset)

    def _keep(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> None:
        """Leave a message of which no topic can hold a copy where it is: whoever pulls the queue gets it there."""
        pop_ms = max(now_ms, point.pop_ms + 1, self._table.pop_floor_ms)
        changed = queue.change(point, offset, pop_ms, now_ms + FOR_EVER_MS)
        assert changed is not None, "the point holds it"
        self._writer.changed(queue, point, changed)
        self._table.plan(queue, changed)

    def _over(self, queue: PopQueue, point: CheckPoint, offset: int) -> None:
        """End the message without a record that names it: the pop records say so."""
        bit = 1 << (offset - point.start)
        self._writer.acked(queue, point, bit)
        queue.ack(point, bit)

    def _append(self, message: Message, key: Key, source: str, pop_ms: int, now_ms: int) -> bool:
        """Append the copy; tell whether it names its source. Raises StoreRefused, OSError, InvalidTopicName."""
        store, (group, topic, _) = self._table.store, key
        kept = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
        is_given_back = topic == RETRY_PREFIX + group
        if is_given_back:
            origin = origin_topic(group, kept.pop(RETRY_TOPIC, ""))
        else:
            origin = origin_topic(group, topic)
            kept.setdefault(FIRST_POP_TIME, str(pop_ms))
        kept.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
        kept |= {ORIGIN_GROUP: group, WAIT: "false"}
        is_dead = not is_given_back and is_dead_letter(store.groups.get(group), message.reconsume_times)
        target = DLQ_PREFIX + group if is_dead else retry_topic(group, origin)
        if is_dead:
            kept |= {
                DELAY: "0",
                RETRY_TOPIC: origin,
                DLQ_ORIGIN_TOPIC: origin,
                DLQ_ORIGIN_MESSAGE_ID: kept[ORIGIN_MESSAGE_ID],
            }
        if store.topics.get(target) is None:
            store.topics.ensure(target, 1, is_due=True)
            if not is_dead:
                # the group is behind there from now on, though nobody has popped it yet
                queue = self._table.queue_at((group, target, 0), 0)
                self._writer.placed(queue, queue.next_offset)
                self._table.touch(queue)
        stored, names_source = _stored(message, kept, source)
        facts = Facts(stored, message.unique_key, kept.get(TAGS), kept.get(KEYS))
        store.append(
            target,
            0,
            message.body,
            facts,
            store.tags_code(facts.tags),
            message.flag,
            message.sys_flag & ~FLAG_TRANSACTION_MASK,
            message.born_ms,
            pack_host(*message.born_host),
            now_ms,
            message.reconsume_times + (not is_given_back),
        )
        self.dead_total += is_dead
        self.revived_total += not is_dead and not is_given_back
        return names_source

    def synced(self, copy: Revived) -> None:
        """Hear that a copy is visible."""
        copy.queue.revived(copy.point, copy.offset)
        self._table.touch(copy.queue)


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


# Messages that were given back.

#: Taken with one look.
_MOST_MESSAGES = 32
_MOST_BYTES = 4 << 20
#: How often a pop looks further in each queue for something of its own.
_MOST_LOOKS = 16

#: Topic of the message -> where it stands.
_Left = dict[str, list[tuple[CheckPoint, int]]]


class GivenBack:
    """Takes messages that were given back to where they are popped. ``give_out`` makes the copies that are due."""

    def __init__(self, table: PopTable, writer: PopWriter, taker: Taker, give_out: Callable[[int], object]) -> None:
        self._table = table
        self._writer = writer
        self._taker = taker
        self._give_out = give_out
        #: what was looked at and is of no topic that is popped; not in the log, it is looked at again after a start
        self._left: dict[PopQueue, _Left] = {}

    def take(self, group: str, topic: str, now_ms: int) -> bool:
        """Have what was given back and is of a topic that is popped copied to where it is popped; tell whether there is
        more to look at. Raises InvalidValue (see Taker.check_room)."""
        name = RETRY_PREFIX + group
        known = self._table.store.topics.get(name)
        if known is None:
            return False
        is_due = is_more = False
        keys = [(group, name, queue_id) for queue_id in range(known.read_queues)]
        self._taker.check_room(group, keys)
        for key in keys:
            high = self._table.bounds(key)[1]
            if high:
                queue = self._table.queues.get(key) or self._taker.begin(key, from_end=False)
                is_due |= self._take(queue, topic, high, now_ms)
                is_more |= queue.next_offset < high
        if is_due:
            self._give_out(now_ms)
        return is_more

    def waits(self, group: str) -> bool:
        """Tell whether something was given back that nobody has looked at since the start."""
        name = RETRY_PREFIX + group
        known = self._table.store.topics.get(name)
        for queue_id in range(known.read_queues if known is not None else 0):
            key = (group, name, queue_id)
            queue = self._table.queues.get(key)
            if queue is not None and queue.points and queue not in self._left:
                return True
            if self._taker.next_offset(key) < self._table.bounds(key)[1]:
                return True
        return False

    def forget(self, queue: PopQueue) -> None:
        """Hear that a queue begins elsewhere, or is no more."""
        self._left.pop(queue, None)

    def _take(self, queue: PopQueue, topic: str, high: int, now_ms: int) -> bool:
        left = self._left.get(queue)
        if left is None:
            left = self._left[queue] = self._out_for_nobody(queue, topic)
        is_due = False
        for _ in range(_MOST_LOOKS):
            for name in [name for name in left if name == topic or self._is_popped(queue.key[0], name)]:
                for point, offset in left.pop(name):
                    is_due |= self._release(queue, point, offset, now_ms)
            if is_due or queue.next_offset >= high:
                break
            self._look(queue, left, now_ms)
        return is_due

    def _look(self, queue: PopQueue, left: _Left, now_ms: int) -> None:
        """Take what comes next in a queue, all of it, until it is known whose it is."""
        group, name, queue_id = queue.key
        wanted = Wanted(group, name, queue_id, _MOST_MESSAGES, _MOST_BYTES, 0)
        pulled = self._taker.pull(queue, queue.next_offset, _MOST_MESSAGES, wanted)
        self._table.touch(queue)
        if not (offsets := offsets_of(pulled)):
            queue.next_offset = max(queue.next_offset, pulled.next_offset)
            queue.packed = None
            return
        start, pop_ms = offsets[0], max(now_ms, self._table.pop_floor_ms)
        point = queue.pop(start, pulled.next_offset, pop_ms, now_ms + FOR_EVER_MS, mask_of(start, offsets))
        assert point is not None, "it began at the next offset"
        self._writer.popped(queue, point)
        self._table.plan(queue, point)
        for offset, record in zip(offsets, pulled.records, strict=True):
            left.setdefault(_topic_of(group, decode(record, verify=False)), []).append((point, offset))

    def _release(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> bool:
        if queue.points.get((point.start, point.pop_ms)) is not point:
            # somebody has set the group's offset meanwhile
            return False
        changed = queue.change(point, offset, max(now_ms, point.pop_ms + 1, self._table.pop_floor_ms), now_ms)
        if changed is None:
            return False
        self._writer.changed(queue, point, changed)
        self._table.plan(queue, changed)
        self._table.touch(queue)
        return True

    def _out_for_nobody(self, queue: PopQueue, topic: str) -> _Left:
        """Return what a start found taken out of a queue until it is known whose it is."""
        left: _Left = {}
        group, name, queue_id = queue.key
        for point in list(queue.points.values()):
            if point.due_ms - point.pop_ms < FOR_EVER_MS // 2:
                continue
            for offset in point.offsets():
                try:
                    whose = _topic_of(group, self._table.repair.message_of(name, queue_id, offset))
                except (RecordNotFound, CorruptRecord):
                    # nothing is left of it: whoever makes the copies ends it
                    whose = topic
                left.setdefault(whose, []).append((point, offset))
        return left

    def _is_popped(self, group: str, topic: str) -> bool:
        try:
            check_topic_name(retry_topic(group, topic))
        except InvalidTopicName:
            return False
        known = self._table.store.topics.get(topic)
        queues = self._table.queues
        return known is not None and any((group, topic, number) in queues for number in range(known.read_queues))


def _topic_of(group: str, message: Message) -> str:
    """Return the topic of which a message is another try, empty if it does not say."""
    return origin_topic(group, message.properties.get(RETRY_TOPIC, ""))
