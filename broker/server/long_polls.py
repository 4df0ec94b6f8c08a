"""Long polls: pulls that wait for a message, thousands of them, without anybody asking again and again.

They lie by (topic, queue id) and are woken by what arrives there; one timer stands at the next time-out.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from ..rocketmq.frame import Command
from .connection import Connection

QueueKey = tuple[str, int]

_GRAIN_MS = 50
"""Time-outs are as much as this late, so that those of thousands come together."""


@dataclass(slots=True, eq=False)
class WaitingPull:
    """A pull without news: whom to answer, and from which offset to look again."""

    connection: Connection
    request: Command
    key: QueueKey
    offset: int
    deadline_ms: int
    look: Callable[[WaitingPull, bool], bool]
    """Looks again; (pull, is this the end of its time) -> True if it was answered."""
    is_done: bool = False


class WaitingPulls:
    """All pulls that wait."""

    def __init__(self, loop: AbstractEventLoop, clock: Callable[[], int], *, limit: int = 100_000) -> None:
        self._loop = loop
        self._clock = clock
        self._limit = limit
        self._by_queue: dict[QueueKey, list[WaitingPull]] = {}
        self._by_deadline: list[tuple[int, int, WaitingPull]] = []
        self._order = count()
        self._timer: TimerHandle | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """True if no more pulls can wait: answer at once."""
        return self._count >= self._limit

    def add(self, pull: WaitingPull) -> None:
        """Lets a pull wait until its deadline."""
        self._by_queue.setdefault(pull.key, []).append(pull)
        if len(self._by_deadline) > 2 * self._count + 1000:
            self._by_deadline = [entry for entry in self._by_deadline if not entry[2].is_done]
            heapify(self._by_deadline)
        heappush(self._by_deadline, (pull.deadline_ms, next(self._order), pull))
        self._count += 1
        if self._by_deadline[0][2] is pull:
            self._arm()

    def wake(self, arrivals: set[QueueKey]) -> None:
        """Looks again for all that wait at these queues."""
        for key in arrivals:
            pulls = self._by_queue.pop(key, None)
            if pulls:
                left = [pull for pull in pulls if not self._look(pull, False)]
                if left:
                    self._by_queue.setdefault(key, []).extend(left)

    def expire(self, now_ms: int) -> None:
        """Answers those whose time is over."""
        heap = self._by_deadline
        keys = set()
        while heap and (heap[0][0] <= now_ms or heap[0][2].is_done):
            pull = heappop(heap)[2]
            if not pull.is_done:
                self._look(pull, True)
                keys.add(pull.key)
        for key in keys:
            self._drop_done(key)
        self._arm()

    def release_all(self) -> None:
        """Answers all that wait: the broker stops."""
        for _, _, pull in self._by_deadline:
            if not pull.is_done:
                self._look(pull, True)
        self._by_queue.clear()
        self._by_deadline.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, pull: WaitingPull, is_last: bool) -> bool:
        """True if the pull waits no more."""
        if not pull.is_done:
            pull.is_done = not pull.connection.is_open or pull.look(pull, is_last) or is_last
            self._count -= pull.is_done
        return pull.is_done

    def _drop_done(self, key: QueueKey) -> None:
        left = [pull for pull in self._by_queue.pop(key, ()) if not pull.is_done]
        if left:
            self._by_queue[key] = left

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._by_deadline:
            moment_ms = self._by_deadline[0][0]
            wait_ms = max(moment_ms + -moment_ms % _GRAIN_MS - self._clock(), 1)
            self._timer = self._loop.call_later(wait_ms / 1000, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        self.expire(self._clock())
