"""Finding timers by what people know of them: schedule key, unique key, position. The index is on disk.

A schedule key stands in the ordinary index under ``rmq_sys_wheel_timer#S#<topic>#<key>``, one entry for each timer that
has one; of those that match, the newest tells whether the key is taken. Timers that are appended and not visible yet
are looked for in memory.
"""

from __future__ import annotations

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import CANCELS, SOURCE, TIMER_DELETE
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..message_header import schedule_entry
from ..store import Store
from .state import Timer, TimerStates, number_of, timer_of

#: Entries of one key looked at: more than this many timers never share a unique key.
_LOOKS = 64
#: Records looked at to find out what took the place of a timer.
_STEPS_BACK = 2_000
_FOREVER_MS = 1 << 60


class Keys:
    """Looks timers up by what people know of them, and what became of them. Nothing here changes anything."""

    def __init__(self, store: Store, states: TimerStates) -> None:
        self._store = store
        self._states = states

    def message_at(self, position: int) -> Message | None:
        """Return the visible record at a position, None without one."""
        try:
            return decode(self._store.look_at(position), verify=False)
        except (RecordNotFound, CorruptRecord):
            return None

    def at(self, position: int) -> Timer | None:
        """Return the timer that was parked at a position, None if none was."""
        unseen = self._states.unseen_at(position)
        if unseen is not None:
            return unseen
        message = self.message_at(position)
        if message is None or message.topic != TIMER_TOPIC or TIMER_DELETE in message.properties:
            return None
        return timer_of(message)

    def by_schedule_key(self, topic: str, key: str) -> Timer | None:
        """Return the newest timer with a schedule key, pending or over."""
        for timer in reversed(self._states.unseen):
            if timer.key == key and timer.topic == topic:
                return timer
        for timer in self._indexed(schedule_entry(topic, key)):
            if timer.key == key and timer.topic == topic:
                return timer
        return None

    def by_unique_key(self, topic: str | None, unique_key: str) -> list[Timer]:
        """Return the timers with a unique key (and real topic), newest first: a sender that retries makes several."""
        found = [timer for timer in reversed(self._states.unseen) if timer.unique_key == unique_key]
        found += self._indexed(unique_key)
        return [timer for timer in found if timer.unique_key == unique_key and topic in (None, timer.topic)]

    def by_word(self, topic: str | None, word: str) -> list[Timer]:
        """Return the timers with a word among their KEYS, newest first."""
        found = []
        for timer in self._indexed(word):
            message = self.message_at(timer.position)
            if message is not None and word in message.keys and topic in (None, timer.topic):
                found.append(timer)
        return found

    def _indexed(self, entry: str) -> list[Timer]:
        found = []
        # a message whose KEYS name its own unique key stands in the index twice
        for position in dict.fromkeys(self._store.index.find(TIMER_TOPIC, entry, _LOOKS, 0, _FOREVER_MS)):
            if position < self._store.visible_position and self._states.unseen_at(position) is None:
                timer = self.at(position)
                if timer is not None:
                    found.append(timer)
        return found

    # what became of it

    def released(self, timer: Timer) -> Message | None:
        """Return the record that a timer was released as, None if it is not known."""
        if not timer.unique_key:
            return None
        for position in self._store.index.find(timer.topic, timer.unique_key, _LOOKS, 0, _FOREVER_MS):
            message = self.message_at(position)
            found = message is not None and message.topic == timer.topic
            if message is not None and found and number_of(message.properties.get(SOURCE)) == timer.position:
                return message
        return None

    def cancel_of(self, timer: Timer) -> Message | None:
        """Return the delete record that cancelled a timer, None if none is known."""
        if not timer.unique_key:
            return None
        for position in self._store.index.find(TIMER_TOPIC, timer.unique_key, _LOOKS, 0, _FOREVER_MS):
            message = self.message_at(position)
            if message is not None and number_of(message.properties.get(CANCELS)) == timer.position:
                return message
        return None

    def successors_of(self, timer: Timer) -> tuple[Timer, Timer] | None:
        """Return the timer that took the place of one, and the last of those that followed it; None without.

        The newest are gone back from: a timer that was moved a thousand times is found with as many looks.
        """
        seen: set[int] = set()
        for last in self._like(timer):
            at: Timer | None = last
            while at is not None and at.replaced >= timer.position and at.position not in seen:
                if at.replaced == timer.position:
                    return at, last
                if len(seen) >= _STEPS_BACK:
                    return None
                seen.add(at.position)
                at = self.at(at.replaced)
        return None

    def _like(self, timer: Timer) -> list[Timer]:
        """Return the newest timers that may have come after one: another message with its schedule key may, too."""
        if timer.key is None:
            return self.by_unique_key(timer.topic, timer.unique_key) if timer.unique_key else []
        found = [*reversed(self._states.unseen), *self._indexed(schedule_entry(timer.topic, timer.key))]
        return [other for other in found if other.key == timer.key and other.topic == timer.topic]
