"""What is sent for a flight, and when: each event is announced by one delayed message that is due at the event.

The announcement leaves some minutes ahead (the lead). Its delay level is the highest one that is not longer than the
lead at the speed of the replay, and it leaves just that long before the event. Leads differ from flight to flight, so
that all eighteen levels have something to do.

Boarding is announced by a reminder that no level could hold: a timer under the flight's own key, due to the
millisecond half an hour before the scheduled departure. When the flight turns out to be late it is moved, when it is
cancelled it is taken back.

Announcements come in the order in which they leave, day after day, without holding the year in memory.
"""

from __future__ import annotations

import heapq
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from console.run.demo.flights import DAY_MINUTES, Flight

GATE, BOARDING, DEPARTURE, ARRIVAL, CANCELLED = (
    "flight-gate",
    "flight-boarding",
    "flight-departure",
    "flight-arrival",
    "flight-cancelled",
)
TOPICS = (GATE, BOARDING, DEPARTURE, ARRIVAL, CANCELLED)

#: Minutes before departure at which gates are given, boarding begins, a cancellation is known.
GATE_MINUTES = 60
BOARDING_MINUTES = 30
CANCELLED_MINUTES = 45

GATE_LEADS = (120, 360, 720, 1440, 2880, 5760)
DEPARTURE_LEADS = (1, 4, 8, 24, 48, 96, 144, 192, 240, 288, 336, 384, 432)
CANCELLED_LEADS = (480, 960)
#: Minutes before boarding at which the reminder is set, and before departure at which a delay is known.
REMINDER_LEADS = (60, 120, 240, 480, 720, 1440, 2880, 5760)
LATE_KNOWN_MINUTES = (35, 45, 60, 90)
#: A flight that leaves earlier than this after its time is not called late.
LATE_MINUTES = 5
LONGEST_LEAD = max(*GATE_LEADS, *DEPARTURE_LEADS, *CANCELLED_LEADS, *REMINDER_LEADS)


@dataclass(frozen=True, slots=True)
class Announcement:
    """One message: `event` and `lead` in minutes of the replayed clock."""

    topic: str
    event: int
    lead: int
    flight: Flight

    @property
    def body(self) -> bytes:
        """Return the JSON that consumers receive."""
        flight = self.flight
        told: dict[str, object] = {
            "flight": f"{flight.carrier}{flight.number}",
            "event": self.topic.removeprefix("flight-"),
            "from": flight.origin,
            "to": flight.destination,
            "scheduled": clock(flight.scheduled),
            "at": clock(self.event),
        }
        if flight.aircraft:
            told["aircraft"] = flight.aircraft
        if self.topic in (DEPARTURE, ARRIVAL):
            told["delay_minutes"] = flight.delay_minutes
        return json.dumps(told).encode()


@dataclass(frozen=True, slots=True)
class Reminder:
    """One step in the life of a flight's boarding reminder: at `minute` it is set for the minute `event`, moved there,
    or taken back (then there is no event)."""

    step: Literal["set", "move", "cancel"]
    minute: int
    event: int | None
    flight: Flight

    @property
    def body(self) -> bytes:
        """Return the JSON that consumers receive."""
        flight = self.flight
        told = {
            "flight": f"{flight.carrier}{flight.number}",
            "event": "boarding",
            "from": flight.origin,
            "to": flight.destination,
            "scheduled": clock(flight.scheduled),
        }
        return json.dumps(told).encode()


def clock(minute: int) -> str:
    """Return a minute as a time of day such as ``07:45``."""
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def announcements(flight: Flight) -> Iterator[Announcement]:
    """Return all announcements of one flight."""
    choice = zlib.crc32(flight.key.encode())
    yield Announcement(GATE, flight.scheduled - GATE_MINUTES, _one_of(GATE_LEADS, choice), flight)
    if flight.departed is None or flight.arrived is None:
        lead = _one_of(CANCELLED_LEADS, choice)
        yield Announcement(CANCELLED, flight.scheduled - CANCELLED_MINUTES, lead, flight)
        return
    yield Announcement(DEPARTURE, flight.departed, _one_of(DEPARTURE_LEADS, choice >> 16), flight)
    yield Announcement(ARRIVAL, flight.arrived, flight.arrived - flight.departed, flight)


def reminders(flight: Flight) -> Iterator[Reminder]:
    """Return the steps of the flight's boarding reminder, in order."""
    choice = zlib.crc32(flight.key.encode())
    boarding = flight.scheduled - BOARDING_MINUTES
    yield Reminder("set", boarding - _one_of(REMINDER_LEADS, choice >> 8), boarding, flight)
    if flight.departed is None:
        yield Reminder("cancel", flight.scheduled - CANCELLED_MINUTES, None, flight)
    elif flight.delay_minutes >= LATE_MINUTES:
        known = flight.scheduled - _one_of(LATE_KNOWN_MINUTES, choice >> 4)
        yield Reminder("move", known, flight.departed - BOARDING_MINUTES, flight)


def _one_of(leads: Sequence[int], choice: int) -> int:
    return leads[choice % len(leads)]


def level_for(lead_ms: float, delays_ms: Sequence[int]) -> int:
    """Return the highest delay level that is not longer than the lead; 0 (at once) if even the first is."""
    fitting = [level for level, delay_ms in enumerate(delays_ms, start=1) if delay_ms <= lead_ms]
    return max(fitting, key=lambda level: delays_ms[level - 1], default=0)


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
