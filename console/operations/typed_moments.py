"""Moments and spans as people type them on pages: RFC 3339 with a zone, epoch milliseconds, "+90 min", "-1 h".

`console.site.parsing` reads them, for REST as well; here stand the words for what is wrong with them, and the
units of other languages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from django.utils.translation import gettext as _

from console.operations.errors import InvalidParameter
from console.site.clock import local_time, now_ms
from console.site.parsing import NoMoment, read_moment, read_span, span_meant, whole_number

#: ten years and a leap day or three, as the broker's furthest moment
_FURTHEST_MS = 2**53


#: units and signs as they are typed in Chinese, the longer ones first
_TYPED = {
    "毫秒": "ms", "秒钟": "s", "秒": "s", "分钟": "min", "分": "min", "小时": "h", "天": "d",
    "\uff0b": "+", "\uff0d": "-",
}  # fmt: skip
_TYPED_ONE = re.compile("|".join(map(re.escape, _TYPED)))


def plain_units(text: str) -> str:
    """Return a text with the units of time that `console.site.parsing` reads: what a page shows can be typed again."""
    return _TYPED_ONE.sub(lambda found: _TYPED[found[0]], text)


#: what a span without a sign is taken for, or what is advised: from now on, so long ago, or later by so much
Unsigned = Literal["from_now", "ahead", "back", "later"]


def time_ms(text: str, field: str = "moment", unsigned: Unsigned = "ahead") -> int:
    """Return the epoch ms of a moment, or of a span from now; raises InvalidParameter, which says what is missing.

    A span without a sign is taken as one from now on if it can mean nothing else ("from_now").
    """
    text = plain_units(text)
    span_ms = bare_span_ms(text) if unsigned == "from_now" else None
    if span_ms is not None:
        return now_ms() + span_ms
    return now_ms() + shift_ms(text, field) if is_shift(text) else moment_ms(text, field, unsigned)


def moment_ms(text: str, field: str = "moment", unsigned: Unsigned = "ahead") -> int:
    """Return the epoch ms of a moment; raises InvalidParameter, which says what is missing."""
    text = text.strip()
    if not text:
        said = _("Enter a time such as 2026-11-21T15:00:00+08:00, or a duration such as %(such)s.")
        raise InvalidParameter(field, said % {"such": _SUCH[unsigned]})
    if text.isascii() and text.isdigit() and len(text) <= 16:
        found = int(text)
    else:
        try:
            found = read_moment(text, is_typed=True)
        except NoMoment as error:
            raise InvalidParameter(field, _why_not(text, error, unsigned)) from None
    if not 0 < found < _FURTHEST_MS:
        raise InvalidParameter(field, _("The time is beyond the range of timers."))
    return found


#: a span as an example
_SUCH: Mapping[Unsigned, str] = {"from_now": "+1h", "ahead": "+1h", "back": "-1h", "later": "+1h"}


def _why_not(text: str, error: NoMoment, unsigned: Unsigned) -> str:
    """Return what is missing, and what would do."""
    if error.why == "zone":
        return _("The time has no zone; end it with Z or +08:00.")
    if error.why == "early":
        return _("The time is beyond the range of timers.")
    meant = span_meant(text)
    if meant is None:
        said = _(
            "“%(text)s” is not a time; write it like 2026-11-21T15:00:00+08:00, or as a duration such as %(such)s."
        )
        return said % {"text": text[:60], "such": _SUCH[unsigned]}
    back = f"-{meant.removeprefix('+')}"
    if unsigned == "back":
        return _("“%(text)s” has no sign: so long ago is written %(meant)s.") % {"text": text[:60], "meant": back}
    if unsigned == "later":
        said = _("“%(text)s” has no sign: %(later)s is later by so much, %(earlier)s is earlier.")
        return said % {"text": text[:60], "later": meant, "earlier": back}
    return _("“%(text)s” has no sign: a duration from now is written %(meant)s.") % {"text": text[:60], "meant": meant}


def bare_span_ms(text: str) -> int | None:
    """Return the milliseconds of a span without a sign, such as "10 min"; None if it is none."""
    meant = span_meant(plain_units(text).strip())
    return None if meant is None else read_span(meant)


def delay_ms(text: str, field: str = "moment") -> int:
    """Return the milliseconds of a delay, with or without its sign; raises InvalidParameter."""
    found = bare_span_ms(text)
    return shift_ms(text, field) if found is None else found


def shown_moment(text: str) -> str:
    """Return a time as a field shows it: one in milliseconds, as links have it, as a time with its zone."""
    ms = whole_number(text.strip(), high=_FURTHEST_MS)
    if ms is None:
        return text
    try:
        at = local_time(ms)
    except (OverflowError, ValueError):
        return text
    return at.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")


def shift_ms(text: str, field: str = "moment") -> int:
    """Return the milliseconds of a span with its sign; raises InvalidParameter."""
    found = read_span(plain_units(text).strip())
    if found is None:
        raise InvalidParameter(
            field, _("“%(text)s” is not a duration; write it like +90 min or -1 h.") % {"text": text[:60]}
        )
    return found


def is_shift(text: str) -> bool:
    """Return whether the text begins with a sign: then it is a span, not a moment."""
    return plain_units(text).strip()[:1] in ("+", "-")


def bound_ms(text: str, name: str, errors: dict[str, str], unsigned: Unsigned = "ahead") -> int | None:
    """Return an end of a range in epoch ms: a moment, or a span from now. What is neither is said in `errors`."""
    if not text:
        return None
    try:
        return time_ms(text, name, unsigned)
    except InvalidParameter as error:
        errors[name] = str(error)
        return None


def checked_move(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return `due_ms` or `shift_ms`, whichever is given, or nothing; raises InvalidParameter."""
    given = {name: parameters[name] for name in ("due_ms", "shift_ms") if parameters.get(name) is not None}
    if len(given) > 1:
        raise InvalidParameter("moment", "Give a time or a duration, not both.")
    for name, number in given.items():
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= _FURTHEST_MS:
            raise InvalidParameter("moment", f"{name} is a whole number of milliseconds.")
    return given
