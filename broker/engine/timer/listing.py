"""Pending timers in order of due time, and the life of one timer.

The list comes straight from wheel and timer log; no other index is kept. What is due within the wheel's reach stands in
its second, or still in one of the at most eight roll slots of its hour (see wheel.py). An answer may take only so many
units; it says how to go on, and what was begun is kept for that.

The life of a timer is when it was accepted, rolled, rescheduled, cancelled or released, as far back as the log goes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ...rocketmq.message import Message, decode
from ...rocketmq.properties import REAL_QUEUE_ID, REAL_TOPIC, REASON, SCHEDULE_KEY, TIMER_ROLLS
from ..errors import CorruptRecord, RecordNotFound
from ..store import Store
from .index import TimerIndex
from .keys import Keys
from .log import MAGIC_DELETE, MAGIC_ROLL
from .state import Timer, TimerStates, due_ms_of, number_of
from .steer import Steering, Target
from .wheel import HOUR_MS, second_of

#: Listings kept to go on with.
_KEPT_LISTINGS = 8
_PORTION = 128
#: Topics in which a schedule key is looked for if none is named.
_TOPICS_TRIED = 200
MOST_ITEMS = 1_000
#: Units looked at for one answer: half a second at most.
UNITS_PER_ANSWER = 20_000
#: Units, and hours beyond reach, looked at for the first of all.
_FIRST_LOOKS, _HOURS_LOOKED_AT = 512, 1_000
_FOREVER_MS = 1 << 60
#: A roll slot may be read a little later than its second.
_LOOK_BACK = 60
_SECONDS_PER_HOUR = 3_600

#: A portion: units looked at, and the timers found (due ms, offset, position, size, hash of the topic), in order.
Portion = tuple[int, list[tuple[int, int, int, int, int]]]


class Listing:
    """Lists the timers that wait, page by page."""

    def __init__(self, store: Store, states: TimerStates, index: TimerIndex, keys: Keys) -> None:
        self._store = store
        self._states = states
        self._index = index
        self._keys = keys
        self._begun: dict[tuple[object, ...], tuple[Iterator[Portion], list[tuple[int, int, int, int, int]]]] = {}

    def page(
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
        """Return the body of request 14002: timers by due time, then arrival.

        Items lack ``handle``: the caller adds it. Up to ``limit`` are told, found among about so many ``units`` of the
        timer log. ``cursor``: of the answer before, to go on; one that is none starts anew.
        """
        limit = min(max(limit, 1), MOST_ITEMS)
        after = _read_cursor(cursor)
        if key:
            found = [entry for entry in self._by_key(topic, key) if from_ms <= entry[0] <= to_ms and entry[:2] > after]
            named = [item for entry in found[:limit] if (item := self._item(entry, None, now_ms)) is not None]
            return {"nowMs": now_ms, "items": named, "cursor": None, "scanned": len(found), "complete": True}
        ask = (from_ms, to_ms, topic, after)
        begun = self._begun.pop(ask) if ask in self._begun else (self._portions(from_ms, to_ms, now_ms), [])
        portions, left = begun
        topic_hash = self._index.hash_of(topic) if topic else None
        items: list[dict[str, Any]] = []
        scanned, complete = 0, False
        while len(items) < limit:
            if not left:
                if scanned >= units:
                    break
                portion = next(portions, None)
                if portion is None:
                    complete = True
                    break
                scanned += portion[0]
                left = [e for e in portion[1] if e[:2] > after and from_ms <= e[0] <= to_ms]
                left.reverse()
                continue
            entry = left.pop()
            after = entry[:2]
            if topic_hash is None or entry[4] == topic_hash:
                item = self._item(entry, topic, now_ms)
                if item is not None:
                    items.append(item)
        if not complete:
            if len(self._begun) >= _KEPT_LISTINGS:
                self._begun.pop(next(iter(self._begun)))
            self._begun[from_ms, to_ms, topic, after] = (portions, left)
        return {
            "nowMs": now_ms,
            "items": items,
            "cursor": None if complete else f"{after[0]}-{after[1]}",
            "scanned": scanned,
            "complete": complete or len(items) >= limit,
        }

    def first_due_ms(self, now_ms: int) -> int | None:
        """Return when the next one is due, None if that takes more than a few looks."""
        if len(self._index.roll_counts) > _HOURS_LOOKED_AT:
            return None
        scanned = 0
        for count, found in self._portions(0, _FOREVER_MS, now_ms):
            if found:
                return found[0][0]
            scanned += count
            if scanned >= _FIRST_LOOKS:
                break
        return None

    def _portions(self, from_ms: int, to_ms: int, now_ms: int) -> Iterator[Portion]:
        """Yield what is pending hour by hour; an empty portion only says that time passed."""
        index = self._index
        second, until = max(second_of(from_ms), index.lowest_second()), second_of(to_ms)
        far_hours = self._far_hours(now_ms)
        near_end = index.furthest
        # what is due as an hour begins stands in the second before, which is no reason to read the roll slots of that
        first_hour = from_ms // HOUR_MS
        while True:
            near = index.wheel.next_used(second, min(until, near_end))
            # a second that is only passed through says nothing about what is due in it
            while near is not None and (slot := index.wheel.get(near)) is not None and slot.number == slot.rolls > 0:
                near = index.wheel.next_used(near + 1, min(until, near_end))
            hour = second * 1000 // HOUR_MS
            at = bisect_left(far_hours, max(hour, first_hour))
            far_hour = far_hours[at] if at < len(far_hours) else None
            near_hour = None if near is None else near * 1000 // HOUR_MS
            hours = [h for h in (far_hour, near_hour) if h is not None]
            if not hours or min(hours) * _SECONDS_PER_HOUR > until:
                return
            hour = min(hours)
            second = max(second, hour * _SECONDS_PER_HOUR)
            yield from self._hour(hour, second, until, now_ms if hour >= first_hour else None)
            second = (hour + 1) * _SECONDS_PER_HOUR

    def _hour(self, hour: int, second: int, until: int, now_ms: int | None) -> Iterator[Portion]:
        """Yield the timers of one hour (from a second on), second by second; without a moment none of roll slots."""
        index = self._index
        far: list[tuple[int, int, int, int, int]] = []
        for portion in self._far_of(hour, now_ms) if now_ms is not None else ():
            yield len(portion), []
            far += portion
        far = sorted(set(far))  # after a kill some stand in a slot twice
        at = 0
        end = min(until, (hour + 1) * _SECONDS_PER_HOUR)
        while (found := index.wheel.next_used(second, end)) is not None:
            plain: list[tuple[int, int, int, int, int]] = []
            for count, portion in self._plain_of(found):
                yield count, []
                plain += portion
            border = (found + 1) * 1000
            stop = at
            while stop < len(far) and far[stop][0] <= border:
                stop += 1
            yield 1, sorted(set(plain + far[at:stop]))
            at, second = stop, found + 1
        if at < len(far):
            yield 0, far[at:]

    def _plain_of(self, second: int) -> Iterator[Portion]:
        index, slot = self._index, self._index.wheel.get(second)
        portion: list[tuple[int, int, int, int, int]] = []
        count = 0
        for _, unit in index.log.chain(slot.first, slot.last) if slot is not None else ():
            count += 1
            if not unit.magic & (MAGIC_DELETE | MAGIC_ROLL):
                offset, due_ms = index.reach.plain_of(second, unit.reserved, unit.position)
                if offset >= 0 and self._states.waits(offset):
                    portion.append((due_ms, offset, unit.position, unit.record_size, unit.topic_hash))
            if count == _PORTION:
                yield count, portion
                count, portion = 0, []
        yield count, portion

    def _far_of(self, hour: int, now_ms: int) -> Iterator[list[tuple[int, int, int, int, int]]]:
        """Yield the timers of an hour that still wait in roll slots, in portions."""
        index = self._index
        begin_ms, end_ms = hour * HOUR_MS, (hour + 1) * HOUR_MS
        roll_of, tells_due = index.reach.roll_of, index.reach.tells_due
        # while nothing is released roll slots that came are not read either
        begin = min(now_ms // 1000 - _LOOK_BACK, index.lowest_second())
        for second in index.reach.roll_seconds(hour, begin, index.furthest + 1):
            slot = index.wheel.get(second)
            portion: list[tuple[int, int, int, int, int]] = []
            if slot is None or index.was_read(second):
                continue
            for _, unit in index.log.chain(slot.first, slot.last):
                _, _, magic, _, _, position, size, topic_hash, own = unit
                if magic & MAGIC_ROLL and not magic & MAGIC_DELETE:
                    offset, due_ms = (
                        roll_of(second, own, position) if own and tells_due else index.roll_of(second, unit)
                    )
                    if begin_ms <= due_ms < end_ms and offset >= 0 and self._states.waits(offset):
                        portion.append((due_ms, offset, position, size, topic_hash))
                if len(portion) == _PORTION:
                    yield portion
                    portion = []
            yield portion

    def _far_hours(self, now_ms: int) -> list[int]:
        """Return the hours for which timers may wait in roll slots, ascending."""
        index = self._index
        last = (now_ms + self._store.config.timer_max_delay_ms) // HOUR_MS + 1
        found: list[int] = []
        for hour, _ in index.far_hours(now_ms):
            found += range(hour, last + 1, index.reach.rolls)
        return sorted(found)

    def _by_key(self, topic: str | None, key: str) -> list[tuple[int, int, int, int, int]]:
        found = list(self._keys.by_unique_key(topic, key)) + self._keys.by_word(topic, key)
        for name in [topic] if topic else list(self._states.by_topic)[:_TOPICS_TRIED]:
            if (timer := self._keys.by_schedule_key(name, key)) is not None:
                found.append(timer)
        waiting = [timer for timer in found if self._states.waits(timer.offset)]
        return sorted({(t.due_ms, t.offset, t.position, t.size, self._index.hash_of(t.topic)) for t in waiting})

    def _item(self, entry: tuple[int, int, int, int, int], topic: str | None, now_ms: int) -> dict[str, Any] | None:
        """Return one timer as the answer shows it, None if it is over or of another topic."""
        if not self._states.waits(entry[1]):
            return None
        try:
            message = decode(self._store.look_at(entry[2], entry[3]), verify=False)
        except (RecordNotFound, CorruptRecord):
            return None
        rolls = sum(1 for _ in self._index.reach.passed(entry[0], message.store_ms, now_ms))
        found = timer_json(message, entry[0], rolls)
        return found if topic in (None, found["topic"]) and message.queue_offset == entry[1] else None


def timer_json(message: Message, due_ms: int, rolls: int) -> dict[str, Any]:
    """Return a parked record as a timer that was placed anew so many times; the handle is left to those who know the
    broker's name."""
    properties = message.properties
    queue_id = properties.get(REAL_QUEUE_ID, "")
    return {
        "position": message.position,
        "offset": message.queue_offset,
        "size": message.size,
        "dueMs": due_ms,
        "topic": properties.get(REAL_TOPIC, ""),
        "queueId": int(queue_id) if queue_id.isdigit() else 0,
        "messageId": message.offset_message_id,
        "uniqueKey": message.unique_key,
        "keys": message.keys,
        "tags": message.tags,
        "scheduleKey": properties.get(SCHEDULE_KEY),
        "storeMs": message.store_ms,
        "bornMs": message.born_ms,
        "rollTimes": rolls + (number_of(properties.get(TIMER_ROLLS)) or 0),
    }


def _read_cursor(cursor: str | None) -> tuple[int, int]:
    due, _, offset = (cursor or "").partition("-")
    return (int(due), int(offset)) if due.isdigit() and offset.isdigit() else (-1, -1)


# The life of one timer.

_STEPS_BACK = 100
#: A timer ten years away rolls some six hundred times: so many of them are told one by one, the last ones.
_ROLLS_TOLD = 20

Event = dict[str, Any]


class Life:
    """Tells what happened to a timer, from its acceptance to its end."""

    def __init__(self, states: TimerStates, index: TimerIndex, keys: Keys, steering: Steering) -> None:
        self._states = states
        self._index = index
        self._keys = keys
        self._steering = steering

    def of(self, target: Target, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14007."""
        found = self._steering.find(target)
        timer = next((t for t in found if self._states.waits(t.offset)), found[0] if found else None)
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
            passed = list(self._index.reach.passed(due_ms_of(message), message.store_ms, end_ms))
            rolls += len(passed)
            events += [{"kind": "rolled", "ms": ms, "position": message.position} for ms in passed[-_ROLLS_TOLD:]]
        return events, rolls

    def _steps(self, timer: Timer, message: Message) -> list[tuple[Message, str]]:
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

    def _end(self, timer: Timer, now_ms: int) -> tuple[str, int, Event | None]:
        """Return the state, up to when the timer waited, and how that ended if something says so."""
        if self._states.waits(timer.offset):
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
