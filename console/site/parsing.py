"""Numbers, moments and spans that people and programs write as text: the one reader of pages and of REST.

All of it is whole numbers, moments and spans in exact milliseconds. What is finer than a millisecond is rounded up: a
timer is never early by what was typed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

#: the largest number that any caller takes; longer texts are never turned into numbers
MOST = 2**63 - 1
_MOST_DIGITS = len(str(MOST))


def whole_number(text: str | None, low: int = 0, high: int = MOST) -> int | None:
    """Return the number from `low` to `high` (both included) that `text` writes in plain decimal digits.

    None for anything else: no text, a sign, blanks, a fraction, digits of other scripts, or a number out of range.
    """
    if not text or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if low <= number <= high else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2})(:\d{2}(?:\.(\d{1,18}))?)?(?:([Zz])|([+-])(\d{2})(?:(:?)(\d{2}))?)?",
    re.ASCII,
).fullmatch
UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: what people write out; after a sign only the short ones count
_WORDS = {"second": "s", "sec": "s", "minute": "min", "hour": "h", "day": "d"}
_SPAN = re.compile(r"([+-])\s*(\d{1,12})(?:\.(\d{1,9}))?\s*(ms|s|min|m|h|d)", re.ASCII).fullmatch
_BARE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(ms|s|min|m|h|d|(?:second|sec|minute|hour|day)s?)", re.ASCII).fullmatch

Why = Literal["form", "zone", "day", "offset", "early"]


class NoMoment(ValueError):
    """The text is no moment. `why`: it is written otherwise, has no zone, there is no such day or time, no such offset
    of a zone, or it is before 1970."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why: Why = why


def read_moment(text: str, *, is_typed: bool = False) -> int:
    """Return epoch ms of RFC 3339; raise NoMoment. The seconds may be missing, and a zone written as +08 or +0800."""
    found = _FORM(text)
    if found is None:
        raise NoMoment("form")
    day, clock, second, fraction, zulu, sign, hours, colon, minutes = found.groups()
    is_short = second is None or (sign is not None and not colon)
    if is_short and not is_typed:
        raise NoMoment("form")
    if zulu is None and sign is None:
        raise NoMoment("zone")
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{(second or ':00')[:3]}").replace(tzinfo=UTC)
    except ValueError:
        raise NoMoment("day") from None
    if int(hours or 0) > 23 or int(minutes or 0) > 59:
        raise NoMoment("offset")
    offset_ms = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000 * (-1 if sign == "-" else 1)
    digits = (fraction or "").ljust(3, "0")
    ms = (whole - _EPOCH) // timedelta(milliseconds=1) + int(digits[:3]) + bool(digits[3:].strip("0")) - offset_ms
    if ms < 0:
        raise NoMoment("early")
    return ms


def read_span(text: str) -> int | None:
    """Return milliseconds of a span with its sign, such as +90 min or -1 h; None if it is none."""
    found = _SPAN(text)
    if found is None:
        return None
    sign, whole, fraction, unit = found.groups()
    digits = fraction or ""
    scaled = int(whole + digits) * UNITS_MS[unit] * (-1 if sign == "-" else 1)
    return -(-scaled // 10 ** len(digits))


def span_meant(text: str) -> str | None:
    """Return the span that a text without a sign may mean, as it is to be written ("1 hour" is +1h), or None."""
    found = _BARE(text.lower())
    if found is None:
        return None
    amount, word = found.groups()
    return f"+{amount}{_WORDS.get(word.removesuffix('s'), word)}"
