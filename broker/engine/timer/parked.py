"""One timer: its record's place and what it says, when it is due, and in which second of the wheel it stands.

RocketMQ rounds a due time down to the second, and one second further if it was exact: a message due at 7,000 ms stands
in second 6 and leaves when that second is over. ``TIMER_OUT_MS`` says so; the exact ms stand beside it (ESC_DUE_MS).

A timer further off than the wheel reaches stands on the way in a roll slot, six to seven days ahead. It is chosen such
that second and hour of due time are equal modulo the seconds of a day: all that are due in one hour pass through at
most eight slots, which are known from the hour, so the far future can be listed and counted without another index:

    roll second mod 86,400 == hour of the due time since 1970 mod 86,400
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...rocketmq.message import Message
from ...rocketmq.properties import (
    DUE_MS,
    REAL_TOPIC,
    REPLACES,
    SCHEDULE_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)

# The timer, and what is noted on the records that begin or end it.


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


# Its second in the wheel.

HOUR_MS = 3_600_000
_HOUR_BITS = 22
_ROLL_CHECK_SHIFT = 24
_ROLL_CHECK = 15
_OFFSET_SHIFT = 28
_PLAIN_SHIFT = 16
CHECK_SHIFT = 10
PLAIN_CHECK = 63


def second_of(due_ms: int) -> int:
    """Return the second of the wheel for a due time: the one that is over when it has come."""
    return (due_ms - 1) // 1000


def out_ms_of(due_ms: int) -> int:
    """Return TIMER_OUT_MS as RocketMQ would write it."""
    return (due_ms - 1) // 1000 * 1000


class Reach:
    """What lies within the wheel's reach, and where what does not waits on the way."""

    def __init__(self, slots: int, max_delay_ms: int) -> None:
        """``slots``: seconds in reach."""
        self.slots = slots
        #: number of roll slots: one day of the seven
        self.rolls = max(1, slots // 7)
        #: a roll slot comes at least so much before the moment itself
        self._slack = self.rolls // 12
        self._turns_of, self._turns = -1, [0] * 4
        #: whether a unit alone can tell which turn of hours is meant
        self._tells_due = max_delay_ms < 3 * self.rolls * HOUR_MS

    def is_far(self, second: int, now_second: int) -> bool:
        """Tell whether a second is beyond the wheel's reach."""
        return second - now_second >= self.slots

    def roll_second(self, due_ms: int, now_second: int) -> int:
        """Return the second in which a far timer is looked at again."""
        base = now_second + self.slots - self.rolls - self._slack
        return base + (due_ms // HOUR_MS - base) % self.rolls

    def passed(self, due_ms: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield the moments up to ``end_ms`` at which a timer that was placed at ``begin_ms`` was placed anew.

        Where the broker was down at one of them it did so when it came back.
        """
        target, second = second_of(due_ms), begin_ms // 1000
        while self.is_far(target, second):
            second = self.roll_second(due_ms, second)
            if second * 1000 > end_ms:
                return
            yield second * 1000

    def roll_seconds(self, hour: int, begin: int, end: int) -> range:
        """Return the seconds in ``begin``..``end`` (not included) where timers due in an hour may wait."""
        return range(begin + (hour - begin) % self.rolls, end, self.rolls)

    def hour_of(self, second: int) -> int:
        """Return the first hour at or after a roll second whose timers wait there."""
        low = second * 1000 // HOUR_MS
        return low + (second - low) % self.rolls

    # the reserved bytes of a unit; the check finds every single bit that flips in them or in the position

    def plain_bytes(self, offset: int, due_ms: int, position: int) -> int:
        """Return what a plain unit remembers."""
        rest_ms = due_ms - (due_ms - 1) // 1000 * 1000
        return offset << _PLAIN_SHIFT | (offset + position + rest_ms) % PLAIN_CHECK << CHECK_SHIFT | rest_ms

    def roll_bytes(self, offset: int, due_ms: int, position: int) -> int:
        """Return what a roll unit remembers, 0 if it would not be clear."""
        if not self._tells_due:
            return 0
        rest = (due_ms // HOUR_MS // self.rolls & 3) << _HOUR_BITS | due_ms % HOUR_MS
        return offset << _OFFSET_SHIFT | (offset + position + rest) % _ROLL_CHECK << _ROLL_CHECK_SHIFT | rest

    def plain_of(self, second: int, own: int, position: int) -> tuple[int, int]:
        """Return (offset, due ms) of a plain unit, (-1, 0) if it is damaged."""
        offset, rest_ms = own >> _PLAIN_SHIFT, own & (1 << CHECK_SHIFT) - 1
        check = own >> CHECK_SHIFT & 63
        if check != (offset + position + rest_ms) % PLAIN_CHECK or not 1 <= rest_ms <= 1000:
            return -1, 0
        return offset, second * 1000 + rest_ms

    def roll_of(self, second: int, own: int, position: int) -> tuple[int, int]:
        """Return (offset, due ms) of a roll unit in ``second``, (-1, 0) if it is damaged."""
        offset, rest = own >> _OFFSET_SHIFT, own & (1 << _ROLL_CHECK_SHIFT) - 1
        if own >> _ROLL_CHECK_SHIFT & 15 != (offset + position + rest) % _ROLL_CHECK:
            return -1, 0
        if second != self._turns_of:
            self._turns, self._turns_of = self._hours_of_turns(second), second
        return offset, self._turns[rest >> _HOUR_BITS] + (rest & (1 << _HOUR_BITS) - 1)

    def _hours_of_turns(self, second: int) -> list[int]:
        """Return the hour, in ms, that each of the four turns means in a roll second."""
        low = second * 1000 // HOUR_MS
        first = low + (second - low) % self.rolls
        hours = [0] * 4
        for hour in range(first, first + 4 * self.rolls, self.rolls):
            hours[hour // self.rolls & 3] = hour * HOUR_MS
        return hours
