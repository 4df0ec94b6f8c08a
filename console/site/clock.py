"""The pages' clock: the broker's, which is the real one unless it is simulated."""

from __future__ import annotations

import time

from broker.mirror.clock_file import ClockLine, broker_now_ms, clock_file

__all__ = ["ClockLine", "now_ms", "real_now_ms", "shown_ms", "simulated"]


def now_ms() -> int:
    """The broker's time, epoch ms: what its own moments are compared with."""
    return broker_now_ms()


def real_now_ms() -> int:
    """The real time, epoch ms: for what the console itself notes, and what lives beside the broker."""
    return time.time_ns() // 1_000_000


def shown_ms(real_ms: int) -> int:
    """What the broker's clock showed at a real moment: for what is told by other clocks and stands beside its own."""
    line = clock_file().line()
    return real_ms if line is None else line.at(real_ms)


def simulated() -> ClockLine | None:
    """How the broker's clock is simulated, None if it is not."""
    return clock_file().line()
