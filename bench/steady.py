"""How late values arrive at a steady rate while many others wait in the same queue."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.waiting import fill
from tests.interop.redis_servers import RedisServer
from tests.interop.redisson import CURRENT, JavaQueues

MIN_DELAY_MS, MAX_DELAY_MS = 500, 3_000
CONSUMERS = 4
HOUR_MS = 3_600_000
ARRIVAL_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Steady:
    """Offers a second, for how long, and how much of it is warm-up."""

    rate: int
    seconds: int
    skip_s: int

    @property
    def count(self) -> int:
        """All offers."""
        return self.rate * self.seconds


def fill_background(client: redis.Redis, queue: str, count: int) -> None:
    """Values that stay: random due times between one hour and two from now."""
    now_ms = int(time.time() * 1_000)
    fill(client, queue, count, now_ms + HOUR_MS, now_ms + 2 * HOUR_MS, prefix="waits-")


def lateness_ms(server: RedisServer, base: Path, queue: str, steady: Steady) -> list[int]:
    """Arrival minus due of each value after the warm-up, sorted; the queue is served by somebody else.

    One JVM offers without a transfer task of its own, another takes. Raises RuntimeError when a value does not arrive.
    """
    offering = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    taking = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    try:
        for _ in range(CONSUMERS):
            taking.begin("traffic.take", queue)
        delays = {"minMs": MIN_DELAY_MS, "maxMs": MAX_DELAY_MS}
        due_ms = offering.call(
            "traffic.offer",
            queue,
            prefix="late-",
            count=steady.count,
            rate=steady.rate,
            # Whoever keeps the server busy delays the offers too.
            timeout_s=5 * steady.seconds + ARRIVAL_TIMEOUT_S,
            **delays,
        )
        arrived = dict(taking.await_collected(queue, steady.count, ARRIVAL_TIMEOUT_S))
    finally:
        offering.child.kill()
        taking.child.kill()
    missing = [number for number in range(steady.count) if f"late-{number}" not in arrived]
    if missing:
        raise RuntimeError(f"{len(missing)} of {steady.count} values never arrived, first late-{missing[0]}")
    first = steady.rate * steady.skip_s
    return sorted(arrived[f"late-{number}"] - due_ms[number] for number in range(first, steady.count))
