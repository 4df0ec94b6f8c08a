"""When each queue is to be looked at next: a set of alarms that several workers share."""

from __future__ import annotations

import heapq
import threading
import time
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a queue is looked at."""

    FOUND = "found"
    CHANNEL = "channel"
    DUE = "due"
    SWEEP = "sweep"
    MORE = "more"


@dataclass(slots=True)
class _Alarm:
    at_s: float
    reason: Reason


class Agenda:
    """One alarm a queue; one that a worker has rings again only when the work is done. Times: `time.monotonic()`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: dict[str, _Alarm] = {}
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._closed = False

    def wake(self, name: str, at_s: float, reason: Reason) -> None:
        """Ring for this queue at that time, or at the earlier one that is set already."""
        with self._changed:
            alarm = self._alarms.get(name)
            if alarm is not None and alarm.at_s <= at_s:
                return
            self._alarms[name] = _Alarm(at_s, reason)
            heapq.heappush(self._heap, (at_s, name))
            self._changed.notify()

    def take(self) -> tuple[str, Reason] | None:
        """Wait for the next queue that is to be looked at, and keep others away from it; None once closed."""
        with self._changed:
            while not self._closed:
                ready = self._ready()
                if isinstance(ready, str):
                    self._busy.add(ready)
                    return ready, self._alarms.pop(ready).reason
                self._changed.wait(ready)
            return None

    def done(self, name: str) -> None:
        """The work on this queue is over."""
        with self._changed:
            self._busy.discard(name)
            alarm = self._alarms.get(name)
            if alarm is not None:
                heapq.heappush(self._heap, (alarm.at_s, name))
            self._changed.notify()

    def forget(self, name: str) -> None:
        """Ring for this queue no more."""
        with self._changed:
            self._alarms.pop(name, None)

    def close(self) -> None:
        """Let everybody who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _ready(self) -> str | float | None:
        """A queue whose time has come, else the seconds until then, None when nothing is set."""
        while self._heap:
            at_s, name = self._heap[0]
            alarm = self._alarms.get(name)
            # What was set earlier since, is worked on, or is forgotten has another entry or none.
            if alarm is None or alarm.at_s != at_s or name in self._busy:
                heapq.heappop(self._heap)
                continue
            left_s = at_s - time.monotonic()
            if left_s > 0:
                return left_s
            heapq.heappop(self._heap)
            return name
        return None
