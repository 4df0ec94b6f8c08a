"""Moments and spans as people type them: RFC 3339 with a zone, epoch milliseconds, "+90 min", "-1 h"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from console.operations.errors import InvalidParameter
from console.queries.clock import now_ms

_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"([+-])\s*(\d{1,12}(?:\.\d{1,3})?)\s*(ms|s|min|m|h|d)")
#: ten years and a leap day or three, as the broker's furthest moment
_FURTHEST_MS = 2**53


def moment_ms(text: str, field: str = "moment") -> int:
    """Epoch ms of a moment; raises InvalidParameter naming what is missing."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 16:
        found = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
        except ValueError:
            raise InvalidParameter(
                field, _("“%(text)s” is no moment; write it like 2026-11-21T15:00:00+08:00.") % {"text": text[:60]}
            ) from None
        if moment.tzinfo is None:
            raise InvalidParameter(field, _("The moment has no time zone; end it with Z or +08:00."))
        found = round(moment.timestamp() * 1000)
    if not 0 < found < _FURTHEST_MS:
        raise InvalidParameter(field, _("The moment is beyond what a timer can hold."))
    return found


def shift_ms(text: str, field: str = "moment") -> int:
    """Milliseconds of a span with its sign."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise InvalidParameter(field, _("“%(text)s” is no span; write it like +90 min or -1 h.") % {"text": text[:60]})
    sign, amount, unit = match.groups()
    return (-1 if sign == "-" else 1) * round(float(amount) * _UNITS_MS[unit])


def is_shift(text: str) -> bool:
    """It begins with a sign: a span, not a moment."""
    return text.strip()[:1] in ("+", "-")


def bound_ms(text: str, name: str, errors: dict[str, str]) -> int | None:
    """An end of a range: a moment, or a span from now; what is neither is said beside its field, in `errors`."""
    if not text:
        return None
    try:
        return now_ms() + shift_ms(text, name) if is_shift(text) else moment_ms(text, name)
    except InvalidParameter as error:
        errors[name] = str(error)
        return None


def checked_move(parameters: Mapping[str, Any]) -> dict[str, int]:
    """`due_ms` or `shift_ms`, whichever is given, or neither; raises InvalidParameter."""
    given = {name: parameters[name] for name in ("due_ms", "shift_ms") if parameters.get(name) is not None}
    if len(given) > 1:
        raise InvalidParameter("moment", "Give a moment or a span, not both.")
    for name, number in given.items():
        if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= _FURTHEST_MS:
            raise InvalidParameter("moment", f"{name} is a whole number of milliseconds.")
    return given
