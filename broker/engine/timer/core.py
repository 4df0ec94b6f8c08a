"""What all parts of the timers work on: the timer log, the wheel, what is over, what comes next; and how they agree.

A timer is a record of ``rmq_sys_wheel_timer`` queue 0. It waits until its offset is in ``done``. Wheel and timer log
only say where to look for it when its second comes; that they name it twice, or after it is over, does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..disk.files import join
from ..errors import CorruptRecord, RecordNotFound
from ..message import Message, decode, string_hash
from ..properties import (
    DUE_MS,
    REAL_TOPIC,
    REPLACES,
    SCHEDULE_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from ..store.consumequeue import ConsumeQueue
from ..store.store import Store
from ..store.topics import TIMER_TOPIC
from .done import Done
from .due import Due
from .log import MAGIC_DELETE, MAGIC_PLAIN, MAGIC_ROLL, TimerLog, Unit
from .moments import Reach, second_of
from .wheel import Wheel


class Parked(NamedTuple):
    """A timer: its record's place and what it says. ``replaced``: position of the timer that is over with it."""

    offset: int
    position: int
    size: int
    due_ms: int
    topic: str
    unique_key: str | None = None
    key: str | None = None
    replaced: int = -1


class Sent(NamedTuple):
    """The rest of a message as the client sent it."""

    flag: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


class Replaced(NamedTuple):
    """Noted on a parked record: a timer came, and ``old`` is over with it."""

    timer: Parked
    old: Parked


class Deleted(NamedTuple):
    """Noted on a delete record: ``victim`` is over if it ``cancels``, and was before if not; None: there is none."""

    offset: int
    position: int
    size: int
    victim: Parked | None
    cancels: bool


#: What becomes of timers when a record is visible.
Note = Parked | Replaced | Deleted


@dataclass(slots=True)
class Totals:
    """What happened since the store was made."""

    released: int = 0
    cancelled: int = 0
    rescheduled: int = 0
    rolled: int = 0
    early: int = 0


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
        #: by position: appended and not visible yet
        self.fresh: dict[int, Parked] = {}
        self.due = Due(self)
        #: those that were overdue when the broker came back, while there are any
        self.overdue: Due | None = None
        self.pending = 0
        self.by_topic: dict[str, int] = {}
        #: plain units by minute of the wheel, and roll units by roll second modulo the roll slots: what is to come
        self.minutes: dict[int, int] = {}
        self.roll_counts: dict[int, int] = {}
        self.totals = Totals()
        self.paused = False
        self._hashes: dict[str, int] = {}

    @property
    def queue(self) -> ConsumeQueue:
        """The queue that all timers stand in."""
        return self.store.queues.ensure(TIMER_TOPIC, 0)

    def waits(self, offset: int) -> bool:
        """Tell whether a timer is neither over nor about to be."""
        return offset not in self.claimed and (offset >= self.done.end or not self.done.has(offset))

    def hash_of(self, topic: str) -> int:
        """Return what a unit says of its real topic."""
        value = self._hashes.get(topic)
        if value is None:
            value = self._hashes[topic] = string_hash(topic)
        return value

    def index(self, timers: Iterable[Parked], now_ms: int) -> None:
        """Put timers into timer log and wheel, and those that are due soon to what comes next."""
        now_second = now_ms // 1000
        wheel, log, reach, due = self.wheel, self.log, self.reach, self.due
        slots, hashes, read_second = reach.slots, self._hashes, due.read_second
        add, append, next_position = wheel.add, log.append, log.next_position
        soonest, minutes = due.next_used, self.minutes
        for offset, position, size, due_ms, topic, _, _, _ in timers:
            second = (due_ms - 1) // 1000
            topic_hash = hashes.get(topic)
            if topic_hash is None:
                topic_hash = self.hash_of(topic)
            if second - now_second < slots:
                own = offset << 16 | due_ms - second * 1000
                previous = add(second, next_position())
                append(previous, MAGIC_PLAIN, second, now_ms, position, size, topic_hash, own)
                minute = (second + 1) // 60
                minutes[minute] = minutes.get(minute, 0) + 1
                if second < read_second:
                    due.insert(due_ms, offset, position, size)
            else:
                own = reach.roll_bytes(offset, due_ms)
                second = reach.roll_second(due_ms, now_second)
                self.count_rolls(second, 1)
                previous = add(second, next_position(), rolls=1)
                append(previous, MAGIC_PLAIN | MAGIC_ROLL, second, now_ms, position, size, topic_hash, own)
            if second < soonest:
                soonest = second
        due.next_used = soonest

    def roll(self, offset: int, position: int, size: int, due_ms: int, topic_hash: int, now_ms: int) -> None:
        """Put a far timer whose roll slot has come where it belongs now."""
        second, now_second = second_of(due_ms), now_ms // 1000
        magic, rolls, own = MAGIC_PLAIN, 0, self.reach.plain_bytes(offset, due_ms)
        if self.reach.is_far(second, now_second):
            own = self.reach.roll_bytes(offset, due_ms)
            second, magic, rolls = self.reach.roll_second(due_ms, now_second), MAGIC_PLAIN | MAGIC_ROLL, 1
            self.count_rolls(second, 1)
        else:
            self.count_near(second, 1)
            if second < self.due.read_second:
                self.due.insert(due_ms, offset, position, size)
        previous = self.wheel.add(second, self.log.next_position(), rolls=rolls)
        self.log.append(previous, magic, second, now_ms, position, size, topic_hash, own)
        self.due.next_used = min(self.due.next_used, second)
        self.totals.rolled += 1

    def index_delete(self, position: int, size: int, victim: Parked, now_ms: int) -> None:
        """Put a delete into the second of what it deletes, so that numbers are right and RocketMQ knows."""
        second, now_second = second_of(victim.due_ms), now_ms // 1000
        magic, rolls = MAGIC_PLAIN | MAGIC_DELETE, 0
        slot = self.wheel.get(second)
        if slot is None or slot.number <= 0:
            hour = victim.due_ms // 3_600_000
            for other in reversed(self.reach.roll_seconds(hour, now_second, now_second + self.reach.slots)):
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
        self.minutes.clear()
        self.roll_counts.clear()
        for second, _, _, number, rolls in self.wheel.used():
            if second > after:
                self.count_near(second, number - rolls)
                if rolls > 0:
                    self.count_rolls(second, rolls)

    def read_unit(self, unit: Unit) -> tuple[int, int]:
        """Return (offset, due ms) of a unit that does not say so itself, (-1, 0) if its record cannot be read."""
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


def parked_of(message: Message) -> Parked:
    """Return a parked record as a timer; ``due_ms`` is exact also where RocketMQ wrote the record."""
    properties = message.properties
    replaced = number_of(properties.get(REPLACES))
    return Parked(
        message.queue_offset,
        message.position,
        message.size,
        due_ms_of(message),
        properties.get(REAL_TOPIC, ""),
        message.unique_key,
        properties.get(SCHEDULE_KEY),
        -1 if replaced is None else replaced,
    )


def due_ms_of(message: Message) -> int:
    """Return when a parked record is due: what we wrote, else what the sender asked for, else RocketMQ's second."""
    properties = message.properties
    if (exact := number_of(properties.get(DUE_MS))) is not None:
        return exact
    out_ms = number_of(properties.get(TIMER_OUT_MS))
    asked: int | None = None
    if (seconds := number_of(properties.get(TIMER_DELAY_SEC))) is not None:
        asked = message.store_ms + seconds * 1000
    elif (delay_ms := number_of(properties.get(TIMER_DELAY_MS))) is not None:
        asked = message.store_ms + delay_ms
    else:
        asked = number_of(properties.get(TIMER_DELIVER_MS))
    if out_ms is None:
        return message.store_ms if asked is None else asked
    # a relative time was counted from a moment shortly before the record was stored: it must fit RocketMQ's second
    return asked if asked is not None and out_ms < asked <= out_ms + 1000 else out_ms + 1000


def number_of(text: str | None) -> int | None:
    """Return a whole number of at most 64 bits, None for anything else."""
    if text is None or not text.isascii() or len(text) > 19 or not text.removeprefix("-").isdigit():
        return None
    return int(text)
