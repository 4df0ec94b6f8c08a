"""One timer: its record's place and what it says, and what is noted on the records that begin or end it."""

from __future__ import annotations

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
