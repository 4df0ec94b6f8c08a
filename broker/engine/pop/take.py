"""Handing out: what a pop gets from which queue."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from ...rocketmq.layout import QUEUE_OFFSET
from ...rocketmq.topics import check_topic_name, retry_topic
from ..queues.reader import Pulled, PullStatus, Selection
from ..tables.topics import Topic
from .popqueue import Block, Key, Orderly, PopQueue, PopTable, mask_of
from .records import PopWriter

#: Messages of one queue that a group may hold without having acknowledged them; then the queue gives out no more.
MOST_IN_FLIGHT = 200_000
#: Every so many pops the retry topic comes first, otherwise last (PopConsumerService: popFromRetryProbability 20 %).
_RETRY_FIRST = 5
#: Queue entries that one pop looks at for its filter in one queue, in steps of Reader.pull.
_MOST_SCANS = 8
#: How long a queue of which too much is out is left alone.
_FULL_PAUSE_MS = 1_000


class Wanted(NamedTuple):
    """The wishes of a pop. ``queue_id`` -1: any. ``from_end``: a group that is new begins at the end.

    ``attempt`` names a try of an orderly pop: the same again gets the same messages. ``given_back``: nobody pulls what
    is given back to the group, so it is for those who pop.
    """

    group: str
    topic: str
    queue_id: int
    most_messages: int
    most_bytes: int
    invisible_ms: int
    tags_codes: Selection = None
    from_end: bool = False
    in_order: bool = False
    attempt: str = ""
    given_back: bool = False


class Taken(NamedTuple):
    """The yield of a pop from one queue, whole records in order. ``counts``: how often each was handed out before, in
    order only."""

    topic: str
    queue_id: int
    start: int
    offsets: list[int]
    records: list[bytes]
    counts: list[int] = []


class Popped(NamedTuple):
    """A pop's result. ``rest``: messages left, roughly. ``again_ms``: when to look again if it got nothing (a queue
    is blocked until then, or more is to be filtered), None: when something arrives."""

    pop_ms: int
    taken: list[Taken]
    rest: int
    again_ms: int | None

    @property
    def messages(self) -> int:
        """The number of messages in it."""
        return sum(len(taken.offsets) for taken in self.taken)

    @property
    def size_bytes(self) -> int:
        """The bytes of all their records."""
        return sum(len(record) for taken in self.taken for record in taken.records)


class Taker:
    """Hands messages out to those who pop."""

    def __init__(self, table: PopTable, writer: PopWriter) -> None:
        self._table = table
        self._writer = writer
        self._turns: dict[tuple[str, str], count[int]] = {}
        #: of the pop that is served; pop_ms may be ahead of it
        self._now_ms = 0

    def pop(self, wanted: Wanted, read_queues: int, now_ms: int) -> Popped:
        """Hand out messages of a topic that is known to be there, once ``check`` was asked. Raises InvalidValue (see
        ``check_room``)."""
        turn = next(self._turns.setdefault((wanted.group, wanted.topic), count()))
        keys = self._keys(wanted, read_queues, turn)
        self.check_room(wanted.group, keys)
        pop_ms = max(now_ms, self._table.pop_floor_ms)
        if wanted.in_order:
            pop_ms = max(pop_ms, *map(self._pop_ms_after, keys))
        popped = Popped(pop_ms, [], 0, None)
        self._now_ms = now_ms
        for key in keys:
            popped = self._pop_queue(key, wanted, popped)
        return popped

    def check(self, wanted: Wanted) -> None:
        """Raise InvalidTopicName if the names of topic and group are too long for a retry topic, InvalidValue if there
        is no room for one: what is out must be able to come back."""
        retry, topics = retry_topic(wanted.group, wanted.topic), self._table.store.topics
        check_topic_name(retry)
        if not wanted.in_order and topics.get(retry) is None:
            topics.check_room((Topic(retry, 1, 1),))

    def check_room(self, group: str, keys: Iterable[Key]) -> None:
        """Raise InvalidValue if there is no room for the progress of a group on those of its queues that are new."""
        table = self._table
        new: dict[str, list[int]] = {}
        for key in keys:
            if key not in table.queues and table.bounds(key)[1]:
                new.setdefault(key[1], []).append(key[2])
        if new:
            table.store.offsets.check_room(group, new)

    def _pop_ms_after(self, key: Key) -> int:
        """Return the earliest moment of which an orderly pop of a queue may say it happened then: a handle of the one
        before must not fit it."""
        queue = self._table.queues.get(key)
        block = queue.orderly.block if queue is not None and queue.orderly is not None else None
        return block.pop_ms + 1 if block is not None else 0

    def _keys(self, wanted: Wanted, read_queues: int, turn: int) -> list[Key]:
        """Return the queues of a pop in the order in which it looks at them: each comes first when it is its turn."""
        group, topic = wanted.group, wanted.topic
        keys: list[Key] = [(group, topic, wanted.queue_id)]
        if wanted.queue_id < 0:
            keys = [(group, topic, (turn + number) % read_queues) for number in range(read_queues)]
        again = (group, retry_topic(group, topic), 0)
        if wanted.in_order:
            # no copies are made in order, but what was given back to the group, or was left when it did not ask so
            return [*keys, again]
        return [again, *keys] if turn % _RETRY_FIRST == 0 else [*keys, again]

    def _pop_queue(self, key: Key, wanted: Wanted, popped: Popped) -> Popped:
        log_queue = self._table.store.queues.known.get((key[1], key[2]))
        if log_queue is None or not log_queue.max_offset:
            return popped
        queue = self._table.queues.get(key) or self.begin(key, from_end=wanted.from_end)
        room = wanted.most_messages - popped.messages
        again_ms = popped.again_ms
        if room > 0 and (wanted.in_order or (queue.orderly is not None and queue.orderly.lowest() is not None)):
            again_ms = _earlier(again_ms, self._pop_in_order(queue, wanted, room, popped))
        elif room > 0 and queue.next_offset < log_queue.max_offset:
            again_ms = _earlier(again_ms, self._pop_any(queue, wanted, room, popped))
        rest = popped.rest + max(log_queue.max_offset - queue.next_offset, 0)
        return popped._replace(rest=rest, again_ms=again_ms)

    def has_messages(self, wanted: Wanted, read_queues: int, now_ms: int) -> tuple[bool, int | None]:
        """Tell whether a pop would look at messages, and if not, when to look again without an arrival."""
        again_ms: int | None = None
        for key in self._keys(wanted, read_queues, 0):
            queue, high = self._table.queues.get(key), self._table.bounds(key)[1]
            orderly = queue.orderly if queue is not None else None
            if orderly is not None and orderly.lowest() is not None:
                free_ms = orderly.blocked_until(wanted.attempt, now_ms)
                if free_ms is None:
                    return True, None
                again_ms = _earlier(again_ms, free_ms)
            elif self.next_offset(key) < high:
                return True, None
        return False, again_ms

    def peek(self, wanted: Wanted, read_queues: int) -> tuple[list[bytes], int]:
        """Return the records that a pop would hand out, and how many there are beyond them."""
        records: list[bytes] = []
        rest = 0
        for key in self._keys(wanted, read_queues, 1):
            offset, high, room = self.next_offset(key), self._table.bounds(key)[1], wanted.most_messages - len(records)
            rest += max(high - offset, 0)
            if room > 0 and offset < high:
                pulled = self._table.reader.pull(*key[1:], offset, room, wanted.most_bytes)
                records += pulled.records
        return records, rest - len(records)

    def next_offset(self, key: Key) -> int:
        """Return where the next pop would begin, in no order; a queue that was never popped is not begun for it."""
        queue = self._table.queues.get(key)
        if queue is not None:
            return queue.next_offset
        offset, low = self._table.store.offsets.get(*key), self._table.bounds(key)[0]
        return low if offset is None else max(offset, low)

    def begin(self, key: Key, *, from_end: bool) -> PopQueue:
        """Return a new queue, at the offset that its group committed, or else by the rule for groups that are new.

        That rule is RocketMQ's (PopMessageProcessor.getInitOffset): whoever begins at the end begins with the last
        message, or with the first if it is still there.
        """
        low, high = self._table.bounds(key)
        offset = self._table.store.offsets.get(*key)
        if offset is None:
            offset = max(high - 1, 0) if from_end and low > 0 else low
        queue = self._table.add(PopQueue(key, min(max(offset, low), high)))
        self._writer.placed(queue, queue.next_offset)
        self._table.touch(queue)
        return queue

    def place(self, queue: PopQueue, offset: int) -> None:
        """Have a queue begin again at an offset."""
        self._table.void(queue)
        queue.place(offset)
        self._writer.placed(queue, offset)
        self._table.touch(queue)

    def cut(self, queue: PopQueue, offset: int) -> None:
        """Forget a queue from an offset on, as the log has lost it: what comes there is to be handed out."""
        queue.cut(offset)
        self._writer.cut(queue, offset)
        self._table.touch(queue)

    def pull(self, queue: PopQueue, start: int, room: int, wanted: Wanted) -> Pulled:
        """Return what is there from an offset on; the queue begins elsewhere if it must."""
        _, topic, queue_id = queue.key
        pull = self._table.reader.pull
        pulled = pull(topic, queue_id, start, room, wanted.most_bytes, wanted.tags_codes)
        if pulled.status in (PullStatus.OFFSET_TOO_SMALL, PullStatus.OFFSET_OVERFLOW):
            # what is below has been removed; beyond the end: the log lost what was never durable
            self.place(queue, pulled.next_offset)
            pulled = pull(topic, queue_id, pulled.next_offset, room, wanted.most_bytes, wanted.tags_codes)
        scans = 1
        while pulled.status is PullStatus.NO_MATCH and pulled.next_offset < pulled.max_offset and scans < _MOST_SCANS:
            pulled = pull(topic, queue_id, pulled.next_offset, room, wanted.most_bytes, wanted.tags_codes)
            scans += 1
        return pulled

    def _pop_any(self, queue: PopQueue, wanted: Wanted, room: int, popped: Popped) -> int | None:
        """Hand out in no order; return when to look again though nothing may have arrived by then."""
        pop_ms = popped.pop_ms
        if queue.in_flight >= MOST_IN_FLIGHT:
            return pop_ms + _FULL_PAUSE_MS
        pulled = self.pull(queue, queue.next_offset, room, wanted)
        offsets = offsets_of(pulled)
        if not offsets:
            if pulled.next_offset > queue.next_offset:
                # nothing of it was wanted, and that need not be written down: after a crash it is looked at again
                queue.next_offset = pulled.next_offset
                queue.packed = None
                self._table.touch(queue)
            return pop_ms if queue.next_offset < pulled.max_offset else None
        start, due_ms = offsets[0], self._now_ms + wanted.invisible_ms
        point = queue.pop(start, pulled.next_offset, pop_ms, due_ms, mask_of(start, offsets))
        assert point is not None, "it began at the next offset"
        self._writer.popped(queue, point)
        self._table.plan(queue, point)
        self._table.touch(queue)
        popped.taken.append(Taken(queue.key[1], queue.key[2], start, offsets, pulled.records))
        return None

    def _pop_in_order(self, queue: PopQueue, wanted: Wanted, room: int, popped: Popped) -> int | None:
        """Hand out in order; return until when the queue is blocked."""
        orderly = queue.orderly
        if orderly is None:
            orderly = queue.orderly = Orderly()
        pop_ms = popped.pop_ms
        free_ms = orderly.blocked_until(wanted.attempt, self._now_ms)
        if free_ms is not None:
            return free_ms
        if orderly.block is not None and orderly.block.pop_ms >= pop_ms:
            # its handles would fit this pop, which was not asked for in order: the next one will be later than both
            self._table.pop_floor_ms = orderly.block.pop_ms + 1
            return self._now_ms
        lowest, (low, high) = orderly.lowest(), self._table.bounds(queue.key)
        start = max(queue.next_offset if lowest is None else lowest, low)
        if start >= high:
            return None
        pulled = self.pull(queue, start, room, wanted)
        orderly = queue.orderly = queue.orderly or Orderly()
        offsets = offsets_of(pulled)
        block = Block(pop_ms, wanted.invisible_ms, wanted.attempt, offsets)
        if pop_ms != self._now_ms:
            block.visible_ms = dict.fromkeys(offsets, self._now_ms + wanted.invisible_ms)
        counts = orderly.hand_out(block, pulled.next_offset)
        # it may be behind where an earlier pop ended that got more: all from there on comes again
        queue.next_offset = pulled.next_offset
        queue.packed = None
        self._writer.ordered(queue, orderly.to_json())
        self._table.touch(queue)
        if offsets:
            popped.taken.append(Taken(queue.key[1], queue.key[2], offsets[0], offsets, pulled.records, counts))
        return pop_ms if not offsets and queue.next_offset < pulled.max_offset else None


def offsets_of(pulled: Pulled) -> list[int]:
    """Return the queue offsets of what was pulled; they stand in the records."""
    return [int.from_bytes(record[QUEUE_OFFSET], "big") for record in pulled.records]


def _earlier(one_ms: int | None, other_ms: int | None) -> int | None:
    """Return the earlier of two moments."""
    if one_ms is None or other_ms is None:
        return one_ms if other_ms is None else other_ms
    return min(one_ms, other_ms)
