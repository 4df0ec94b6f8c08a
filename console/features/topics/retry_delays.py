"""A group's own retry delays as text: "10s 30s 1m" for its first three tries, as RocketMQ writes delay levels.

RocketMQ's list has two entries before that of the first try, which nobody reads (CustomizedRetryPolicy).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from console.operations.errors import InvalidParameter

POLICY = "groupRetryPolicy"
MOST_DELAYS = 100
LONGEST_MS = 365 * 86_400_000
_SKIPPED = 2
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DELAY = re.compile(r"([1-9][0-9]{0,10})(ms|s|m|h|d)")


def text_of(delay_ms: int) -> str:
    """In the largest unit that has it whole."""
    unit = next(unit for unit, length_ms in _UNITS.items() if delay_ms % length_ms == 0)
    return f"{delay_ms // _UNITS[unit]}{unit}"


def delays_of(name: str, text: Any, *, most: int = MOST_DELAYS) -> list[int]:
    """The delays in a text, ms; raises InvalidParameter."""
    words = text.split() if isinstance(text, str) else [""]
    found = [match and int(match[1]) * _UNITS[match[2]] for match in map(_DELAY.fullmatch, words)]
    delays = [delay_ms for delay_ms in found if delay_ms is not None and delay_ms <= LONGEST_MS]
    if len(delays) < len(words) or len(delays) > most:
        raise InvalidParameter(name, f"{name} is up to {most} of 500ms, 10s, 5m, 2h or 1d, with blanks between.")
    return delays


def checked_delays(name: str, given: Any) -> str:
    """Several delays in their one form, or none."""
    return " ".join(map(text_of, delays_of(name, given)))


def checked_delay(name: str, given: Any) -> str:
    """One delay in its one form."""
    if not (delays := delays_of(name, given, most=1)):
        raise InvalidParameter(name, f"{name} is one of 500ms, 10s, 5m, 2h or 1d.")
    return text_of(delays[0])


def policy_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The group's policy, empty if it has none."""
    policy = found.get(POLICY)
    return dict(policy) if isinstance(policy, Mapping) else {}


def own_delays(found: Mapping[str, Any]) -> str:
    """The delays of a CUSTOMIZED policy; empty: the broker's levels."""
    said = policy_of(found).get("customizedRetryPolicy")
    delays = said.get("next") if isinstance(said, Mapping) else None
    if not isinstance(delays, list) or not all(isinstance(each, int) and each > 0 for each in delays):
        return ""
    return " ".join(map(text_of, delays[_SKIPPED:] or delays[-1:]))


def with_own_delays(found: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The field of a group that is to have these delays."""
    delays, policy = delays_of("retry_delays", text), policy_of(found)
    policy.pop("customizedRetryPolicy", None)
    if delays:
        policy["customizedRetryPolicy"] = {"next": [*delays[:1] * _SKIPPED, *delays]}
    return {POLICY: policy}


def growth_of(found: Mapping[str, Any], part: str, usual: int) -> int:
    """A part of an EXPONENTIAL policy."""
    said = policy_of(found).get("exponentialRetryPolicy")
    value = said.get(part) if isinstance(said, Mapping) else None
    return value if isinstance(value, int) and value > 0 else usual


def with_growth(found: Mapping[str, Any], part: str, value: int) -> dict[str, Any]:
    """The field of a group with this part changed; the others are said, too."""
    said = {name: growth_of(found, name, usual) for name, usual in USUAL_GROWTH.items()} | {part: value}
    policy = policy_of(found)
    if said != USUAL_GROWTH or policy.get("exponentialRetryPolicy"):
        policy["exponentialRetryPolicy"] = said
    return {POLICY: policy}


#: ExponentialRetryPolicy of RocketMQ 5.5.0
USUAL_GROWTH = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}
