"""Units of what alert rules watch: a value in words, as text of a form, and read as people write it.

"30 s", "5 minutes"    a length of time      "85 %"    a share
"10,000", "10 k"       messages              "2 GB"    bytes, by powers of 1,000 as the console writes them
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.operations.typed_moments import bare_span_ms
from console.site.durations import sign_of

#: the unit in which each watched value and its threshold are kept
UNIT_OF: Mapping[str, str] = {
    "broker-down": "s", "backlog": "messages", "still": "s", "dead-letters": "messages", "lateness": "ms",
    "lane-late": "ms", "half-age": "s", "stuck-queue": "s", "disk-used": "%", "slave-behind": "bytes",
}  # fmt: skip
_UNIT_MS = {"ms": 1, "s": 1_000}
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))
#: a whole number of so many digits is round enough to be said as it is
_ROUND_DIGITS = 4
_COUNTS = {"": 1, "k": 10**3, "m": 10**6}
_COUNT_SIGN = re.compile(r"([km]?)\s*(?:messages?|条)?").fullmatch
_BYTES = {name.lower(): size for name, size in _SIZES} | {"": 1, "bytes": 1, "byte": 1, "tb": 10**12}
_NUMBER = re.compile(r"(\d{1,3}(?:[,\u202f ]\d{3})+|\d{1,15})(\.\d{1,9})?\s*(.*)", re.ASCII | re.DOTALL).fullmatch


def unit_words(what: str) -> str:
    """Return the unit in which a threshold may be written, for the end of a metric's name."""
    unit = UNIT_OF.get(what, "")
    if unit in _UNIT_MS:
        return _("time")
    return {"messages": _("messages"), "bytes": _("bytes")}.get(unit, unit)


def example_of(what: str) -> str:
    """Return how a threshold may be written."""
    minutes, thousandths = f"5 {sign_of('min')}", f"500 {sign_of('ms')}"
    return {"s": minutes, "ms": thousandths, "messages": "10 k", "%": "85 %", "bytes": "2 GB"}.get(
        UNIT_OF.get(what, ""), ""
    )


def in_words(what: str, value: float) -> str:
    """Return a value of what is watched with its unit, to three digits where it is no round one."""
    unit = UNIT_OF.get(what, "")
    if unit == "messages":
        return ngettext("%(count)s message", "%(count)s messages", round(value)) % {"count": f"{value:,.15g}"}
    if unit == "%":
        return f"{value:.3g} %"
    exact, units = as_text(what, value), _SIZES if unit == "bytes" else _SPANS
    if exact.split()[0].isdigit() and len(exact.split()[0]) <= _ROUND_DIGITS:
        return exact
    scaled = value * _UNIT_MS.get(unit, 1)
    name, size = next((each for each in units if scaled >= each[1]), units[-1])
    return f"{scaled / size:.3g} {sign_of(name)}"


def as_text(what: str, value: float) -> str:
    """Return a threshold as a form shows it, which `read` reads again without loss."""
    unit = UNIT_OF.get(what, "")
    if unit in _UNIT_MS:
        return span_text(value * _UNIT_MS[unit])
    if unit == "bytes":
        return _scaled(value, _SIZES)
    return f"{value:.15g} %" if unit == "%" else f"{value:.15g}"


def span_text(ms: float) -> str:
    """Return a length of time in the largest unit that has it whole: 90 s, 5 min, 250 ms."""
    return _scaled(ms, _SPANS) if ms else f"0 {sign_of('s')}"


def read(what: str, text: str) -> float | None:
    """Return the number that a text means in the unit of what is watched; None where it means none.

    A number alone is in that unit already.
    """
    unit, found = UNIT_OF.get(what, ""), _NUMBER(text.strip())
    if found is None:
        return None
    whole, fraction, sign = found.groups()
    number, sign = float(re.sub(r"\D", "", whole) + (fraction or "")), sign.strip()
    if not sign:
        return number
    if unit in _UNIT_MS:
        ms = bare_span_ms(text)
        return None if ms is None else ms / _UNIT_MS[unit]
    if unit == "%":
        return number if sign == "%" else None
    if unit == "bytes":
        size = _BYTES.get(sign.lower())
    else:
        counted = _COUNT_SIGN(sign.lower())
        size = None if counted is None else _COUNTS[counted[1]]
    return None if size is None else number * size


def _scaled(value: float, units: tuple[tuple[str, int], ...]) -> str:
    for name, size in units:
        if value >= size and value % size == 0:
            return f"{value / size:.15g} {sign_of(name)}"
    return f"{value / units[-1][1]:.15g} {sign_of(units[-1][0])}"
