"""What an engine offers around timers, beside sending: the bodies of requests 14002 to 14008, 60 and 61."""

from __future__ import annotations

from typing import Any

from ..errors import StoreFailed
from .parking import checked_key
from .service import Timers
from .steer import Action, Outcome, Target

__all__ = ["UNITS_PER_ANSWER", "Action", "Outcome", "Target", "TimerDoors", "checked_key"]

#: Units looked at for one answer: half a second at most.
UNITS_PER_ANSWER = 20_000


class TimerDoors:
    """The timer half of an engine. All times in ms since 1970; everything returned as a dict is ready for JSON."""

    timers: Timers

    def timers_list(
        self,
        from_ms: int,
        to_ms: int,
        *,
        topic: str | None = None,
        key: str | None = None,
        limit: int = 100,
        units: int = UNITS_PER_ANSWER,
        cursor: str | None = None,
        now_ms: int,
    ) -> dict[str, Any]:
        """Return pending timers by due time, then arrival (14002); items lack ``handle``: the caller adds it.
        ``units`` of the timer log are looked at, about: what was found among them comes with a cursor to go on."""
        return self.timers.listing.page(from_ms, to_ms, topic, key, limit, units, cursor, now_ms)

    def timer_wheel(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> dict[str, Any]:
        """Return what is due by steps (14003). Raises ValueError for more than 2,000 steps, or steps below 1,000 ms."""
        _check_steps(from_ms, to_ms, step_ms)
        return self.timers.views.wheel(from_ms, to_ms, step_ms, now_ms)

    def timer_forecast(self, from_ms: int, to_ms: int, step_ms: int, now_ms: int) -> dict[str, Any]:
        """Return what is due against what can be released (14008). Raises ValueError as ``timer_wheel``."""
        _check_steps(from_ms, to_ms, step_ms)
        return self.timers.views.forecast(from_ms, to_ms, step_ms, self.timers.pace.capacity_per_s, now_ms)

    def timer_status(self, now_ms: int) -> dict[str, Any]:
        """Return how it goes (14004)."""
        return self.timers.status(now_ms)

    def timer_events(self, target: Target, now_ms: int) -> dict[str, Any]:
        """Return the life of one timer (14007): state, timer (or None), events in order."""
        return self.timers.life.of(target, now_ms)

    def steer_timer(
        self,
        action: Action,
        target: Target,
        *,
        due_ms: int | None = None,
        reason: str = "",
        now_ms: int,
        owner: object = None,
    ) -> Outcome:
        """Cancel, reschedule (to ``due_ms``) or deliver one timer now (14005, 370).

        The outcome may be told when all its ``tickets`` are durable; without any it is already. Raises StoreRefused.
        """
        self.check_open()
        return self.timers.steering.steer(action, target, due_ms, reason, now_ms, owner)

    def recall_timer(
        self, topic: str, unique_key: str, moment_ms: int, *, now_ms: int, owner: object = None
    ) -> Outcome:
        """Take back what waits with a unique key, or comes with it before the moment of its handle is over (370).

        Told as ``steer_timer``'s. Raises StoreRefused.
        """
        self.check_open()
        return self.timers.steering.recall(topic, unique_key, moment_ms, now_ms, owner)

    def pause_timers(self, paused: bool, now_ms: int) -> dict[str, Any]:
        """Stop releasing or go on (14006); durable when it returns. Raises OSError."""
        self.check_open()
        self.timers.pause(paused, now_ms)
        return {"paused": paused, "pending": self.timers.core.pending, "backlog": self.timers.backlog(now_ms)}

    def timer_check_point(self, now_ms: int) -> bytes:
        """Return the 56 bytes of ``config/timercheck`` as of now (60)."""
        return self.timers.check_point(now_ms)

    def timer_metrics(self) -> dict[str, Any]:
        """Return RocketMQ's counts by real topic (61)."""
        return self.timers.metrics()

    def check_open(self) -> None:
        """Raise StoreFailed or StoreClosed if nothing can be written any more."""
        raise StoreFailed


def _check_steps(from_ms: int, to_ms: int, step_ms: int) -> None:
    if step_ms < 1_000 or to_ms < from_ms or (to_ms - from_ms) // step_ms > 2_000:
        raise ValueError("A range has at most 2,000 steps of at least 1,000 ms, and ends after it begins.")
