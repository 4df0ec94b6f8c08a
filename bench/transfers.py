"""How fast due values reach their list, and how long the server answers nobody else meanwhile."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.rows import REPOSITORY
from bench.waiting import fill, keys
from tests.interop.process import Child

LOOK_EVERY_S = 0.01
#: Values of a filled queue fall due within this span, after everything is in and whoever moves them has settled.
SPREAD_MS = 200
FILL_PER_S = 40_000
SETTLE_S = 3
PROBE_ANSWER_S = 60


@dataclass(frozen=True, slots=True)
class Transfer:
    """One queue moved: how many values in how long, the slowest PING and the slowest command of the server."""

    waiting: int
    moved: int
    seconds: float
    slowest_ping_ms: float
    slowest_command_ms: float

    @property
    def per_second(self) -> float:
        """Values moved a second, from the first due time on."""
        return self.moved / self.seconds


class Probe:
    """Pings a server from a process of its own and knows the slowest command that the server noted."""

    def __init__(self, server: redis.Redis, base: Path) -> None:
        options = server.connection_pool.connection_kwargs
        address = (str(options["host"]), str(options["port"]))
        command = [sys.executable, "-m", "bench.blocked", *address]
        self._server = server
        self._child = Child(command, log=base / "blocked.err", env={"PYTHONPATH": str(REPOSITORY)})
        self._child.wait_for(lambda lines: lines or None, PROBE_ANSWER_S, "the probe")
        server.config_set("slowlog-log-slower-than", 500)
        server.config_set("slowlog-max-len", 10_000)

    def report(self) -> tuple[float, float]:
        """Slowest PING and slowest command since the last report, both in ms; the latter 0 when below 0.5 ms."""
        seen = len(self._child.lines)
        self._child.say("report")
        answer = self._child.wait_for(lambda lines: lines[seen:] or None, PROBE_ANSWER_S, "the probe's report")
        slow = self._server.slowlog_get(10_000)
        self._server.slowlog_reset()
        return json.loads(answer[-1])["longest_ms"], max((entry["duration"] for entry in slow), default=0) / 1_000

    def close(self) -> None:
        """End the process."""
        self._child.hang_up()


@contextmanager
def probing(server: redis.Redis, base: Path) -> Iterator[Probe]:
    """A probe that ends with the block."""
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
    ping_ms, command_ms = probe.report()
    return Transfer(waiting, moved, seconds, ping_ms, command_ms)
