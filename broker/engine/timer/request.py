"""What a sender asks of a timer, read from the properties of the message."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ...rocketmq.properties import (
    ON_CONFLICT,
    REJECT_PAST,
    SCHEDULE_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELETE,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from ..errors import TimerIllegal, TimerInThePast, TimerTooFar
from ..message_header import value_in

Conflict = Literal["replace", "keep", "error"]
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}").fullmatch
_LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF
#: Longest schedule key, in characters.
KEY_LIMIT = 200


class Ask(NamedTuple):
    """A moment in the future; the unique key to delete or None; the schedule key or None and what to do if taken."""

    due_ms: int
    delete: str | None
    key: str | None
    on_conflict: Conflict


def moment_ms(moment: tuple[str, str], now_ms: int) -> int:
    """Return the moment that one property asks for, given by name and digits; it may be over, or too far."""
    name, digits = moment
    value = int(digits)
    if name == TIMER_DELIVER_MS:
        return value
    return now_ms + (value * 1000 if name == TIMER_DELAY_SEC else value)


def ask_of(text: str, now_ms: int, max_delay_ms: int) -> Ask | None:
    """Return what the properties ask for, None if the moment is over: the message is to be delivered at once.

    One with a schedule key has to see who has that key first: its moment is now. Raises TimerIllegal.
    """
    due_ms = due_ms_asked(text, now_ms)
    delete = value_in(text, TIMER_DELETE) if "DEL_UNIQKEY" in text else None
    if due_ms <= now_ms:
        if delete is not None or ("ESC_" in text and value_in(text, REJECT_PAST) == "true"):
            raise TimerInThePast(due_ms)
        # who passes on what was a timer once, with all its properties, asks for nothing
        key, on_conflict = key_asked(text) if value_in(text, TIMER_OUT_MS) is None else (None, "error")
        return Ask(now_ms, None, key, on_conflict) if key is not None else None
    if due_ms - now_ms > max_delay_ms:
        raise TimerTooFar(due_ms, max_delay_ms)
    return Ask(due_ms, delete, *key_asked(text))


def key_asked(text: str) -> tuple[str | None, Conflict]:
    """Return the schedule key, None without, and what to do if it is taken. Raises TimerIllegal."""
    if "ESC_" not in text or (key := value_in(text, SCHEDULE_KEY)) is None:
        return None, "error"
    return checked_key(key), _conflict_of(text)


def due_ms_asked(text: str, now_ms: int) -> int:
    """Return the moment asked for: seconds from now before ms from now before a moment; the last of all where it would
    be beyond every calendar. Raises TimerIllegal."""
    if "DELAY_SEC" in text and (value := value_in(text, TIMER_DELAY_SEC)) is not None:
        return min(now_ms + _number(TIMER_DELAY_SEC, value) * 1000, _LONG_MAX)
    if "DELAY_MS" in text and (value := value_in(text, TIMER_DELAY_MS)) is not None:
        return min(now_ms + _number(TIMER_DELAY_MS, value), _LONG_MAX)
    value = value_in(text, TIMER_DELIVER_MS)
    if value is None:
        raise TimerIllegal("A message that deletes a timer names the same moment as that timer (TIMER_DELIVER_MS).")
    return _number(TIMER_DELIVER_MS, value)


def checked_key(key: str) -> str:
    """Return a schedule key; raises TimerIllegal."""
    if not 1 <= len(key) <= KEY_LIMIT or not key.isprintable():
        raise TimerIllegal(f"The schedule key {key[:40]!r} is not valid: 1 to {KEY_LIMIT} printable characters.")
    return key


def _conflict_of(text: str) -> Conflict:
    value = value_in(text, ON_CONFLICT) or "error"
    for known in ("replace", "keep", "error"):
        if value == known:
            return known
    raise TimerIllegal(f"{ON_CONFLICT} is replace, keep or error, not {value[:40]!r}.")


def _number(name: str, value: str) -> int:
    if _NUMBER(value) is None or not -_LONG_MAX - 1 <= int(value) <= _LONG_MAX:
        raise TimerIllegal(f"timer message illegal: {name} is a whole number of 64 bits, not {value[:40]!r}.")
    return int(value)
