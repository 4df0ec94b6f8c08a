"""Moments and spans as people type them on pages: RFC 3339 with a zone, epoch milliseconds, "+90 min", "-1 h".

`console.site.parsing` reads them, for REST as well; here stand the words for what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from console.operations.errors import InvalidParameter
from console.site.clock import local_time, now_ms
from console.site.parsing import NoMoment, read_moment, read_span, span_meant, whole_number

#: ten years and a leap day or three, as the broker's furthest moment
_FURTHEST_MS = 2**53


def moment_ms(text: str, field: str = "moment") -> int:
    """Return the epoch ms of a moment; raises InvalidParameter, which says what is missing."""
    text = text.strip()
    if not text:
        raise InvalidParameter(field, _("Enter a time such as 2026-11-21T15:00:00+08:00, or a duration such as +1h."))
    if text.isascii() and text.isdigit() and len(text) <= 16:
        found = int(text)
    else:
        try:
            found = read_moment(text, is_typed=True)
        except NoMoment as error:
            raise InvalidParameter(field, _why_not(text, error)) from None
    if not 0 < found < _FURTHEST_MS:
        raise InvalidParameter(field, _("The time is beyond the range of timers."))
    return found


def _why_not(text: str, error: NoMoment) -> str:
    """Return what is missing, and what would do."""
    if error.why == "zone":
        return _("The time has no zone; end it with Z or +08:00.")
    if error.why == "early":
        return _("The time is beyond the range of timers.")
    meant = span_meant(text)
    if meant is not None:
        return _("“%(text)s” has no sign: a duration from now is written %(meant)s.") % {
            "text": text[:60],
            "meant": meant,
        }
    return _("“%(text)s” is not a time; write it like 2026-11-21T15:00:00+08:00, or as a duration such as +1h.") % {
        "text": text[:60]
    }


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
    found = read_span(text.strip())
    if found is None:
        raise InvalidParameter(
            field, _("“%(text)s” is not a duration; write it like +90 min or -1 h.") % {"text": text[:60]}
        )
    return found


def is_shift(text: str) -> bool:
    """Return whether the text begins with a sign: then it is a span, not a moment."""
    return text.strip()[:1] in ("+", "-")


def bound_ms(text: str, name: str, errors: dict[str, str]) -> int | None:
    """Return an end of a range in epoch ms: a moment, or a span from now. What is neither is said in `errors`."""
    if not text:
        return None
    try:
        return now_ms() + shift_ms(text, name) if is_shift(text) else moment_ms(text, name)
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
