"""Messages that were given back to a group (request 36), for those of its consumers that pop.

They stand in ``%RETRY%group``, one topic for all that the group consumes, and who pops a topic reads
``%RETRY%group_topic``. So a pop first has what was given back taken there: a copy each, with the same number of tries,
named and counted as every other copy (reviving.py), so that a crash copies nothing twice and the group's offset on
``%RETRY%group`` says what is not over. Only what belongs to a topic that the group pops is taken; the rest stays for
whoever pops, or pulls, that; so does what has no retry topic because its names are too long together. While somebody of
the group pulls ``%RETRY%group`` it all is his: then nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import RETRY_TOPIC
from ..errors import CorruptRecord, InvalidTopicName, RecordNotFound
from ..tables.topics import RETRY_PREFIX, check_topic_name
from .checkpoint import FOR_EVER_MS, CheckPoint, mask_of
from .popqueue import PopQueue
from .state import Book, origin_topic, retry_topic
from .take import Taker, Wanted, offsets_of
from .writer import Pen

#: Taken with one look.
_MOST_MESSAGES = 32
_MOST_BYTES = 4 << 20
#: How often a pop looks further in each queue for something of its own.
_MOST_LOOKS = 16

#: Topic of the message -> where it stands.
_Left = dict[str, list[tuple[CheckPoint, int]]]


class Returning:
    """Takes what was given back to where it is popped. ``give_out`` makes the copies that are due."""

    def __init__(self, book: Book, pen: Pen, taker: Taker, give_out: Callable[[int], object]) -> None:
        self._book = book
        self._pen = pen
        self._taker = taker
        self._give_out = give_out
        #: what was looked at and is of no topic that is popped; not in the log, it is looked at again after a start
        self._left: dict[PopQueue, _Left] = {}

    def take(self, group: str, topic: str, now_ms: int) -> bool:
        """Have what was given back and is of a topic that is popped copied to where it is popped; tell whether there is
        more to look at. Raises InvalidValue (see Taker.check_room)."""
        name = RETRY_PREFIX + group
        known = self._book.store.topics.get(name)
        if known is None:
            return False
        is_due = is_more = False
        keys = [(group, name, queue_id) for queue_id in range(known.read_queues)]
        self._taker.check_room(group, keys)
        for key in keys:
            high = self._book.bounds(key)[1]
            if high:
                queue = self._book.queues.get(key) or self._taker.begin(key, from_end=False)
                is_due |= self._take(queue, topic, high, now_ms)
                is_more |= queue.next_offset < high
        if is_due:
            self._give_out(now_ms)
        return is_more

    def waits(self, group: str) -> bool:
        """Tell whether something was given back that nobody has looked at since the start."""
        name = RETRY_PREFIX + group
        known = self._book.store.topics.get(name)
        for queue_id in range(known.read_queues if known is not None else 0):
            key = (group, name, queue_id)
            queue = self._book.queues.get(key)
            if queue is not None and queue.points and queue not in self._left:
                return True
            if self._taker.next_offset(key) < self._book.bounds(key)[1]:
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
        self._book.touch(queue)
        if not (offsets := offsets_of(pulled)):
            queue.next_offset = max(queue.next_offset, pulled.next_offset)
            queue.packed = None
            return
        start, pop_ms = offsets[0], max(now_ms, self._book.pop_floor_ms)
        point = queue.pop(start, pulled.next_offset, pop_ms, now_ms + FOR_EVER_MS, mask_of(start, offsets))
        assert point is not None, "it began at the next offset"
        self._pen.popped(queue, point)
        self._book.plan(queue, point)
        for offset, record in zip(offsets, pulled.records, strict=True):
            left.setdefault(_topic_of(group, decode(record, verify=False)), []).append((point, offset))

    def _release(self, queue: PopQueue, point: CheckPoint, offset: int, now_ms: int) -> bool:
        if queue.points.get((point.start, point.pop_ms)) is not point:
            # somebody has set the group's offset meanwhile
            return False
        changed = queue.change(point, offset, max(now_ms, point.pop_ms + 1, self._book.pop_floor_ms), now_ms)
        if changed is None:
            return False
        self._pen.changed(queue, point, changed)
        self._book.plan(queue, changed)
        self._book.touch(queue)
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
                    whose = _topic_of(group, self._book.mender.message_of(name, queue_id, offset))
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
        known = self._book.store.topics.get(topic)
        queues = self._book.queues
        return known is not None and any((group, topic, number) in queues for number in range(known.read_queues))


def _topic_of(group: str, message: Message) -> str:
    """Return the topic of which a message is another try, empty if it does not say."""
    return origin_topic(group, message.properties.get(RETRY_TOPIC, ""))
