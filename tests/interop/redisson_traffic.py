"""Mixed traffic on one delayed queue, and whether every value that was accepted arrived exactly once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import redis

from broker.redisson import DelayedQueue
from tests.interop.redis_servers import RedisServer
from tests.interop.waiting import wait_until

SETTLE_TIMEOUT_S = 60


@dataclass(slots=True)
class Verdict:
    """What became of the values of one course: all four are empty when nothing went wrong."""

    lost: list[str]
    doubled: list[str]
    unknown: list[str]
    accepted: int
    arrived: int

    @property
    def is_clean(self) -> bool:
        """Whether each accepted value arrived once and nothing else did."""
        return not (self.lost or self.doubled or self.unknown)

    def __str__(self) -> str:
        faults = f"lost {len(self.lost)}, doubled {len(self.doubled)}, unknown {len(self.unknown)}"
        examples = [*self.lost[:3], *self.doubled[:3], *self.unknown[:3]]
        return f"{self.accepted:,} accepted, {self.arrived:,} arrived, {faults} {examples or ''}".strip()


def judge(accepted: Iterable[str], tried: Iterable[str], arrived: Iterable[str]) -> Verdict:
    """`accepted` must be there once, others of `tried` at most once (their answer was lost), nothing else at all."""
    counts, accepted, tried = Counter(arrived), set(accepted), set(tried)
    return Verdict(
        lost=sorted(accepted - counts.keys()),
        doubled=sorted(value for value, count in counts.items() if count > 1),
        unknown=sorted(counts.keys() - tried - accepted),
        accepted=len(accepted),
        arrived=counts.total(),
    )


@dataclass(slots=True)
class PythonTraffic:
    """Offers from Python with random delays and removes some of them again, in a thread of its own."""

    queue: DelayedQueue
    prefix: str
    max_delay_ms: int
    seed: int
    tried: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> PythonTraffic:
        """Begin to offer."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the offer under way."""
        self._stop.set()
        if self._thread:
            self._thread.join(30)

    def _run(self) -> None:
        draw = random.Random(self.seed)
        while not self._stop.wait(0.002):
            value = f"{self.prefix}{len(self.tried)}"
            self.tried.append(value)
            removes = draw.random() < 0.2
            try:
                # What is removed again waits long enough that it cannot be due by then.
                self.queue.offer(value, delay=3_600_000 if removes else draw.randint(0, self.max_delay_ms))
                if removes:
                    self.uncertain.add(value)
                    assert self.queue.remove(value)
                    self.uncertain.discard(value)
                else:
                    self.accepted.add(value)
            except redis.RedisError:
                self.uncertain.add(value)
                self._stop.wait(0.05)


def settle(server: RedisServer, queue: DelayedQueue, still_waiting: Iterable[str] = ()) -> bool:
    """Whether the queue came to rest: nothing is waiting but what was to be removed and perhaps was not."""
    allowed = {value.encode() for value in still_waiting}
    with server.client() as client:

        def is_still() -> bool:
            members = client.zrange(queue.keys.timeout, 0, -1)
            same = set(members) == set(client.lrange(queue.keys.waiting, 0, -1))
            return same and all(any(member.endswith(value) for value in allowed) for member in members)

        return wait_until(is_still, SETTLE_TIMEOUT_S)
