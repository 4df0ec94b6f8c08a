"""How busy a client was of late: sums of the last minute, and of the last hour for failures."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

MINUTE_S = 60.0
HOUR_S = 3600.0
#: A span moves on in so many steps (RocketMQ's StatsItem samples a minute in 6).
STEPS = 6


class Recent:
    """How often something happened in the last `span_s` seconds, and a sum over it."""

    def __init__(self, span_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._span_s = span_s
        self._clock = clock
        self._began_s = clock()
        #: of each step when it began, how often it happened, the sum
        self._steps: deque[list[float]] = deque()
        self._last: list[float] = []
        self._last_ends_s = float("-inf")

    def add(self, amount: float = 0.0, count: int = 1) -> None:
        """It happened `count` times now, `amount` in all."""
        now_s = self._clock()
        if now_s >= self._last_ends_s:
            self._last = [now_s, 0, 0.0]
            self._last_ends_s = now_s + self._span_s / STEPS
            self._steps.append(self._last)
            self._forget(now_s)
        self._last[1] += count
        self._last[2] += amount

    def _forget(self, now_s: float) -> None:
        while self._steps and self._steps[0][0] <= now_s - self._span_s:
            self._steps.popleft()

    @property
    def count(self) -> int:
        """How often."""
        return int(self.sums()[0])

    @property
    def per_s(self) -> float:
        """How often a second; over less than the span while it is younger."""
        return self.sums()[0] / min(self._span_s, max(1.0, self._clock() - self._began_s))

    def sums(self) -> tuple[float, float]:
        """How often, and the sum."""
        self._forget(self._clock())
        return sum(step[1] for step in self._steps), sum(step[2] for step in self._steps)


def mean(several: Iterable[Recent]) -> float:
    """What was summed, shared among all times; 0 if there was none."""
    sums = [each.sums() for each in several]
    count = sum(each[0] for each in sums)
    return sum(each[1] for each in sums) / count if count else 0.0


@dataclass(slots=True)
class Pulling:
    """The pulls of one queue. `pulls` sums ms; moments are ms since the epoch, 0 for never."""

    pulls: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    messages: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    pulled_ms: int = 0
    done_ms: int = 0

    def pulled(self, took_ms: float, messages: int) -> None:
        """A pull was answered."""
        self.pulled_ms = _now_ms()
        self.pulls.add(took_ms)
        if messages:
            self.messages.add(count=messages)

    def done(self) -> None:
        """A message is finished."""
        self.done_ms = _now_ms()


@dataclass(slots=True)
class Handling:
    """What handlers did for one topic; `worked` and `failed` sum ms."""

    worked: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    failed: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    failed_of_hour: Recent = field(default_factory=lambda: Recent(HOUR_S))

    def ended(self, took_ms: float, *, has_worked: bool) -> None:
        """A handler has ended."""
        if has_worked:
            self.worked.add(took_ms)
        else:
            self.failed.add(took_ms)
            self.failed_of_hour.add()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
