"""Timers for what mostly does not come to its end: they are up to a quarter of a second late, and cost little.

A timer of uvloop's is made and taken back in two microseconds, which each request of REST would pay for the time that
its connection may stay idle. Here all that end within one tick stand in one dict, and one timer of the loop waits for
the next tick that has any.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import TimerHandle
from collections.abc import Callable

TICK_S = 0.25


class CoarseTimer:
    """One of them, as `call_later` returns it."""

    __slots__ = ("_bucket", "_call", "_when_s")

    def __init__(self, call: Callable[[], object], when_s: float, bucket: dict[CoarseTimer, None]) -> None:
        self._call = call
        self._when_s = when_s
        self._bucket = bucket
        bucket[self] = None

    def cancel(self) -> None:
        """Take it back; nothing happens where it has ended."""
        self._bucket.pop(self, None)

    def when(self) -> float:
        """Return when it ends, in the loop's seconds."""
        return self._when_s


class CoarseTimers:
    """An event loop's coarse timers, by the number of the tick that ends them.

    They stand for the loop where uvicorn's connections want tasks and timers of one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.create_task = loop.create_task
        self._buckets: dict[int, dict[CoarseTimer, None]] = {}
        self._next: TimerHandle | None = None
        self._next_tick = 0

    def call_later(self, delay_s: float, call: Callable[[], object]) -> CoarseTimer:
        """Call it when so much time has passed, or up to a tick later."""
        when_s = self.loop.time() + delay_s
        tick = math.ceil(when_s / TICK_S)
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            if self._next is None or tick < self._next_tick:
                self._plan(tick)
        return CoarseTimer(call, when_s, bucket)

    def _plan(self, tick: int) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next_tick = tick
        self._next = self.loop.call_at(tick * TICK_S, self._end)

    def _end(self) -> None:
        self._next = None
        ended = [self._buckets.pop(tick) for tick in sorted(self._buckets) if tick <= self._next_tick]
        if self._buckets:
            self._plan(min(self._buckets))
        for bucket in ended:
            while bucket:
                timer, _ = bucket.popitem()
                try:
                    timer._call()
                except Exception as error:  # as the loop does it: one that fails is no reason to forget the others
                    self.loop.call_exception_handler({"message": "a timer failed", "exception": error})


_latest: CoarseTimers | None = None


def coarse_timers(loop: asyncio.AbstractEventLoop) -> CoarseTimers:
    """Return the coarse timers of a loop, which all that use it share; a process serves in one at a time."""
    global _latest
    if _latest is None or _latest.loop is not loop:
        _latest = CoarseTimers(loop)
    return _latest
