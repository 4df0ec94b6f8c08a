"""The broker of a test, and the thread in which it runs: a real one on a socket, with files in memory and a clock that
the test moves.

The thread and the addresses are the process's, and stay the same from test to test, so that a client that a project
keeps for good finds the broker of each test. Broker and store are the test's: they begin empty.

That clock stands still. It begins at the machine's time, and moves when the test moves it: from one moment at which
something is due to the next, so that each message comes out when its own moment has come. What is between living
processes (connections, long polls) goes by the machine's clock.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..engine.config import MEBIBYTE, EngineConfig
from ..engine.engine import Engine
from ..rocketmq.properties import TIMER_DELIVER_MS
from ..rocketmq.topics import DELAY_LEVELS
from ..server.broker import BrokerService
from ..server.clock import Clocks, wall_clock_ms
from ..server.listener import bound
from .memory import MemoryFiles
from .threads import LoopThread

HOST = "127.0.0.1"
#: Twenty years: nothing that a test has sent goes away because its clock was moved.
RETENTION_HOURS = 175_200.0
#: Times that ports are looked for, should other programs take them in between.
PORTS_TRIED = 10
#: How long answers of producers about their halves are waited for after the last one that came, in real time.
ANSWERS_S, LOOK_S = 0.1, 0.001
#: Timers looked at for those whose moment was reckoned by the machine's clock.
MOST_RECKONED = 1_000

Result = TypeVar("Result")


class HandClock:
    """A clock in ms since 1970 that stands still until it is set, and never goes back."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def __call__(self) -> int:
        """Return the time that it shows."""
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Show this time from now on, unless it has passed."""
        self._now_ms = max(self._now_ms, now_ms)


class Stage:
    """The broker of one test. All methods but `call` and `run` belong to its event loop."""

    def __init__(self, house: House, delay_levels: str | None) -> None:
        self._house = house
        self.clock = HandClock(wall_clock_ms())
        self.began_ms = self.clock()
        self._config = EngineConfig(
            root="/store", host=HOST, port=house.broker_port, flush="async", segment_size_bytes=16 * MEBIBYTE,
            queue_file_entries=1000, index_slots=1000, index_entries=4000, retention_hours=RETENTION_HOURS,
            delay_levels=delay_levels or DELAY_LEVELS,
        )  # fmt: skip
        self.service = BrokerService(
            self._config, listen_host=HOST, namesrv_port=house.namesrv_port, files=MemoryFiles(),
            clocks=Clocks(broker=self.clock, live=wall_clock_ms), vip_channel=False, is_alone=False,
        )  # fmt: skip
        self.own_topics: frozenset[str] = frozenset()

    @property
    def engine(self) -> Engine:
        """The engine of the broker."""
        return self.service.engine

    @property
    def namesrv(self) -> str:
        """The address that clients are given, host:port."""
        return f"{HOST}:{self._house.namesrv_port}"

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the broker's loop, from any other thread, and return its result, however long it takes."""
        return self._house.thread.run(work, None)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the broker's loop, from any other thread, and return its result."""
        return self.run(_called(function))

    async def start(self) -> None:
        """Open the store and begin to serve."""
        await self.service.start()
        self.own_topics = frozenset(topic.name for topic in self.engine.topics.all())

    async def stop(self) -> dict[str, int]:
        """Stop; returns the consumers that are still connected, by group."""
        left = self.service.consumers
        await self.service.stop()
        return left

    async def forward(self, end_ms: int) -> None:
        """Move the clock to a moment, by way of all that is due until then."""
        next_ms = await self._settled()
        end_ms = max([end_ms, *self._reckoned_until(end_ms)])
        while next_ms is not None and next_ms <= end_ms:
            self.clock.set(next_ms)
            next_ms = await self._settled()
        self.clock.set(end_ms)
        await self._settled()
        self.service.look_again()
        await self.service.settle()

    async def _settled(self) -> int | None:
        """Have everything done that is due now, also by producers; return when more will be."""
        while True:
            next_ms = await self.service.settle()
            if not len(self.engine.transactions.table.halves) or not self.service.ask_producers():
                return next_ms
            await self._answers()

    async def _answers(self) -> None:
        """Wait while producers say what became of their halves; those who know nothing are waited for in vain."""
        table, quiet_s = self.engine.transactions.table, 0.0
        count = len(table.halves)
        while count and quiet_s < ANSWERS_S:
            await asyncio.sleep(LOOK_S)
            await self.service.settle()
            quiet_s = quiet_s + LOOK_S if len(table.halves) == count else 0.0
            count = len(table.halves)

    def _reckoned_until(self, end_ms: int) -> list[int]:
        """Return the moments behind `end_ms` of timers that are meant to have come by then.

        While a test runs the machine's clock is ahead of this one, by as much as the time that the test has taken. Who
        sends a message and says `time.time() + 24 hours` means 24 hours from then, not that little more.
        """
        window_ms = wall_clock_ms() - self.began_ms
        if window_ms <= 0:
            return []
        page = self.engine.timers.listing.page(
            end_ms + 1, end_ms + window_ms, limit=MOST_RECKONED, now_ms=self.clock()
        )  # fmt: skip
        found = []
        for timer in page["items"]:
            ahead_ms = timer["bornMs"] - timer["storeMs"]
            if ahead_ms > 0 and timer["dueMs"] - ahead_ms <= end_ms and self._is_named(timer["position"]):
                found.append(timer["dueMs"])
        return found

    def _is_named(self, position: int) -> bool:
        """Tell whether the sender of a timer has named its moment, and not a delay."""
        return TIMER_DELIVER_MS.encode() in self.engine.record_at(position)


async def _called(function: Callable[[], Result]) -> Result:
    return function()


# The thread and the addresses of all tests of this process.


class House:
    """The thread of the brokers of all tests, one after the other, and the addresses where they listen."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.thread = LoopThread("escapement-testing")
        self.broker_port, self.namesrv_port = _free_port(), _free_port()
        self._has_served = False
        self._stage: Stage | None = None

    def open(self, delay_levels: str | None) -> Stage:
        """Return a broker that has started. Raises OSError where there is no port for it, RuntimeError while there is
        another one."""
        if self._stage is not None:
            raise RuntimeError("A broker of a test runs already: there is one at a time in a process.")
        for _ in range(PORTS_TRIED):
            stage = Stage(self, delay_levels)
            try:
                self.thread.run(stage.start())
            except OSError:
                if self._has_served:
                    raise
                self.broker_port, self.namesrv_port = _free_port(), _free_port()
            else:
                self._has_served = True
                self._stage = stage
                return stage
        raise OSError(f"No port of {HOST} was free for a broker, {PORTS_TRIED} times.")

    def close(self, stage: Stage) -> dict[str, int]:
        """Stop the broker; returns the consumers that were still connected, by group."""
        self._stage = None
        return self.thread.run(stage.stop())


def _free_port() -> int:
    with bound(HOST, 0) as probe:
        port: int = probe.getsockname()[1]
    return port


_houses: list[House] = []


def house() -> House:
    """Return the one of this process, made at first use; a forked child has one of its own."""
    if not _houses or _houses[-1].process != os.getpid():
        _houses.append(House())
    return _houses[-1]


@atexit.register
def end_house() -> None:
    """End the thread, if this process has one; idempotent."""
    if _houses and _houses[-1].process == os.getpid():
        _houses.pop().thread.end()
