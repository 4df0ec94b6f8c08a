"""The places of waiting timers: timer log, wheel and what comes next, kept in agreement, with counts of all that.

It says only where to look for a timer when its second comes. Whether the timer still waits then is asked of its state
(state.py). A timer further off than the wheel reaches stands in a roll slot on the way, and is put on from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...rocketmq.compiled import FAST
from ...rocketmq.message import decode, string_hash
from ...rocketmq.topics import TIMER_TOPIC
from ..disk import join
from ..errors import CorruptRecord, RecordNotFound
from ..queues.queues import ConsumeQueue
from ..store import Store
from .due import Due, Sources
from .log import MAGIC_DELETE, MAGIC_PLAIN, MAGIC_ROLL, UNIT, UNIT_SIZE, TimerLog, Unit
from .state import Timer, TimerStates, due_ms_of
from .wheel import (
    CHECK_SHIFT,
    HOUR_MS,
    PLAIN_CHECK,
    SLOT,
    SLOT_END,
    SLOT_END_AT,
    SLOT_SIZE,
    Reach,
    RollCounts,
    Tally,
    Wheel,
    second_of,
)

#: A unit says by 32 bits how many ms lie between its second and when it was written: 24 days.
_REACH_BACK_SECONDS = 0x7FFF_FFFF // 1000


class TimerIndex:
    """Timer log, wheel and what was read of them, of one store."""

    def __init__(self, store: Store, states: TimerStates) -> None:
        config = store.config
        self._store = store
        self._states = states
        self.reach = Reach(config.timer_slots, config.timer_max_delay_ms)
        self.wheel = Wheel(config.timer_slots)
        self.log = TimerLog(store.files, join(config.root, "timerlog"), config.timer_log_file_bytes)
        #: roll units that are to come
        self.roll_counts = RollCounts(self.reach.rolls)
        #: plain units by minute of the wheel: what is to come
        self.minutes: dict[int, int] = {}
        #: the furthest second that anything was put into; further than the wheel reaches after the clock was set back
        self.furthest = 0
        self._sources = Sources(self.wheel, self.log, self.reach, states, self.roll_counts)
        self.due = Due(self._sources)
        #: those that were overdue when the broker came back, while there are any
        self.overdue: Due | None = None
        self._hashes: dict[str, int] = {}

    @property
    def queue(self) -> ConsumeQueue:
        """The queue that all timers stand in."""
        return self._store.queues.ensure(TIMER_TOPIC, 0)

    def part_overdue(self, begin: int, end: int) -> None:
        """Read overdue seconds, ``begin``..``end`` (not included), beside what comes next, so that neither waits."""
        self.overdue = None
        seconds = self.wheel.used_between(begin, end)
        if seconds:
            self.overdue = Due(self._sources, begin, end)
            self.overdue.only(seconds)

    def lowest_second(self) -> int:
        """Return the lowest second in which something may wait, as far as wheel and memory know."""
        second = self.due.lowest_second()
        return second if self.overdue is None else min(second, self.overdue.lowest_second())

    def far_hours(self, now_ms: int) -> list[tuple[int, int]]:
        """Return (hour since 1970, count) of what waits in roll slots; some are over where nothing was released for a
        while, as roll slots that came were not read either."""
        rolls, low = self.reach.rolls, self.first_hour(now_ms)
        return [(low + (rest - low) % rolls, count) for rest, count in self.roll_counts.by_rest.items()]

    def far_overdue(self, now_ms: int) -> int:
        """Return how many in roll slots are overdue, about."""
        now_hour = now_ms // HOUR_MS
        if self.first_hour(now_ms) == now_hour:
            return 0
        return sum(count for hour, count in self.far_hours(now_ms) if hour < now_hour)

    def first_hour(self, now_ms: int) -> int:
        """Return the first hour for which something may wait in a roll slot."""
        now_second, second = now_ms // 1000, self.lowest_second()
        used = self.wheel.next_used(second, now_second) if second < now_second else None
        return (now_second if used is None else used) * 1000 // HOUR_MS

    def was_read(self, second: int) -> bool:
        """Tell whether a second was read already, so that nothing in it still goes somewhere else."""
        overdue = self.overdue
        due = overdue if overdue is not None and second < overdue.end_second else self.due
        return second < due.read_second and not due.is_at(second)

    def hash_of(self, topic: str) -> int:
        """Return what a unit says of its real topic."""
        value = self._hashes.get(topic)
        if value is None:
            value = self._hashes[topic] = string_hash(topic)
        return value

    def add(self, timers: Sequence[Timer], now_ms: int) -> None:
        """Put timers into timer log and wheel, and those that are due soon to what comes next.

        Timers within the wheel's reach go together; those that are further off, or overdue for weeks, one by one.
        """
        now_second, wheel, log = now_ms // 1000, self.wheel, self.log
        begin, end = now_second - _REACH_BACK_SECONDS, now_second + self.reach.slots
        write_ms = now_ms - now_ms % 1000
        if FAST is not None and not wheel.displaced:
            unit = log.next_position()
            if len(timers) <= log.units_left:
                said = (wheel.raw, wheel.written, timers, self._hashes, unit, write_ms, begin, end)
                if (made := FAST.timer_units(*said)) is not None:
                    self._added(timers, *made)
                    return
        at, count = 0, len(timers)
        while at < count:
            stop = at
            while stop < count and begin < (timers[stop].due_ms - 1) // 1000 < end:
                stop += 1
            while at < stop:
                unit = log.next_position()
                part = timers[at : min(stop, at + log.units_left)]
                self._added(part, *self._units_of(part, unit, write_ms))
                at += len(part)
            if at < count:
                offset, position, size, due_ms, topic = timers[at][:5]
                self.put(offset, position, size, due_ms, self.hash_of(topic), now_ms)
                at += 1

    def _added(self, timers: Sequence[Timer], units: bytes, soonest: int, furthest: int) -> None:
        """Write the units of timers that were put into the wheel, count them, and have those that are due soon come
        next."""
        due = self.due
        self.log.extend(units)
        if (soonest + 1) // 60 == (furthest + 1) // 60:
            self.count_near(soonest, len(timers))
        else:
            for timer in timers:
                self.count_near((timer.due_ms - 1) // 1000, 1)
        if soonest < due.read_second:
            for offset, position, size, due_ms, *_ in timers:
                if (due_ms - 1) // 1000 < due.read_second:
                    due.insert(due_ms, offset, position, size)
        if soonest < due.next_used:
            due.next_used = soonest
        if furthest > self.furthest:
            self.furthest = furthest

    def _units_of(self, timers: Sequence[Timer], unit: int, write_ms: int) -> tuple[bytes, int, int]:
        """Put timers into the wheel, whose units stand at ``unit`` and behind it; return the units, and the first and
        the last second."""
        wheel, hashes = self.wheel, self._hashes
        raw, places = wheel.raw, wheel.places
        slot_of, end_into, add, pack = SLOT.unpack_from, SLOT_END.pack_into, wheel.add, UNIT.pack
        units: list[bytes] = []
        seconds: list[int] = []
        for offset, position, size, due_ms, topic, *_ in timers:
            second = (due_ms - 1) // 1000
            topic_hash = hashes.get(topic)
            if topic_hash is None:
                topic_hash = self.hash_of(topic)
            place = second % places * SLOT_SIZE
            own, _, previous, number, _ = slot_of(raw, place)
            if own == second:
                end_into(raw, place + SLOT_END_AT, unit, number + 1)
            else:
                previous = add(second, unit)
            second_ms = second * 1000
            rest_ms = due_ms - second_ms
            # as `Reach.plain_bytes` says, without the call
            reserved = offset << 16 | (offset + position + rest_ms) % PLAIN_CHECK << CHECK_SHIFT | rest_ms
            delay_ms = second_ms - write_ms
            units.append(
                pack(UNIT_SIZE, previous, MAGIC_PLAIN, write_ms, delay_ms, position, size, topic_hash, reserved)
            )
            unit += UNIT_SIZE
            seconds.append(second)
        return b"".join(units), min(seconds), max(seconds)

    def put(self, offset: int, position: int, size: int, due_ms: int, topic_hash: int, now_ms: int) -> None:
        """Put one timer into timer log and wheel: in its second, or in a roll slot while that is out of reach."""
        second, now_second = second_of(due_ms), now_ms // 1000
        magic, rolls, own = MAGIC_PLAIN, 0, self.reach.plain_bytes(offset, due_ms, position)
        if self.reach.is_far(second, now_second):
            own = self.reach.roll_bytes(offset, due_ms, position)
            second, magic, rolls = self.reach.roll_second(due_ms, now_second), MAGIC_PLAIN | MAGIC_ROLL, 1
            self.roll_counts.add(second, 1)
        else:
            self.count_near(second, 1)
            if self.overdue is not None and second < self.overdue.end_second:
                self.overdue.insert_or_expect(second, due_ms, offset, position, size)
            elif second < self.due.read_second:
                self.due.insert(due_ms, offset, position, size)
        previous = self.wheel.add(second, self.log.next_position(), rolls=rolls)
        self.log.append(previous, magic, second, now_ms, position, size, topic_hash, own)
        self.due.next_used = min(self.due.next_used, second)
        self.furthest = max(self.furthest, second)

    def roll(self, due: Due, budget: int, now_ms: int) -> int:
        """Put far timers that passed by to their next place, at most ``budget``; return how many were looked at."""
        passing = due.rolling
        used = min(budget, len(passing))
        for _ in range(used):
            unit, second = passing.take()
            offset, due_ms = self.roll_of(second, unit)
            if offset < 0 or not self._is_of(offset, unit):
                due.broken = True
            elif self._states.waits(offset):
                self.put(offset, unit.position, unit.record_size, due_ms, unit.topic_hash, now_ms)
                self._states.totals.rolled += 1
        passing.forget()
        return used

    def _is_of(self, offset: int, unit: Unit) -> bool:
        """Tell whether a unit is that of the timer at an offset of the queue, as far as the queue still reaches."""
        entries = self.queue.entries(offset, 1)
        return entries[0].position == unit.position if entries else offset < self.queue.min_offset

    def add_delete(self, position: int, size: int, victim: Timer, now_ms: int, first: int | None = None) -> None:
        """Put a delete into the second of what it deletes, so that numbers are right and RocketMQ knows. ``first``: the
        first second in which something may wait, if that is not the one to be read next."""
        second, now_second = second_of(victim.due_ms), now_ms // 1000
        magic, rolls = MAGIC_PLAIN | MAGIC_DELETE, 0
        slot = self.wheel.get(second)
        if slot is None or slot.number <= slot.rolls:
            hour, begin = victim.due_ms // HOUR_MS, min(now_second, self.due.read_second if first is None else first)
            # the first of them: a count that is one too low must not stand in a slot behind the victim's own, or it
            # would hide what still waits there
            for other in self.reach.roll_seconds(hour, begin, now_second + self.reach.slots):
                found = self.wheel.get(other)
                if found is not None and found.rolls > 0:
                    second, magic, rolls = other, magic | MAGIC_ROLL, -1
                    self.roll_counts.add(other, -1)
                    break
            else:
                if self.reach.is_far(second, now_second):
                    return
        if not rolls:
            self.count_near(second, -1)
        previous = self.wheel.add(second, self.log.next_position(), count=-1, rolls=rolls)
        self.log.append(previous, magic, second, now_ms, position, size, self.hash_of(victim.topic), 0)

    def count_near(self, second: int, change: int) -> None:
        """Count timers of a second within reach by the minute in which that second ends."""
        minute = (second + 1) // 60
        self.minutes[minute] = self.minutes.get(minute, 0) + change

    def count_wheel(self, after: int) -> None:
        """Count anew what stands in the wheel after a second."""
        tally = Tally(self.wheel, after)
        self.minutes, self.furthest = tally.minutes, tally.furthest
        self.roll_counts.clear()
        for second, count in tally.rolls.items():
            self.roll_counts.add(second, count)

    def roll_of(self, second: int, unit: Unit) -> tuple[int, int]:
        """Return (offset, due ms) of a roll unit, (-1, 0) if it is damaged or its record cannot be read."""
        if unit.reserved and self.reach.tells_due:
            return self.reach.roll_of(second, unit.reserved, unit.position)
        try:
            message = decode(self._store.look_at(unit.position, unit.record_size), verify=False)
        except (RecordNotFound, CorruptRecord):
            return -1, 0
        return (message.queue_offset, due_ms_of(message)) if message.topic == TIMER_TOPIC else (-1, 0)
