"""The clocks of a broker: the machine's, or for demonstrations a simulated one that runs faster.

A broker has two clocks. The *broker's clock* rules what is stored and what falls due: store times, delay levels,
timers, ages of halves, invisible times of popped messages, retention, rates. The *live clock* rules what is between
living processes: silence of connections, half frames, queue locks, long polls, how long an answer took. They are one
and the same unless the broker's clock is simulated.

A simulated clock is written down in the store, so that the next broker goes on where this one stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..engine.disk import Files
from ..engine.log.checkpoint import note_reached, reached_ms

logger = logging.getLogger(__name__)

HIGHEST_SPEED = 3_600
"""An hour a second: the wheel of timers turns 3,600 slots, more is not worth looking at."""


def wall_clock_ms() -> int:
    """Return the machine's time in ms since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated clock to be: `speed` ms of it pass in one; it starts at `start_ms`, if None at the real moment."""

    speed: float
    start_ms: int | None = None
    steady_ns: Callable[[], int] = time.monotonic_ns

    @classmethod
    def read(cls, text: str) -> Simulation:
        """Read a simulation such as `60` or `2026-01-01T00:00:00Z@60`. Raises ValueError with what is wrong."""
        moment, _, factor = text.strip().rpartition("@")
        try:
            speed = float(factor)
        except ValueError:
            speed = 0.0
        if not 0 < speed <= HIGHEST_SPEED:
            raise ValueError(
                f"{text!r} is no simulated clock: a speed above 0 and up to {HIGHEST_SPEED}, like 60, or a time and"
                " a speed, like 2026-01-01T00:00:00Z@60"
            )
        return cls(speed, _start_ms(moment) if moment else None)


def _start_ms(text: str) -> int:
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time to start a simulated clock at, like 2026-01-01T00:00:00Z") from None
    if start.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: end it with Z, or +08:00")
    if start.timestamp() <= 0:
        raise ValueError(f"{text!r} is before 1970")
    return round(start.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks of a broker. Without a live one it is the broker's, which a `simulation` replaces."""

    broker: Callable[[], int] = wall_clock_ms
    live: Callable[[], int] | None = None
    simulation: Simulation | None = None


WALL_CLOCK = Clocks()


class SimulatedClock:
    """A clock that shows `start_ms` when it is made, and runs `speed` times as fast as `steady_ns`."""

    def __init__(self, start_ms: int, speed: float, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.speed = speed
        self._start_ms = start_ms
        self._steady_ns = steady_ns
        self._began_ns = steady_ns()

    def __call__(self) -> int:
        """Return the simulated time in ms since 1970; it never goes back."""
        return self._start_ms + int((self._steady_ns() - self._began_ns) * self.speed / 1_000_000)


# The simulated clock of a store is written down there.

NOTE_INTERVAL_S = 1.0
"""How often the moment is written down, twice as far ahead: so much is skipped after a kill, nothing comes again."""


class Simulator:
    """The clock of one store: from where it was left, or from the start that is wanted, whatever is later."""

    def __init__(self, simulation: Simulation, files: Files, root: str, live_clock: Callable[[], int]) -> None:
        reached, wanted = reached_ms(files, root), simulation.start_ms
        if wanted is None:
            wanted = live_clock() if reached is None else reached
        self.clock = SimulatedClock(max(wanted, reached or 0), simulation.speed, simulation.steady_ns)
        self._files = files
        self._root = root
        self._timer: asyncio.TimerHandle | None = None

    def keep(self) -> None:
        """Write the moment down, now and again and again."""
        self._timer = asyncio.get_running_loop().call_later(NOTE_INTERVAL_S, self.keep)
        self._note(self.clock() + round(2_000 * NOTE_INTERVAL_S * self.clock.speed))

    def stop(self, now_ms: int) -> None:
        """Write down the last moment of this broker; nothing is stored after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._note(now_ms)

    def _note(self, moment_ms: int) -> None:
        try:
            note_reached(self._files, self._root, moment_ms)
        except OSError as error:
            logger.error("the simulated clock could not be written down: %s", error)
