"""Moments as requests give them: RFC 3339 with a zone, or milliseconds since 1970.

A time without a zone is refused, never guessed. What is finer than a millisecond is rounded up: never early.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from .errors import InvalidMoment, ZoneMissing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,18}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))?", re.ASCII
).fullmatch
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII).fullmatch
_LATEST_MS = 2**63 - 1
#: Longer numbers in an address are no moments of any kind.
_MOST_DIGITS = 100


def moment_ms(value: str | int, field: str) -> int:
    """Epoch ms; raises InvalidMoment or ZoneMissing, which name the field."""
    if isinstance(value, int):
        if not 0 <= value <= _LATEST_MS:
            written = f"{value}" if abs(value) < 10**40 else "with so many digits"
            raise InvalidMoment(f"{field} {written} is not valid: milliseconds since 1970, from 0 to 2^63 - 1.", field)
        return value
    found = _FORM(value)
    if found is None:
        hint = " Give epoch milliseconds as a number, without quotes." if _DIGITS(value) else ""
        raise InvalidMoment(
            f"{field} {value[:60]!r} is no moment: write it as 2027-01-31T08:00:00+01:00 or ...Z.{hint}", field
        )
    day, clock, fraction, zulu, sign, hours, minutes = found.groups()
    if zulu is None and sign is None:
        raise ZoneMissing(f"{field} {value[:60]!r} has no zone: end it with Z or an offset such as +01:00.", field)
    return _in_ms(value, field, f"{day}T{clock}", fraction or "", sign, int(hours or 0), int(minutes or 0))


def _in_ms(value: str, field: str, local: str, fraction: str, sign: str | None, hours: int, minutes: int) -> int:
    try:
        whole = datetime.fromisoformat(local).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidMoment(f"{field} {value[:60]!r} is no moment: there is no such day or time.", field) from None
    if hours > 23 or minutes > 59:
        raise InvalidMoment(f"{field} {value[:60]!r} is no moment: there is no such offset.", field)
    offset_ms = (hours * 60 + minutes) * 60_000 * (-1 if sign == "-" else 1)
    digits = fraction.ljust(3, "0")
    ms = (whole - _EPOCH) // timedelta(milliseconds=1) + int(digits[:3]) + bool(digits[3:].strip("0")) - offset_ms
    if ms < 0:
        raise InvalidMoment(f"{field} {value[:60]!r} is before 1970.", field)
    return ms


def parameter_ms(text: str, field: str) -> int:
    """A moment in the address: digits are epoch ms. A blank is a plus sign that was not encoded."""
    if len(text) <= _MOST_DIGITS and _DIGITS(text):
        return moment_ms(int(text), field)
    return moment_ms(text[:11] + text[11:].replace(" ", "+"), field)


def written_moment(ms: int) -> str:
    """Epoch ms as RFC 3339 in UTC, for people; moments after the year 9999 as the number."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return f"{ms} ms"
