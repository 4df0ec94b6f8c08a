"""Times that are offered for a move: later by a span, each from its own due time; or all at one time.

A button sends the code of its offer. What a code means is worked out when it arrives: an hour from now is an hour from
the press, and the day and hour are those of the reader's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from django.utils.translation import gettext

from console.operations.errors import InvalidParameter
from console.site.clock import epoch_ms, local_time, now_ms
from console.site.durations import sign_of
from console.site.parsing import whole_number

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
#: spans of a shift
_LATER = ((10, "min", 10 * _MINUTE), (1, "h", _HOUR), (1, "d", _DAY))
#: hours of this day and the next
_EVENING, _MORNING = 20, 9


@dataclass(frozen=True, slots=True)
class Offer:
    """A time that is a press away: what the button sends, and what it says."""

    code: str
    words: str
    #: it is what was chosen last
    is_chosen: bool = False


def later(shift_ms: int | None = None) -> Sequence[Offer]:
    """Return the spans by which each can be moved; `shift_ms` is the one that was chosen."""
    return [Offer(f"later-{ms}", f"{count} {sign_of(unit)}", ms == shift_ms) for count, unit, ms in _LATER]


def all_at(due_ms: int | None = None) -> Sequence[Offer]:
    """Return the times that all can be moved to, by the reader's clock, which they name; an hour of today only while it
    is ahead. `due_ms` is the one that was chosen: what was "in 1 h" is that no more when a minute has passed."""
    evening_ms, morning_ms, here_ms = _hour_ms(0, _EVENING), _hour_ms(1, _MORNING), now_ms()
    is_soon = due_ms is not None and 0 <= here_ms + _HOUR - due_ms < _MINUTE
    offers = [Offer(f"in-{_HOUR}", gettext("in 1 h"), is_soon)]
    if evening_ms > here_ms:
        words = gettext("tonight 20:00 %(zone)s") % {"zone": _zone(evening_ms)}
        offers.append(Offer(f"today-{_EVENING}", words, due_ms == evening_ms))
    words = gettext("tomorrow 09:00 %(zone)s") % {"zone": _zone(morning_ms)}
    return [*offers, Offer(f"tomorrow-{_MORNING}", words, due_ms == morning_ms)]


def _zone(ms: int) -> str:
    return f"{local_time(ms):%Z}"


def move_of(code: str) -> dict[str, int | None]:
    """Return the parameters of a move that an offer's code means now; raises InvalidParameter."""
    kind, _dash, text = code.partition("-")
    number = whole_number(text, 0, 366 * _DAY if kind in ("later", "in") else 23)
    if number is None or kind not in ("later", "in", "today", "tomorrow"):
        raise InvalidParameter("moment", gettext("There is no such time to choose."))
    if kind == "later":
        return {"shift_ms": number, "due_ms": None}
    due_ms = now_ms() + number if kind == "in" else _hour_ms(int(kind == "tomorrow"), number)
    if due_ms < now_ms():
        raise InvalidParameter("moment", gettext("That time has passed: choose a later one."))
    return {"due_ms": due_ms, "shift_ms": None}


def _hour_ms(days: int, hour: int) -> int:
    """Return when it is that hour by the reader's clock, so many days from today."""
    here = local_time(now_ms())
    at = datetime.combine(here.date() + timedelta(days=days), time(hour), tzinfo=here.tzinfo)
    found = epoch_ms(at)
    assert found is not None, "a time that is given has its milliseconds"
    return found
