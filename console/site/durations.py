"""Signs of units of time as the reader's language writes them: "min" in English, a word of its own in Chinese.

Files, REST and addresses have the English ones always; what a page's field takes is read in both (typed_moments).
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import pgettext_lazy

_SIGNS: Mapping[str, object] = {
    "ms": pgettext_lazy("unit of time", "ms"),
    "s": pgettext_lazy("unit of time", "s"),
    "min": pgettext_lazy("unit of time", "min"),
    "h": pgettext_lazy("unit of time", "h"),
    "d": pgettext_lazy("unit of time", "d"),
}


def sign_of(unit: str) -> str:
    """Return the sign of a unit of time; what is none stays."""
    return str(_SIGNS.get(unit, unit))


def signs() -> str:
    """Return all of them from the smallest on, between blanks: what static/js/clocks.js is told."""
    return " ".join(map(str, _SIGNS.values()))
