"""Timers that are late by a tick at most, never early, and forgotten when they are taken back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.site.coarse_timers import TICK_S, CoarseTimers, coarse_timers


class Loop:
    """As much of an event loop as they use, with a clock that a test sets; uvloop calls a timer a little early."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.planned: tuple[float, Any] | None = None
        self.failures: list[dict[str, Any]] = []
        self.create_task = None

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, call: Any) -> Loop:
        assert self.planned is None
        self.planned = (when_s, call)
        return self

    def cancel(self) -> None:
        self.planned = None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def go_on(self, until_s: float) -> None:
        while self.planned is not None and self.planned[0] <= until_s:
            self.now_s, call = max(self.now_s, self.planned[0] - 0.001), self.planned[1]
            self.planned = None
            call()
        self.now_s = max(self.now_s, until_s)


def made() -> tuple[Loop, CoarseTimers]:
    loop = Loop()
    return loop, CoarseTimers(loop)  # type: ignore[arg-type]  # as much of one as is used


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 3), st.booleans()), max_size=30))
def test_each_ends_once_in_its_time_unless_it_is_taken_back(steps: list[tuple[float, float, bool]]) -> None:
    loop, timers = made()
    ended: dict[int, float] = {}
    due: dict[int, float] = {}

    def end(number: int) -> None:
        assert number not in ended
        ended[number] = loop.now_s

    for number, (delay_s, later_s, is_taken_back) in enumerate(steps):
        timer = timers.call_later(delay_s, partial(end, number))
        assert timer.when() == loop.now_s + delay_s
        if is_taken_back:
            timer.cancel()
            timer.cancel()
        else:
            due[number] = timer.when()
        loop.go_on(loop.now_s + later_s)
    loop.go_on(loop.now_s + 30)
    assert ended.keys() == due.keys()
    for number, when_s in due.items():
        assert when_s - 0.002 <= ended[number] <= when_s + TICK_S
    assert loop.planned is None


def test_one_that_fails_stops_no_other() -> None:
    loop, timers = made()
    told: list[str] = []
    timers.call_later(1, lambda: told.append("one"))
    timers.call_later(1, lambda: 1 // 0)
    timers.call_later(1, lambda: told.append("two"))
    loop.go_on(2)
    assert sorted(told) == ["one", "two"]
    assert [type(each["exception"]) for each in loop.failures] == [ZeroDivisionError]


async def test_those_of_one_loop_are_shared() -> None:
    loop = asyncio.get_running_loop()
    assert coarse_timers(loop) is coarse_timers(loop)
    done = loop.create_future()
    coarse_timers(loop).call_later(0, lambda: done.set_result(loop.time()))
    assert await done >= 0
