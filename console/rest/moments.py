"""Moments as requests give them: RFC 3339 with a zone, or milliseconds since 1970.

A time without a zone is refused, never guessed. What is finer than a millisecond is rounded up: never early.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from console.site.parsing import NoMoment, Why, read_moment

from .errors import InvalidMoment, ZoneMissing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    try:
        return read_moment(value)
    except NoMoment as error:
        raise _refused(value, field, error.why) from None


def _refused(value: str, field: str, why: Why) -> InvalidMoment:
    given = f"{field} {value[:60]!r}"
    if why == "zone":
        return ZoneMissing(f"{given} has no zone: end it with Z or an offset such as +01:00.", field)
    if why == "early":
        return InvalidMoment(f"{given} is before 1970.", field)
    if why == "form":
        hint = " Give epoch milliseconds as a number, without quotes." if _DIGITS(value) else ""
        return InvalidMoment(f"{given} is no moment: write it as 2027-01-31T08:00:00+01:00 or ...Z.{hint}", field)
    return InvalidMoment(
        f"{given} is no moment: there is no such {'offset' if why == 'offset' else 'day or time'}.", field
    )


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
