"""The state that all parts of the timers work on: timer log, wheel, what is over, what comes next; and how they agree.

A timer is a record of ``rmq_sys_wheel_timer`` queue 0. It waits until its offset is in ``done``. Wheel and timer log
only say where to look for it when its second comes; that they name it twice, or after it is over, does no harm.

``Pace`` tells how fast and how late timers were released. ``Recalled`` remembers what was recalled, so that a copy that
arrives later does not come out: a sender's retry, or the message itself. Apache RocketMQ leaves a delete in the second
of the message, which ends whatever comes into that second. Here the delete is in the log, and what it says is
remembered until its moment is over; it is kept with each checkpoint.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ...rocketmq.message import decode, string_hash
from ...rocketmq.topics import TIMER_TOPIC
from ..disk.files import join
from ..errors import CorruptRecord, RecordNotFound
from ..lateness import LATENCY_BOUNDS_MS, Histogram, Lateness
from ..queues.queues import ConsumeQueue
from ..store import Store
from .done import Done
from .due import Due, Sources
from .log import MAGIC_DELETE, MAGIC_PLAIN, MAGIC_ROLL, UNIT, UNIT_SIZE, TimerLog, Unit
from .parked import CHECK_SHIFT, HOUR_MS, PLAIN_CHECK, Parked, Reach, due_ms_of, second_of
from .wheel import SLOT, SLOT_END, SLOT_END_AT, SLOT_SIZE, Tally, Wheel

_position_of = attrgetter("position")
#: A unit says by 32 bits how many ms lie between its second and when it was written: 24 days.
_REACH_BACK_SECONDS = 0x7FFF_FFFF // 1000


@dataclass(slots=True)
class Totals:
    """What happened since the store was made."""

    released: int = 0
    cancelled: int = 0
    rescheduled: int = 0
    rolled: int = 0
    early: int = 0


#: A burst shorter than this says nothing about capacity.
_BURST_MS = 100


class Pace:
    """Lateness by real topic, and the speed at which a herd was released. ``capacity_per_s`` is of the last one."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Lateness] = {}
        self.capacity_per_s: float | None = None
        #: how late timers left since the start, in ms
        self.released_late = Histogram(LATENCY_BOUNDS_MS)
        self._burst_ms: int | None = None
        self._burst_count = 0

    def late(self, topic: str, now_ms: int, late_ms: int, count: int) -> None:
        """Count releases that became visible."""
        known = self.by_topic.get(topic)
        if known is None:
            known = self.by_topic[topic] = Lateness()
        known.add(now_ms, late_ms, count)
        self.released_late.add(max(0, late_ms), count)

    def released(self, now_ms: int, count: int, *, more: bool) -> None:
        """Hear how many a tick released; ``more`` were due."""
        if self._burst_ms is None:
            if more:
                self._burst_ms, self._burst_count = now_ms, 0
            return
        self._burst_count += count
        elapsed_ms = now_ms - self._burst_ms
        if elapsed_ms >= _BURST_MS:
            self.capacity_per_s = round(self._burst_count * 1000 / elapsed_ms, 1)
        if not more or elapsed_ms < 0:
            self._burst_ms = None

    def to_json(self, now_ms: int) -> dict[str, Any]:
        """Return the part of the status that tells of speed and lateness, of the last five minutes."""
        topics = []
        for topic, lateness in self.by_topic.items():
            histogram = lateness.counts(now_ms)
            if histogram:
                topics.append(
                    {
                        "topic": topic,
                        "count": sum(count for _, count in histogram),
                        "p50": lateness.percentile(now_ms, 0.50),
                        "p99": lateness.percentile(now_ms, 0.99),
                        "max": histogram[-1][0],
                        "histogram": [[int(up_to_ms + 0.999), count] for up_to_ms, count in histogram],
                    }
                )
        return {
            "releasedPerS": round(sum(lateness.per_second(now_ms) for lateness in self.by_topic.values()), 2),
            "capacityPerS": self.capacity_per_s,
            "latenessByTopic": topics,
        }


#: Recalls remembered; beyond it those are forgotten first that were made first.
MOST_REMEMBERED = 100_000


class Recalled:
    """Topic and unique key of recalled messages, and until when (ms) each counts. False while there are none."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __len__(self) -> int:
        return len(self._until)

    def add(self, topic: str, unique_key: str, until_ms: int) -> None:
        """Remember a recall."""
        key = (topic, unique_key)
        until_ms = max(until_ms, self._until.pop(key, 0))
        if len(self._until) >= MOST_REMEMBERED:
            del self._until[next(iter(self._until))]
        self._until[key] = until_ms

    def holds(self, topic: str, unique_key: str | None, now_ms: int) -> bool:
        """Tell whether a message with this key was recalled and its moment is not over."""
        return unique_key is not None and now_ms <= self._until.get((topic, unique_key), -1)

    def load(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Take over what was kept."""
        self._until = {(str(topic), str(key)): int(until_ms) for topic, key, until_ms in rows}

    def kept(self, now_ms: int) -> list[tuple[str, str, int]]:
        """Return what counts still; the rest is forgotten."""
        if any(until_ms < now_ms for until_ms in self._until.values()):
            self._until = {key: until_ms for key, until_ms in self._until.items() if until_ms >= now_ms}
        return [(topic, key, until_ms) for (topic, key), until_ms in self._until.items()]


class Core:
    """The state of the timers of one store. ``claimed``: over as soon as what was appended for it is visible."""

    def __init__(self, store: Store) -> None:
        config = store.config
        self.store = store
        self.reach = Reach(config.timer_slots, config.timer_max_delay_ms)
        self.wheel = Wheel(config.timer_slots)
        self.log = TimerLog(store.files, join(config.root, "timerlog"), config.timer_log_file_bytes)
        self.done = Done()
        self.claimed: set[int] = set()
        #: by offset: why those are claimed that are not claimed by a release
        self.ending: dict[int, str] = {}
        #: appended and not visible yet, in the order of their records
        self.fresh: list[Parked] = []
        self._sources = Sources(self.wheel, self.log, self.reach, self.done, self.claimed, self.count_rolls)
        self.due = Due(self._sources)
        #: those that were overdue when the broker came back, while there are any
        self.overdue: Due | None = None
        self.pending = 0
        self.by_topic: dict[str, int] = {}
        #: plain units by minute of the wheel, and roll units by roll second modulo the roll slots: what is to come
        self.minutes: dict[int, int] = {}
        self.roll_counts: dict[int, int] = {}
        #: the furthest second that anything was put into; further than the wheel reaches after the clock was set back
        self.furthest = 0
        self.totals = Totals()
        self.recalled = Recalled()
        self.paused = False
        self._hashes: dict[str, int] = {}

    @property
    def queue(self) -> ConsumeQueue:
        """The queue that all timers stand in."""
        return self.store.queues.ensure(TIMER_TOPIC, 0)

    def part_overdue(self, begin: int, end: int) -> None:
        """Let what is overdue be read beside what comes next, so that neither waits for the other."""
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
        return [(low + (rest - low) % rolls, count) for rest, count in self.roll_counts.items()]

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

    def waits(self, offset: int) -> bool:
        """Tell whether a timer is neither over nor about to be."""
        return offset not in self.claimed and (offset >= self.done.end or not self.done.has(offset))

    def fresh_at(self, position: int) -> Parked | None:
        """Return the timer that was parked at a position, if it is not visible yet."""
        fresh = self.fresh
        at = bisect_left(fresh, position, key=_position_of)
        return fresh[at] if at < len(fresh) and fresh[at].position == position else None

    def forget_fresh(self, position: int) -> None:
        """Note that everything up to a position is visible."""
        del self.fresh[: bisect_right(self.fresh, position, key=_position_of)]

    def hash_of(self, topic: str) -> int:
        """Return what a unit says of its real topic."""
        value = self._hashes.get(topic)
        if value is None:
            value = self._hashes[topic] = string_hash(topic)
        return value

    def index(self, timers: Sequence[Parked], now_ms: int) -> None:
        """Put timers into timer log and wheel, and those that are due soon to what comes next.

        One by one go those that are further off, or overdue for weeks.
        """
        now_second = now_ms // 1000
        begin, end = now_second - _REACH_BACK_SECONDS, now_second + self.reach.slots
        at, count = 0, len(timers)
        while at < count:
            stop = at
            while stop < count and begin < (timers[stop].due_ms - 1) // 1000 < end:
                stop += 1
            while at < stop:
                unit = self.log.next_position()
                part = timers[at : min(stop, at + self.log.units_left)]
                self._index_near(part, unit, now_ms)
                at += len(part)
            if at < count:
                offset, position, size, due_ms, topic = timers[at][:5]
                self.put(offset, position, size, due_ms, self.hash_of(topic), now_ms)
                at += 1

    def _index_near(self, timers: Sequence[Parked], unit: int, now_ms: int) -> None:
        """Put timers within reach into the timer log from ``unit`` on, which has room for them, and into the wheel."""
        wheel, due, hashes, minutes = self.wheel, self.due, self._hashes, self.minutes
        raw, places, read_second, soonest = wheel.raw, wheel.places, due.read_second, due.next_used
        slot_of, end_into, add, pack = SLOT.unpack_from, SLOT_END.pack_into, wheel.add, UNIT.pack
        write_ms = now_ms - now_ms % 1000
        units: list[bytes] = []
        furthest = self.furthest
        for offset, position, size, due_ms, topic, _, _, _ in timers:
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
            units.append(
                pack(
                    UNIT_SIZE, previous, MAGIC_PLAIN, write_ms, second_ms - write_ms, position, size, topic_hash,
                    offset << 16 | (offset + position + rest_ms) % PLAIN_CHECK << CHECK_SHIFT | rest_ms,
                )
            )  # fmt: skip
            unit += UNIT_SIZE
            minute = (second + 1) // 60
            minutes[minute] = minutes.get(minute, 0) + 1
            if second < read_second:
                due.insert(due_ms, offset, position, size)
            if second < soonest:
                soonest = second
            if second > furthest:
                furthest = second
        self.furthest = furthest
        self.log.extend(b"".join(units))
        due.next_used = soonest

    def put(self, offset: int, position: int, size: int, due_ms: int, topic_hash: int, now_ms: int) -> None:
        """Put one timer, near or far, where it belongs now."""
        second, now_second = second_of(due_ms), now_ms // 1000
        magic, rolls, own = MAGIC_PLAIN, 0, self.reach.plain_bytes(offset, due_ms, position)
        if self.reach.is_far(second, now_second):
            own = self.reach.roll_bytes(offset, due_ms, position)
            second, magic, rolls = self.reach.roll_second(due_ms, now_second), MAGIC_PLAIN | MAGIC_ROLL, 1
            self.count_rolls(second, 1)
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
            if offset < 0:
                due.broken = True
            elif self.waits(offset):
                self.put(offset, unit.position, unit.record_size, due_ms, unit.topic_hash, now_ms)
                self.totals.rolled += 1
        passing.forget()
        return used

    def index_delete(self, position: int, size: int, victim: Parked, now_ms: int, first: int | None = None) -> None:
        """Put a delete into the second of what it deletes, so that numbers are right and RocketMQ knows. ``first``: the
        first second in which something may wait, if that is not the one to be read next."""
        second, now_second = second_of(victim.due_ms), now_ms // 1000
        magic, rolls = MAGIC_PLAIN | MAGIC_DELETE, 0
        slot = self.wheel.get(second)
        if slot is None or slot.number <= slot.rolls:
            hour, begin = victim.due_ms // 3_600_000, min(now_second, self.due.read_second if first is None else first)
            # the first of them: what is counted in none later than the victim's own hides nothing that waits behind it
            for other in self.reach.roll_seconds(hour, begin, now_second + self.reach.slots):
                found = self.wheel.get(other)
                if found is not None and found.rolls > 0:
                    second, magic, rolls = other, magic | MAGIC_ROLL, -1
                    self.count_rolls(other, -1)
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

    def count_rolls(self, second: int, change: int) -> None:
        """Count roll units of a second that came or went."""
        rest = second % self.reach.rolls
        left = self.roll_counts.get(rest, 0) + change
        if left > 0:
            self.roll_counts[rest] = left
        else:
            self.roll_counts.pop(rest, None)

    def count_wheel(self, after: int) -> None:
        """Count what stands in the wheel after a second."""
        tally = Tally(self.wheel, after)
        self.minutes, self.furthest = tally.minutes, tally.furthest
        self.roll_counts.clear()
        for second, count in tally.rolls.items():
            self.count_rolls(second, count)

    def roll_of(self, second: int, unit: Unit) -> tuple[int, int]:
        """Return (offset, due ms) of a roll unit, (-1, 0) if it is damaged or its record cannot be read."""
        if unit.reserved:
            return self.reach.roll_of(second, unit.reserved, unit.position)
        try:
            message = decode(self.store.look_at(unit.position, unit.record_size), verify=False)
        except (RecordNotFound, CorruptRecord):
            return -1, 0
        return (message.queue_offset, due_ms_of(message)) if message.topic == TIMER_TOPIC else (-1, 0)

    def count(self, topic: str, change: int) -> None:
        """Count timers that came (positive) or went."""
        self.pending += change
        left = self.by_topic.get(topic, 0) + change
        if left > 0:
            self.by_topic[topic] = left
        else:
            self.by_topic.pop(topic, None)

    def is_over(self, offset: int, topic: str) -> bool:
        """Mark a timer as over; False if it was."""
        self.claimed.discard(offset)
        self.ending.pop(offset, None)
        if not self.done.add(offset):
            return False
        self.count(topic, -1)
        return True
