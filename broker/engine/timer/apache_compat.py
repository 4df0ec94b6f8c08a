"""What Apache RocketMQ did to the timers of a store: it does not name them, so they are found by unique key."""

from __future__ import annotations

from ...rocketmq.message import Message
from ...rocketmq.properties import DUE_MS, TIMER_DELETE, TIMER_LEFT, TIMER_ROLLS
from ..tables.topics import TIMER_TOPIC
from .core import Core
from .due_moments import second_of
from .keys import Keys
from .parked import Parked, number_of, parked_of


class Foreigner:
    """Finds out."""

    def __init__(self, core: Core, keys: Keys) -> None:
        self._core = core
        self._keys = keys

    def end_deleted(self, deletes: list[Message]) -> None:
        """Mark as over what these delete records mean in their second."""
        core = self._core
        for message in deletes:
            # ours: what it ended, if anything, it names, or it was found in the order of the log
            if DUE_MS in message.properties:
                continue
            second = second_of(parked_of(message).due_ms)
            for timer in self._meant(message.properties[TIMER_DELETE]):
                if second_of(timer.due_ms) == second:
                    core.is_over(timer.offset, timer.topic)

    def _meant(self, delete: str) -> list[Parked]:
        topic, plus, rest = delete.partition("+")
        return self._keys.by_unique_key(None, delete) + (self._keys.by_unique_key(topic, rest) if plus else [])

    def is_gone(self, timer: Parked, message: Message, read_ms: int) -> bool:
        """Tell whether RocketMQ delivered a timer, or put a copy of it back that counts instead."""
        if not timer.unique_key:
            return second_of(timer.due_ms) * 1000 <= read_ms
        # of a relative time only RocketMQ's second is the same in every copy
        second = second_of(timer.due_ms)
        rolls = number_of(message.properties.get(TIMER_ROLLS)) or 0
        for position in self._core.store.index.find(TIMER_TOPIC, timer.unique_key, 64, 0, 1 << 60):
            other = self._keys.message_at(position)
            if other is not None and other.topic == TIMER_TOPIC and other.unique_key == timer.unique_key:
                again = number_of(other.properties.get(TIMER_ROLLS)) or 0
                if again > rolls and second_of(parked_of(other).due_ms) == second:
                    return True
        for position in self._core.store.index.find(timer.topic, timer.unique_key, 64, 0, 1 << 60):
            other = self._keys.message_at(position)
            if other is None or other.topic != timer.topic or TIMER_LEFT not in other.properties:
                continue
            if other.unique_key == timer.unique_key and second_of(parked_of(other).due_ms) == second:
                return True
        return False
