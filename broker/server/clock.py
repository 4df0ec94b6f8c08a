"""What time it is for a broker: the machine's, or for demonstrations a simulated one that runs faster.

Two clocks stand in a broker. By the *broker's clock* goes what is stored and what falls due: store times, delay levels,
timers, ages of halves, invisible times of popped messages, retention, rates. By the *live clock* goes what is between
living processes: silence of connections, half frames, queue locks, long polls, how long an answer took. They are one
and the same unless the broker's clock is simulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

HIGHEST_SPEED = 3_600
"""An hour a second: the wheel of timers turns 3,600 slots, more is not worth looking at."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """How a clock is simulated: `speed` ms of it pass in one; it starts at `start_ms`, if None at the real moment."""

    speed: float
    start_ms: int | None = None
    steady_ns: Callable[[], int] = time.monotonic_ns

    @classmethod
    def read(cls, text: str) -> Simulation:
        """From `60` or `2026-01-01T00:00:00Z@60`. Raises ValueError with what is wrong."""
        moment, _, factor = text.strip().rpartition("@")
        try:
            speed = float(factor)
        except ValueError:
            speed = 0.0
        if not 0 < speed <= HIGHEST_SPEED:
            raise ValueError(
                f"{text!r} is no simulated clock: a speed above 0 and up to {HIGHEST_SPEED}, like 60, or a moment and"
                " a speed, like 2026-01-01T00:00:00Z@60"
            )
        return cls(speed, _start_ms(moment) if moment else None)


def _start_ms(text: str) -> int:
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment to start a simulated clock at, like 2026-01-01T00:00:00Z") from None
    if start.tzinfo is None:
        raise ValueError(f"{text!r} does not say its zone: end it with Z, or +08:00")
    if start.timestamp() <= 0:
        raise ValueError(f"{text!r} is before 1970")
    return round(start.timestamp() * 1000)


class SimulatedClock:
    """A clock that shows `start_ms` when it is made, and runs `speed` times as fast as `steady_ns`."""

    def __init__(self, start_ms: int, speed: float, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.speed = speed
        self._start_ms = start_ms
        self._steady_ns = steady_ns
        self._began_ns = steady_ns()

    def __call__(self) -> int:
        """Milliseconds since 1970, as simulated; never goes back."""
        return self._start_ms + int((self._steady_ns() - self._began_ns) * self.speed / 1_000_000)
