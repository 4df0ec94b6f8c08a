"""The life of one timer: accepted, rescheduled, cancelled, released; as far back as the log goes."""

from __future__ import annotations

from typing import Any

from ..message import Message
from ..properties import REASON
from .core import Core
from .keys import Keys
from .listing import timer_json
from .parked import Parked, due_ms_of
from .steering import Steering, Target

_STEPS_BACK = 100


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
        events = self._before(timer, message)
        state = "pending" if self._core.waits(timer.offset) else self._end(timer, events)
        shown = timer_json(message, timer.due_ms)
        return {"state": state, "timer": shown, "events": events}

    def _before(self, timer: Parked, message: Message) -> list[dict[str, Any]]:
        """Return what happened up to now, oldest first."""
        events: list[dict[str, Any]] = []
        for _ in range(_STEPS_BACK):
            if timer.replaced < 0:
                break
            before = self._keys.message_at(timer.replaced)
            # one that only moved to a younger segment was not rescheduled
            if before is None or due_ms_of(before) != timer.due_ms:
                events.append({"kind": "rescheduled", "ms": message.store_ms, "position": message.position})
            earlier = self._keys.at(timer.replaced)
            if before is None or earlier is None:
                break
            timer, message = earlier, before
        events.append({"kind": "accepted", "ms": message.store_ms, "position": message.position})
        events.reverse()
        return events

    def _end(self, timer: Parked, events: list[dict[str, Any]]) -> str:
        """Add how it ended; return the state."""
        released = self._keys.released(timer)
        if released is not None:
            late_ms = released.store_ms - timer.due_ms
            events.append(
                {"kind": "released", "ms": released.store_ms, "position": released.position, "lateMs": late_ms}
            )
            return "released"
        cancel = self._keys.cancel_of(timer)
        if cancel is not None:
            event = {"kind": "cancelled", "ms": cancel.store_ms, "position": cancel.position}
            events.append(event | {"reason": cancel.properties.get(REASON)})
            return "cancelled"
        return "rescheduled" if self._keys.successor_of(timer) is not None else "released"
