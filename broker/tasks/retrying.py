"""How often a task is tried again, and after which pauses: said at its function, or for all tasks of a backend.

>>> @task
... @retry(times=5, pause=timedelta(seconds=10))
... def charge(order_id): ...

Pauses are timers of the broker: no worker waits, and they can be seen, cancelled and moved like any waiting task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "escapement_retry"
MOST_TIMES = 1_000
_NAMES = ("times", "pause", "factor", "longest", "on")


@dataclass(frozen=True, slots=True)
class Retry:
    """After each of the first `times` failures another attempt: after `pause`, then `factor` times as long, and so on.

    No pause is longer than `longest`. `on`: the exceptions after which there is another attempt; others end the task.
    """

    times: int
    pause: timedelta = timedelta(seconds=10)
    factor: float = 2.0
    longest: timedelta = timedelta(hours=1)
    on: tuple[type[BaseException], ...] = (Exception,)

    def __post_init__(self) -> None:
        if not isinstance(self.times, int) or not 0 <= self.times <= MOST_TIMES:
            raise ValueError(f"times={self.times!r} of a retry is not valid: 0 to {MOST_TIMES:,}.")
        if not isinstance(self.pause, timedelta) or self.pause < timedelta(0):
            raise ValueError(f"pause={self.pause!r} of a retry is not valid: a timedelta that is not negative.")
        if not isinstance(self.longest, timedelta) or self.longest < self.pause:
            raise ValueError(f"longest={self.longest!r} of a retry is not valid: a timedelta, at least its pause.")
        if not 1.0 <= self.factor <= 100.0:
            raise ValueError(f"factor={self.factor!r} of a retry is not valid: 1 to 100.")

    def pause_after(self, failures: int, error: BaseException) -> timedelta | None:
        """Return how long to rest after so many failures, the last by `error`; None: that was the last attempt."""
        if failures > self.times or not isinstance(error, self.on):
            return None
        longest_s = self.longest.total_seconds()
        pause_s = self.pause.total_seconds()
        for _ in range(failures - 1):
            pause_s = min(pause_s * self.factor, longest_s)
        return timedelta(seconds=pause_s)


NEVER = Retry(0)


def retry(
    times: int, *, pause: timedelta = timedelta(seconds=10), factor: float = 2.0,
    longest: timedelta = timedelta(hours=1), on: tuple[type[BaseException], ...] = (Exception,),
) -> Callable[[Function], Function]:  # fmt: skip
    """Have a task's function tried again (below `@task`); raises ValueError for what makes no sense."""
    wanted = Retry(times, pause, factor, longest, on)

    def mark(function: Function) -> Function:
        if not hasattr(function, "__code__"):
            raise ValueError("@retry(...) stands below @task: it is for the function, not for the task.")
        setattr(function, _ATTRIBUTE, wanted)
        return function

    return mark


def retry_of(function: Callable[..., Any], default: Retry = NEVER) -> Retry:
    """Return what was said at the function, or the default."""
    found: Retry = getattr(function, _ATTRIBUTE, default)
    return found


def read_retry(given: Mapping[str, Any] | None) -> Retry:
    """Return OPTIONS["RETRY"], whose names are those of `retry`; raises ValueError."""
    if given is None:
        return NEVER
    unknown = sorted(set(given) - set(_NAMES))
    if unknown or "times" not in given:
        raise ValueError(
            f"RETRY needs times, and may have {', '.join(_NAMES[1:])}; given: {', '.join(given) or 'none'}."
        )
    return Retry(**given)
