"""The announcements in the order in which they leave, day after day, without holding the year in memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .flights import DAY_MINUTES, Flight
from .plan import (
    LONGEST_LEAD,
    Announcement,
    Reminder,
    announcements,
    level_for,
    reminders,
)

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """An announcement with the minute at which it leaves (a fraction, as levels are not whole minutes), or a step of a
    reminder, which needs no level."""

    minute: float
    order: int
    announcement: Announcement | Reminder = field(compare=False)
    level: int = field(compare=False)


class Schedule:
    """Takes days as they come into reach; gives departures in order. `speed`: replayed minutes per real one."""

    def __init__(
        self, days: Callable[[int], list[Flight]], delays_ms: Sequence[int], speed: float, start: float, *, warm: bool
    ) -> None:
        self._days = days
        self._delays_ms = delays_ms
        self._speed = speed
        self._start = start
        self._warm = warm
        self._heap: list[Departure] = []
        self._next_day = max(0, int(start // DAY_MINUTES) - 1)
        self._order = 0

    def take_until(self, minute: float) -> list[Departure]:
        """Return what leaves up to this minute and was not taken before."""
        while self._next_day * DAY_MINUTES <= minute + LONGEST_LEAD + DAY_MINUTES:
            self._add_day()
        taken = []
        while self._heap and self._heap[0].minute <= minute:
            taken.append(heapq.heappop(self._heap))
        return taken

    def _add_day(self) -> None:
        for flight in self._days(self._next_day):
            for announcement in announcements(flight):
                self._add(announcement)
            self._remind(flight)
        self._next_day += 1

    def _add(self, announcement: Announcement) -> None:
        level = level_for(announcement.lead / self._speed * MINUTE_MS, self._delays_ms)
        minute = announcement.event - self._level_minutes(level)
        if minute < self._start:
            # it left before the replay began: on the first start what is still ahead is sent now, later it is known
            if not self._warm or announcement.event <= self._start:
                return
            left_ms = (announcement.event - self._start) / self._speed * MINUTE_MS
            level, minute = level_for(left_ms, self._delays_ms), self._start
        self._push(minute, announcement, level)

    def _remind(self, flight: Flight) -> None:
        """Add the steps that are still ahead; at the first start also the result of those that are past."""
        steps = list(reminders(flight))
        past = [step for step in steps if step.minute < self._start]
        if self._warm and past and past[-1].event is not None and past[-1].event > self._start:
            self._push(self._start, replace(past[-1], step="set"), 0)
        for step in steps[len(past) :]:
            self._push(step.minute, step, 0)

    def _push(self, minute: float, announcement: Announcement | Reminder, level: int) -> None:
        self._order += 1
        heapq.heappush(self._heap, Departure(minute, self._order, announcement, level))

    def _level_minutes(self, level: int) -> float:
        return self._delays_ms[level - 1] / MINUTE_MS * self._speed if level else 0.0
