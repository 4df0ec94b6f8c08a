"""Finding timers by what people know of them: schedule key, unique key, position. The index is on disk.

A schedule key stands in the ordinary index under ``rmq_sys_wheel_timer#S#<topic>#<key>``, one entry for each timer that
has one; of those that match, the newest tells whether the key is taken. Timers that are appended and not visible yet
are looked for in memory. Records that the commit of a half left stand there too (acts.py): they say which half of a key
was sent last, of those that were carried out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import CANCELS, MOVED, REAL_TOPIC, SCHEDULE_KEY, SOURCE, TIMER_DELETE
from ...rocketmq.topics import TIMER_TOPIC
from ..errors import CorruptRecord, RecordNotFound
from ..message_header import schedule_entry
from ..store import Store
from .state import Timer, TimerStates, number_of, timer_of

#: Entries of one key looked at: more than this many timers never share a unique key.
_LOOKS = 64
#: Records looked at to find out what took the place of a timer.
_STEPS_BACK = 2_000
#: Keys whose latest half is remembered, and records of one key looked at for it: those behind the half in question.
_HALVES_REMEMBERED, _LOOKS_FOR_HALVES = 10_000, 4_096
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


class Latest(NamedTuple):
    """The latest halves of one key that were carried out, as far as their records stand behind ``since``: positions of
    the latest put or cancel, and of the latest move, with the moment that it asks for."""

    since: int
    written: int = -1
    moved: int = -1
    moved_to_ms: int = 0

    def with_half(self, position: int, moved_to_ms: int | None) -> Latest:
        """Return these with one more half, which is a move if it has a moment."""
        if moved_to_ms is None:
            return self._replace(written=max(self.written, position))
        return self if position <= self.moved else self._replace(moved=position, moved_to_ms=moved_to_ms)


class HalfOrder:
    """The latest halves that were carried out on each schedule key."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys
        self._latest: OrderedDict[tuple[str, str], Latest] = OrderedDict()

    def of(self, topic: str, key: str, half_position: int) -> Latest:
        """Return the latest halves of a key, as far as they were sent after this one."""
        known = self._latest.get((topic, key))
        if known is not None and known.since <= half_position:
            return known
        found = self._found(topic, key, half_position)
        if known is None:
            return found
        # what is not visible yet is not found
        found = found.with_half(known.moved, known.moved_to_ms)
        return found.with_half(known.written, None)

    def carried_out(self, topic: str, key: str, half_position: int, moved_to_ms: int | None = None) -> None:
        """Note that the record which a half's commit leaves was appended; ``moved_to_ms``: of a move."""
        latest = self.of(topic, key, half_position)
        self._latest.pop((topic, key), None)
        self._latest[topic, key] = latest.with_half(half_position, moved_to_ms)
        if len(self._latest) > _HALVES_REMEMBERED:
            self._latest.popitem(last=False)

    def _found(self, topic: str, key: str, half_position: int) -> Latest:
        """Return what the visible records of the key say of halves, as far as they stand behind this one."""
        latest, entry = Latest(half_position), schedule_entry(topic, key)
        for position in self._store.index.find(TIMER_TOPIC, entry, _LOOKS_FOR_HALVES, 0, _FOREVER_MS):
            if position <= half_position:
                break
            message = self._keys.message_at(position)
            if message is None or message.topic != TIMER_TOPIC:
                continue
            said = message.properties
            half = number_of(said.get(SOURCE))
            if half is not None and said.get(SCHEDULE_KEY) == key and said.get(REAL_TOPIC) == topic:
                latest = latest.with_half(half, number_of(said.get(MOVED)))
        return latest
