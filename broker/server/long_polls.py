"""Pulls and pops that wait for a message: thousands of them, without anybody asking again and again.

Waiting pulls lie by (topic, queue id) and are woken by what arrives there; one timer stands at the next time-out.

Waiting pops lie by group and topic, and the one that came first is served first. An arrival wakes the pops of its
topic, or of the topic of which it may hold other tries. Each looks, and when one of a group got nothing, the others
that ask for the same need not look. One timer stands at the next time-out, or at the next moment at which a pop is to
look without an arrival: a queue that is popped in order is free again then.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from ..rocketmq.frame import Command
from ..rocketmq.topics import retry_topics
from .connection import Connection

QueueKey = tuple[str, int]

_GRAIN_MS = 50
"""Time-outs are as much as this late, so that those of thousands come together."""

_DONE_KEPT = 64
"""So many that were answered are kept until their time would be out, beside twice those that wait: each has its
request's fields, some 2 KB, and to look through them costs less than to keep them."""


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

    def go_on_at(self, offset: int) -> None:
        """Look from this offset on the next time."""
        self.offset = offset

    def look_again(self, is_last: bool) -> bool:
        """Look, unless the client is gone; return whether the pull waits no more."""
        self.is_done = not self.connection.is_open or self.look(self, is_last) or is_last
        return self.is_done


class WaitingPulls:
    """The pulls that wait for a message, by queue and by deadline."""

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
        """Tell whether no more pulls can wait: they are answered at once."""
        return self._count >= self._limit

    def add(self, pull: WaitingPull) -> None:
        """Let a pull wait until its deadline."""
        self._by_queue.setdefault(pull.key, []).append(pull)
        if len(self._by_deadline) > 2 * self._count + _DONE_KEPT:
            self._by_deadline = [entry for entry in self._by_deadline if not entry[2].is_done]
            heapify(self._by_deadline)
        heappush(self._by_deadline, (pull.deadline_ms, next(self._order), pull))
        self._count += 1
        if self._by_deadline[0][2] is pull:
            self._arm()

    def wake(self, arrivals: set[QueueKey]) -> None:
        """Look again for all that wait at these queues."""
        if not self._by_queue:
            return
        for key in arrivals:
            pulls = self._by_queue.pop(key, None)
            if pulls:
                left = [pull for pull in pulls if not self._look(pull, False)]
                if left:
                    self._by_queue.setdefault(key, []).extend(left)

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is over."""
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
        """Answer all that wait: the broker stops."""
        for _, _, pull in self._by_deadline:
            if not pull.is_done:
                self._look(pull, True)
        self._by_queue.clear()
        self._by_deadline.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, pull: WaitingPull, is_last: bool) -> bool:
        """Look for one pull; return whether it waits no more."""
        if not pull.is_done:
            self._count -= pull.look_again(is_last)
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


# Pops that wait.

GroupTopic = tuple[str, str]

MOST_WAITING = 100_000
"""maxPopPollingSize of BrokerConfig."""
_LEAST_PAUSE_MS = 1


@dataclass(slots=True, eq=False)
class WaitingPop:
    """A pop without news. One that is ``alike``, and of the same queue, would get the same nothing."""

    connection: Connection
    group: str
    topic: str
    queue_id: int
    deadline_ms: int
    alike: Hashable
    look: Callable[[bool], tuple[bool, int | None]]
    """Looks again (is this the end of its time); whether it was answered, if not when to look without an arrival."""
    is_done: bool = False
    again_ms: int = 0
    """When it is to look next without an arrival; 0: not."""

    def end(self) -> None:
        """Wait no more for a message."""
        self.is_done = True

    def look_at(self, again_ms: int | None) -> None:
        """Note when to look next without an arrival; None: not at all."""
        self.again_ms = again_ms or 0


class WaitingPops:
    """The pops that wait. Their time is over by the live `clock`; `live_ms` says when by it a moment of the broker's
    clock comes, where they are not the same."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Callable[[], int],
        looked: Callable[[], None],
        *,
        limit: int = MOST_WAITING,
        live_ms: Callable[[int], int] | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._looked = looked
        self._limit = limit
        self._live_ms = live_ms
        #: by group and topic, then by what they ask for, in order of arrival
        self._waiting: dict[GroupTopic, dict[Hashable, OrderedDict[WaitingPop, None]]] = {}
        self._by_topic: dict[str, set[GroupTopic]] = {}
        self._by_moment: list[tuple[int, int, WaitingPop]] = []
        self._order = count()
        self._timer: TimerHandle | None = None
        self._timer_ms = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Tell whether no more pops can wait: they are told so."""
        return self._count >= self._limit

    def count(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many pops of a group wait at a queue of a topic (-1: at any)."""
        rows = self._waiting.get((group, topic), {})
        return sum(len(pops) for pops in rows.values() if next(iter(pops)).queue_id == queue_id)

    def add(self, pop: WaitingPop, again_ms: int | None) -> None:
        """Let a pop wait until its deadline, and look at ``again_ms`` too."""
        key = (pop.group, pop.topic)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = {}
            for topic in (pop.topic, *retry_topics(pop.group, pop.topic)):
                self._by_topic.setdefault(topic, set()).add(key)
        waiting.setdefault((pop.queue_id, pop.alike), OrderedDict())[pop] = None
        self._count += 1
        if len(self._by_moment) > 2 * self._count + _DONE_KEPT:
            self._by_moment = [entry for entry in self._by_moment if not entry[2].is_done]
            heapify(self._by_moment)
        self._plan(pop.deadline_ms, pop)
        self._look_at(pop, again_ms)
        self._arm()

    def wake(self, arrivals: set[tuple[str, int]]) -> None:
        """Look again for all that wait for what has arrived in these queues."""
        if not self._by_topic:
            return
        found: dict[GroupTopic, set[tuple[str, int]]] = {}
        for arrival in arrivals:
            for key in self._by_topic.get(arrival[0], ()):
                found.setdefault(key, set()).add(arrival)
        for key, queues in found.items():
            self._wake(key, queues)
        if found:
            self._looked()
            self._arm()

    def _wake(self, key: GroupTopic, arrivals: set[tuple[str, int]]) -> None:
        topic = key[1]
        is_again = any(name != topic for name, _ in arrivals)
        for pops in list(self._waiting.get(key, {}).values()):
            queue_id = next(iter(pops)).queue_id
            if is_again or queue_id < 0 or (topic, queue_id) in arrivals:
                while pops and self._look(next(iter(pops)), is_last=False):
                    pass

    def look_again(self) -> None:
        """Look again for all, as much time may have passed at once."""
        for pop in self._all():
            self._look(pop, is_last=False)
        self._looked()
        self._arm()

    def _all(self) -> list[WaitingPop]:
        return [pop for rows in self._waiting.values() for pops in rows.values() for pop in pops]

    def release_all(self) -> None:
        """Answer all that wait: the broker stops."""
        for pop in self._all():
            self._look(pop, is_last=True)
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, pop: WaitingPop, *, is_last: bool) -> bool:
        """Look for one pop; return whether it waits no more."""
        if not pop.is_done and pop.connection.is_open:
            answered, again_ms = pop.look(is_last)
            if not answered and not is_last:
                self._look_at(pop, again_ms)
                return False
        self._remove(pop)
        return True

    def _remove(self, pop: WaitingPop) -> None:
        if pop.is_done:
            return
        pop.end()
        self._count -= 1
        key = (pop.group, pop.topic)
        waiting, row = self._waiting[key], (pop.queue_id, pop.alike)
        del waiting[row][pop]
        if not waiting[row]:
            del waiting[row]
        if not waiting:
            del self._waiting[key]
            for topic in (pop.topic, *retry_topics(pop.group, pop.topic)):
                keys = self._by_topic[topic]
                keys.discard(key)
                if not keys:
                    del self._by_topic[topic]

    # time

    def _look_at(self, pop: WaitingPop, again_ms: int | None) -> None:
        if again_ms is not None and self._live_ms is not None:
            again_ms = self._live_ms(again_ms)
        pop.look_at(again_ms)
        if again_ms is not None and again_ms < pop.deadline_ms:
            self._plan(again_ms, pop)

    def _plan(self, moment_ms: int, pop: WaitingPop) -> None:
        heappush(self._by_moment, (moment_ms, next(self._order), pop))

    def _arm(self) -> None:
        heap = self._by_moment
        while heap and heap[0][2].is_done:
            heappop(heap)
        if not heap:
            return
        moment_ms = heap[0][0]
        if self._timer is not None:
            if self._timer_ms <= moment_ms:
                return
            self._timer.cancel()
        self._timer_ms = moment_ms
        wait_ms = max(moment_ms - self._clock(), _LEAST_PAUSE_MS)
        self._timer = self._loop.call_later(wait_ms / 1000, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        now_ms = self._clock()
        heap = self._by_moment
        due: list[WaitingPop] = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap)[2])
        for pop in due:
            if pop.is_done:
                continue
            if pop.deadline_ms <= now_ms:
                self._look(pop, is_last=True)
            elif 0 < pop.again_ms <= now_ms:
                pop.look_at(None)
                self._look(pop, is_last=False)
        if due:
            self._looked()
        self._arm()
