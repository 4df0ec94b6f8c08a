"""The pages' clock: the broker's, which is the real one unless it is simulated."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from django.utils.timezone import get_current_timezone

from broker.mirror.clock_file import ClockLine, broker_now_ms, clock_file

__all__ = ["ClockLine", "epoch_ms", "local_time", "now_ms", "real_ms", "real_now_ms", "shown_ms", "simulated"]


def now_ms() -> int:
    """Return the broker's time in epoch ms, for comparison with its own moments."""
    return broker_now_ms()


def real_now_ms() -> int:
    """Return the real time in epoch ms, for what the console itself notes and what lives beside the broker."""
    return time.time_ns() // 1_000_000


def shown_ms(real_ms: int) -> int:
    """Return what the broker's clock showed at a real moment, so that other clocks' moments can stand beside its
    own."""
    line = clock_file().line()
    return real_ms if line is None else line.at(real_ms)


def real_ms(moment_ms: int) -> int:
    """Return the real moment at which the broker's clock shows this one: the way back from `shown_ms`."""
    line = clock_file().line()
    return moment_ms if line is None else round(line.real_ms + (moment_ms - line.simulated_ms) / line.speed)


def simulated() -> ClockLine | None:
    """Return how the broker's clock is simulated, None if it is not."""
    return clock_file().line()


def epoch_ms(moment: datetime | None) -> int | None:
    """Return a moment of a row in ms since 1970, None where there is none."""
    return None if moment is None else round(moment.timestamp() * 1000)


def local_time(ms: float) -> datetime:
    """Return a moment by the clock of the reader's zone."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(get_current_timezone())
