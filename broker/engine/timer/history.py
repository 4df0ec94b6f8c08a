"""The life of one timer: accepted, rolled, rescheduled, cancelled, released; as far back as the log goes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...rocketmq.message import Message
from ...rocketmq.properties import REASON
from .core import Core
from .keys import Keys
from .listing import timer_json
from .parked import Parked, due_ms_of
from .steer import Steering, Target

_STEPS_BACK = 100
#: A timer ten years away rolls some six hundred times: so many of them are told one by one, the last ones.
_ROLLS_TOLD = 20

Event = dict[str, Any]


class Life:
    """Tells it."""

    def __init__(self, core: Core, keys: Keys, steering: Steering) -> None:
        self._core = core
        self._keys = keys
        self._steering = steering

    def of(self, target: Target, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14007."""
        found = self._steering.find(target)
        timer = next((t for t in found if self._core.waits(t.offset)), found[0] if found else None)
        message = self._keys.message_at(timer.position) if timer is not None else None
        if timer is None or message is None:
            return {"state": "unknown", "timer": None, "events": []}
        state, until_ms, end = self._end(timer, now_ms)
        events, rolls = self._events(self._steps(timer, message), until_ms)
        return {
            "state": state,
            "timer": timer_json(message, timer.due_ms, rolls),
            "events": events if end is None else [*events, end],
        }

    def _events(self, steps: list[tuple[Message, str]], until_ms: int) -> tuple[list[Event], int]:
        """Return what happened up to a moment, and how often the timer rolled in all."""
        events: list[Event] = []
        rolls = 0
        borders = [*(message.store_ms for message, _ in steps), until_ms]
        for (message, began), (_, end_ms) in zip(steps, pairwise(borders), strict=True):
            if began:
                events.append({"kind": began, "ms": message.store_ms, "position": message.position})
            passed = list(self._core.reach.passed(due_ms_of(message), message.store_ms, end_ms))
            rolls += len(passed)
            events += [{"kind": "rolled", "ms": ms, "position": message.position} for ms in passed[-_ROLLS_TOLD:]]
        return events, rolls

    def _steps(self, timer: Parked, message: Message) -> list[tuple[Message, str]]:
        """Return the timer's records, oldest first, each with what began: nothing where it only moved to a younger
        segment."""
        steps: list[tuple[Message, str]] = []
        began = "accepted"
        for _ in range(_STEPS_BACK):
            if timer.replaced < 0:
                break
            before, earlier = self._keys.message_at(timer.replaced), self._keys.at(timer.replaced)
            is_moved = before is not None and due_ms_of(before) == timer.due_ms
            steps.append((message, "" if is_moved else "rescheduled"))
            if before is None or earlier is None:
                break
            timer, message = earlier, before
        else:
            began = "rescheduled"
        return [(message, began), *reversed(steps)]

    def _end(self, timer: Parked, now_ms: int) -> tuple[str, int, Event | None]:
        """Return the state, up to when the timer waited, and how that ended if something says so."""
        if self._core.waits(timer.offset):
            return "pending", now_ms, None
        released = self._keys.released(timer)
        if released is not None:
            late_ms = released.store_ms - timer.due_ms
            event = {"kind": "released", "ms": released.store_ms, "position": released.position, "lateMs": late_ms}
            return "released", released.store_ms, event
        cancel = self._keys.cancel_of(timer)
        if cancel is not None:
            event = {"kind": "cancelled", "ms": cancel.store_ms, "position": cancel.position}
            return "cancelled", cancel.store_ms, event | {"reason": cancel.properties.get(REASON)}
        following = self._keys.successors_of(timer)
        if following is None:
            return "released", timer.due_ms, None
        record = self._keys.message_at(following[0].position)
        return "rescheduled", record.store_ms if record is not None else now_ms, None
