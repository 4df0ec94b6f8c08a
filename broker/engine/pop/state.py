"""What all parts of popping share: the queues of all groups, and the order in which what is out becomes due."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count

from ..queues.reader import Reader
from ..queues.repair import Mender
from ..store import Store
from .popqueue import CheckPoint, Key, PopQueue

Due = tuple[int, int, PopQueue, CheckPoint]
"""When, in which order, and what."""


class Book:
    """What is popped in one store: its queues, and when each is due."""

    def __init__(self, store: Store, reader: Reader, mender: Mender) -> None:
        self.store = store
        self.reader = reader
        self.mender = mender
        #: by group, topic and queue id; read-only for others, see ``add`` and ``remove``
        self.queues: dict[Key, PopQueue] = {}
        #: queues whose base offset is to be told to the table of offsets
        self.moved: set[PopQueue] = set()
        #: no pop may say it happened earlier: a handle of before would fit again
        self.pop_floor_ms = 0
        #: True if a snapshot would be another one than the last
        self.is_changed = False
        self._due: list[Due] = []
        self._order = count()
        self._last_ms = 0

    def add(self, queue: PopQueue) -> PopQueue:
        """Take in a queue that recovery has found."""
        self.queues[queue.key] = queue
        return queue

    def queue_at(self, key: Key, offset: int) -> PopQueue:
        """Return a queue, one that begins at ``offset`` if it is new."""
        return self.queues.get(key) or self.add(PopQueue(key, offset))

    def remove(self, key: Key) -> None:
        """Forget a queue and all that is out of it."""
        queue = self.queues.pop(key, None)
        if queue is not None:
            self.void(queue)
            queue.place(queue.next_offset)
            self.moved.discard(queue)
            self.is_changed = True

    def void(self, queue: PopQueue) -> None:
        """Have no handle of a queue fit what is popped from now on."""
        latest_ms = max((pop_ms for _, pop_ms in queue.points), default=0)
        block = queue.orderly.block if queue.orderly is not None else None
        self.pop_floor_ms = max(self.pop_floor_ms, latest_ms + 1, block.pop_ms + 1 if block else 0)

    def bounds(self, key: Key) -> tuple[int, int]:
        """Return (min, max) offset of the log's queue, (0, 0) if there is none."""
        queue = self.store.queues.known.get((key[1], key[2]))
        return (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)

    def touch(self, queue: PopQueue) -> None:
        """Note that a queue's state has changed."""
        self.moved.add(queue)
        self.is_changed = True

    def tell_offsets(self) -> None:
        """Tell the table of offsets how far everything is over, as RocketMQ has it: groups that pull go on there."""
        offsets = self.store.offsets
        for queue in self.moved:
            offsets.note(*queue.key, queue.base_offset)
        self.moved.clear()

    # what is due

    def plan(self, queue: PopQueue, point: CheckPoint) -> None:
        """Have a check point looked at when its time is over."""
        if len(self._due) > 1000 + 4 * sum(len(known.points) for known in self.queues.values()):
            self._replan()
        heappush(self._due, (point.due_ms, next(self._order), queue, point))

    def _replan(self) -> None:
        self._due = [
            (point.due_ms, next(self._order), queue, point)
            for queue in self.queues.values()
            for point in queue.points.values()
        ]
        heapify(self._due)

    def next_due(self) -> tuple[PopQueue, CheckPoint] | None:
        """Return what is due first, None if nothing is out."""
        while self._due:
            due_ms, _, queue, point = self._due[0]
            if point.held and point.due_ms == due_ms and queue.points.get((point.start, point.pop_ms)) is point:
                return queue, point
            heappop(self._due)
        return None

    def see(self, now_ms: int) -> None:
        """Look at the clock: if it was set back, nobody waits longer than was asked for."""
        if now_ms < self._last_ms:
            for queue in self.queues.values():
                for point in queue.points.values():
                    point.due_ms = min(point.due_ms, now_ms + max(point.due_ms - point.pop_ms, 0))
                if queue.orderly is not None:
                    queue.orderly.clamp(now_ms)
                queue.packed = None
            self.is_changed = True
            self._replan()
        self._last_ms = now_ms
