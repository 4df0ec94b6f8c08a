"""How fast timers are released here, found out by releasing some: the program of a self-test.

    python -m broker.server.measuring DIRECTORY sync|async

An engine of its own is made in the directory, on the disk of the store, and driven by the broker's own pump. It is
given timers of one moment, as a herd comes, and its figure is the one that any engine has of a herd (timer/pace.py).

    take ──► synced ──► encoded ahead, as those of a real herd are ──► the clock is moved to their moment ──► released

What it found is one line of JSON. The directory goes at the end; what is left of it after a kill goes with the next
start of the broker. The system ends a process that takes far too long.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import time
from statistics import mean
from typing import Literal

import uvloop

from ..engine.config import EngineConfig
from ..engine.disk import OsFiles
from ..engine.engine import Engine
from ..engine.log.ticket import Ticket
from ..rocketmq.message import pack_host
from ..rocketmq.properties import TIMER_DELIVER_MS, UNIQUE_KEY, WAIT, format_properties
from .clock import wall_clock_ms
from .pump import Pump, tune_interpreter

#: Timers of the first herd, by which everything is used once and which tells how much of the processor it takes to take
#: timers; and of those that are measured, as many as are taken in so many seconds of it.
WARM_COUNT = 1_000
LEAST_COUNT, MOST_COUNT, _TAKING_S = 4_000, 5_000, 0.15
#: Herds that are measured; their mean counts, as one that comes under load meets what else runs on the machine, too.
HERDS = 2
BODY = bytes(128)
TOPIC, QUEUES = "self-test", 4
#: A herd of so few takes less time than one that is met by chance has to.
LEAST_BURST_MS = 5
#: Timers taken before others of the loop have their turn.
_AT_ONCE = 200
#: How far ahead they are due: those of so few seconds are encoded at once, and the clock moves less than a step of it.
_AHEAD_MS = 1_900
#: Herds that are tried until enough were encoded in time, which only a machine that is far too busy keeps them from.
_MOST_TRIED = 6
_LOOK_S, PATIENCE_S = 0.005, 10.0
#: Seconds of processor, and of time, after which the system ends it.
_MOST_PROCESSOR_S, _MOST_S = 5, 20
_NEVER_MS = 1 << 60
_BORN_HOST = pack_host("127.0.0.1", 0)


class NotMeasured(Exception):
    """The timers did not all go out, or not together."""


def main(arguments: list[str]) -> int:
    """Measure in a directory, which is made and removed; print the figure."""
    root, flush = arguments
    os.umask(0o077)
    signal.alarm(_MOST_S)
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_PROCESSOR_S, _MOST_PROCESSOR_S + 1))
    files = OsFiles()
    files.remove_directory(root)
    try:
        per_s, count = uvloop.run(measure(root, "sync" if flush == "sync" else "async"))
    except (NotMeasured, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        files.remove_directory(root)
    processor_s = round(time.process_time(), 3)
    sys.stdout.write(json.dumps({"perS": per_s, "count": count, "processorS": processor_s}) + "\n")
    return 0


def config_of(root: str, flush: Literal["sync", "async"]) -> EngineConfig:
    """Return the settings of the engine that is measured: files so small that all of them are some MB."""
    return EngineConfig(
        root=root, broker_name="self-test", flush=flush, segment_size_bytes=15 << 20, queue_file_entries=10_000,
        index_slots=10_000, index_entries=100_000, timer_slots=600, timer_log_file_bytes=2 << 20,
        # what a checkpoint costs is no part of it: it comes every few seconds, and this is over in one
        checkpoint_interval_ms=_NEVER_MS, save_interval_ms=_NEVER_MS,
    )  # fmt: skip


async def measure(root: str, flush: Literal["sync", "async"]) -> tuple[float, int]:
    """Return how many timers a second were released, and of how many. Raises NotMeasured, OSError."""
    herds = Herds(root, flush)
    try:
        warm_s = await herds.take(WARM_COUNT)
        await herds.release()
        count = min(max(round(_TAKING_S / warm_s) * WARM_COUNT, LEAST_COUNT), MOST_COUNT)
        found: list[float] = []
        for _ in range(_MOST_TRIED):
            await herds.take(count)
            if (per_s := await herds.release()) is not None:
                found.append(per_s)
            if len(found) == HERDS:
                break
    finally:
        herds.stop()
    if not found:
        raise NotMeasured("The machine is too busy.")
    return round(mean(found), 1), count


class Herds:
    """An engine that is given herds of timers, by a clock that moves to the moment of each."""

    def __init__(self, root: str, flush: Literal["sync", "async"]) -> None:
        self._moved_ms = self._due_ms = self._total = 0
        self._failures: list[str] = []
        self._engine = engine = Engine.open(config_of(root, flush), OsFiles(), wall_clock_ms())
        engine.topics.ensure(TOPIC, QUEUES)
        self._pump = Pump(
            engine, self._clock, stored=lambda _tickets: None, arrived=lambda _arrivals: None, failed=self._failed,
            is_inline=flush == "async",
        )  # fmt: skip
        tune_interpreter()
        self._pump.start()

    def _clock(self) -> int:
        return wall_clock_ms() + self._moved_ms

    def _failed(self, reason: str, _lost: list[Ticket]) -> None:
        self._failures.append(reason)

    async def take(self, count: int) -> float:
        """Take timers of one moment; return how many seconds of the processor that took."""
        began_s = time.process_time()
        self._due_ms = self._clock() + _AHEAD_MS
        for begin in range(0, count, _AT_ONCE):
            for number in range(begin, min(begin + _AT_ONCE, count)):
                self._append(number)
            self._pump.kick()
            await asyncio.sleep(0)
        await self._pump.drain()
        self._total += count
        return time.process_time() - began_s

    def _append(self, number: int) -> None:
        key, now_ms = f"{self._due_ms:016X}{number:016X}", self._clock()
        properties = {UNIQUE_KEY: key, WAIT: "true", TIMER_DELIVER_MS: str(self._due_ms)}
        self._engine.append(
            TOPIC, number % QUEUES, BODY, format_properties(properties),
            born_ms=now_ms, born_host=_BORN_HOST, now_ms=now_ms,
        )  # fmt: skip

    async def release(self) -> float | None:
        """Release what was taken; return how many a second, None if it was due before all of it was encoded. Raises
        NotMeasured if it does not go out."""
        due, pace = self._engine.timers.index.due, self._engine.timers.pace
        while due.has_unready and self._clock() < self._due_ms:  # noqa: ASYNC110 - nothing tells when all is encoded
            await asyncio.sleep(_LOOK_S)
        left_ms = self._due_ms - self._clock()
        pace.begin_anew(LEAST_BURST_MS)
        if left_ms > 0:
            self._moved_ms += left_ms
            self._pump.hurry()
        until_s = time.monotonic() + PATIENCE_S
        while self._engine.timers.states.totals.released < self._total:
            if self._failures or time.monotonic() > until_s:
                raise NotMeasured(self._failures[0] if self._failures else "The timers were not released in time.")
            await asyncio.sleep(_LOOK_S)
        return pace.capacity_per_s if left_ms > 0 else None

    def stop(self) -> None:
        """End the threads of the pump."""
        self._pump.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
