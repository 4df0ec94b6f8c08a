"""The speed at which due values reach their list, and how long the server answers nobody else meanwhile.

A delayed queue is filled as Java leaves it: the same three structures, by many members a command instead of one.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import redis

from bench.results import REPOSITORY
from broker.redisson import DelayedQueue
from broker.redisson.queue import batch_for, move_due, tend_index
from tests.interop.process import Child

CHUNK = 1_000
HEAD = struct.Struct("<B8sQ")


def keys(queue: str) -> tuple[str, str, str]:
    """Return the sorted set, the list and the channel of a queue without a hash tag in its name."""
    return (
        f"redisson_delay_queue_timeout:{{{queue}}}",
        f"redisson_delay_queue:{{{queue}}}",
        f"redisson_delay_queue_channel:{{{queue}}}",
    )


def member(value: bytes) -> bytes:
    """Return a packed value, as every Redisson since 3.21.1 packs it."""
    return HEAD.pack(8, os.urandom(8), len(value)) + value


def fill(server: redis.Redis, queue: str, count: int, first_ms: int, last_ms: int, *, prefix: str = "value-") -> None:
    """Put `count` values with random due times (whole ms, from `first_ms` to `last_ms`) into a queue."""
    timeouts, offered, channel = keys(queue)
    draw = random.Random(count)
    for numbers in chunks(count):
        scored = {member(f"{prefix}{number:07d}".encode()): draw.randint(first_ms, last_ms) for number in numbers}
        with server.pipeline(transaction=True) as pipeline:
            pipeline.zadd(timeouts, scored)
            pipeline.rpush(offered, *scored)
            pipeline.execute()
        if numbers[0] == 0 or numbers[-1] == count - 1:
            # As Java does for a new head: whoever serves the queue learns of it at once.
            head = server.zrange(timeouts, 0, 0, withscores=True)
            server.publish(channel, str(int(head[0][1])))


def chunks(count: int) -> Iterator[range]:
    """Yield the numbers below `count` in runs of CHUNK."""
    for first in range(0, count, CHUNK):
        yield range(first, min(count, first + CHUNK))


LOOK_EVERY_S = 0.01
#: Values of a filled queue fall due within this span, after everything is in and whoever moves them has settled.
SPREAD_MS = 200
FILL_PER_S = 40_000
SETTLE_S = 3
PROBE_ANSWER_S = 60
SLOW_US, SLOW_KEPT = 500, 10_000


@dataclass(frozen=True, slots=True)
class Blocks:
    """The slowest PING of a server, and its slowest command as it noted it: 0 ms and no name when below 0.5 ms."""

    ping_ms: float
    command_ms: float
    command: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """The move of one queue: how many values in how long, and what kept its server from others meanwhile."""

    waiting: int
    moved: int
    seconds: float
    blocks: Blocks

    @property
    def per_second(self) -> float:
        """Values moved a second, from the first due time on."""
        return self.moved / self.seconds

    def keeps(self, per_second: float, cap_s: float) -> bool:
        """Tell whether this many were moved a second, until nothing was left or the cap was reached."""
        return self.per_second >= per_second and (self.moved == self.waiting or self.seconds >= cap_s)

    def __str__(self) -> str:
        whole = "all" if self.moved == self.waiting else f"of {self.waiting:,}"
        return f"{self.per_second:,.0f}/s ({self.moved:,} {whole} in {self.seconds:.1f} s)"


class Probe:
    """Pings a server from a process of its own and knows the slowest command that the server noted since it began."""

    def __init__(self, server: redis.Redis, base: Path) -> None:
        options = server.connection_pool.connection_kwargs
        address = (str(options["host"]), str(options["port"]))
        command = [sys.executable, "-m", "bench.blocked", *address]
        self._server = server
        self._child = Child(command, log=base / "blocked.err", env={"PYTHONPATH": str(REPOSITORY)})
        self._child.wait_for(lambda lines: lines or None, PROBE_ANSWER_S, "the probe")
        server.config_set("slowlog-log-slower-than", SLOW_US)
        server.config_set("slowlog-max-len", SLOW_KEPT)
        # What was slow before, such as emptying the server, is nobody's here.
        server.slowlog_reset()

    def report(self) -> Blocks:
        """Return what was slowest since the last report."""
        seen = len(self._child.lines)
        self._child.say("report")
        answer = self._child.wait_for(lambda lines: lines[seen:] or None, PROBE_ANSWER_S, "the probe's report")
        slow = self._server.slowlog_get(SLOW_KEPT)
        self._server.slowlog_reset()
        slowest = max(slow, key=lambda entry: entry["duration"], default=None)
        ping_ms = json.loads(answer[-1])["longest_ms"]
        if slowest is None:
            return Blocks(ping_ms, 0, "")
        return Blocks(ping_ms, slowest["duration"] / 1_000, slowest["command"].split(b" ", 1)[0].decode())

    def close(self) -> None:
        """End the process that pings."""
        self._child.hang_up()


@contextmanager
def probing(server: redis.Redis, base: Path) -> Iterator[Probe]:
    """Yield a probe that ends with the block."""
    probe = Probe(server, base)
    try:
        yield probe
    finally:
        probe.close()


def fill_in_time(server: redis.Redis, queue: str, waiting: int) -> int:
    """Fill a queue before the first value falls due, and return when that is; on a slow machine at a second attempt."""
    allowed_s = SETTLE_S + waiting / FILL_PER_S
    while True:
        first_ms = int((time.time() + allowed_s) * 1_000)
        fill(server, queue, waiting, first_ms, first_ms + SPREAD_MS)
        if time.time() < first_ms / 1_000 - 1:
            return first_ms
        allowed_s *= 3
        print(f"  filling {queue} took too long; once more, {allowed_s:.0f} s ahead", file=sys.stderr)
        timeouts, offered, _ = keys(queue)
        server.delete(queue, timeouts, offered)


def transfer(server: redis.Redis, probe: Probe, queue: str, waiting: int, cap_s: float) -> Transfer:
    """Fill a queue that somebody serves already, wait until all is due, and watch its list grow for at most `cap_s`."""
    first_ms = fill_in_time(server, queue, waiting)
    pause = threading.Event()
    pause.wait(first_ms / 1_000 - time.time() - 0.1)
    probe.report()
    pause.wait(first_ms / 1_000 - time.time())
    begin = time.monotonic()
    moved = 0
    while moved < waiting and time.monotonic() - begin < cap_s:
        pause.wait(LOOK_EVERY_S)
        moved = server.llen(queue)
    seconds = time.monotonic() - begin
    return Transfer(waiting, moved, seconds, probe.report())


@dataclass(frozen=True, slots=True)
class Passes:
    """A script that moves `moved` values, and one LREM that finds nothing, each the median of several, in ms."""

    moved: int
    script_ms: float
    pass_ms: float


def passes(server: redis.Redis, queue: str, waiting: int, times: int) -> Passes:
    """Fill a queue with what is due, and move a batch and pass the list in turns, by the server's own clock."""
    past_ms = int(time.time() * 1_000) - 1_000
    fill(server, queue, waiting, past_ms - SPREAD_MS, past_ms)
    served = DelayedQueue(queue, server)
    settle(served, batch_for(waiting))
    scripts_us: list[int] = []
    passes_us: list[int] = []
    moved = 0
    # The first one may come with the script's text.
    for _ in range(times + 1):
        server.config_resetstat()
        moved = move_due(served, batch_for(waiting)).count
        scripts_us.append(spent_us(server, "eval"))
        server.config_resetstat()
        server.lrem(keys(queue)[1], 1, "nothing")
        passes_us.append(spent_us(server, "lrem"))
    return Passes(moved, median(scripts_us[1:]) / 1_000, median(passes_us[1:]) / 1_000)


def settle(queue: DelayedQueue, batch: int) -> None:
    """Move due batches until one is whole and the index has nothing left to do.

    Neither alone is enough: while the first due value is in front of the list there is no index, and nothing to tend.
    """
    while not tend_index(queue) or move_due(queue, batch).count < batch:
        continue


def spent_us(server: redis.Redis, name: str) -> int:
    """Return what commands whose name begins so took since the counts began; the slow log leaves out quick ones."""
    counts = server.info("commandstats")
    return sum(entry["usec"] for command, entry in counts.items() if command.startswith(f"cmdstat_{name}"))
