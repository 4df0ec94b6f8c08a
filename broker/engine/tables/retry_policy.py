"""When a message that a group could not handle is tried again: the policy that its configuration may hold.

RocketMQ keeps ``groupRetryPolicy`` and its proxy tells 5.x clients of it; its broker itself follows the delay levels
only. Here a consumer that leaves the delay to the broker gets that of the policy, where the group says one:

    CUSTOMIZED   {"next": [ms, ...]}: of try n (from 0 on) entry n + 2, at last the last one, as RocketMQ counts
    EXPONENTIAL  {"initial": ms, "max": ms, "multiplier": number}: initial * multiplier ** n, at most max
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .groups import Group

INITIAL_MS, LONGEST_MS, MULTIPLIER = 5_000, 7_200_000, 2
"""ExponentialRetryPolicy of 5.5.0, where nothing else is said."""
_SKIPPED = 2
_MOST_STEPS = 32


def retry_delay_ms(group: Group | None, times: int) -> int | None:
    """Return how long a message rests that was tried again ``times`` times; None: as its next delay level says.

    What cannot be understood (any client may write a group's configuration) counts as not said.
    """
    policy = group.extra.get("groupRetryPolicy") if group is not None else None
    if not isinstance(policy, Mapping):
        return None
    if policy.get("type") == "EXPONENTIAL":
        said = policy.get("exponentialRetryPolicy")
        return _exponential(said if isinstance(said, Mapping) else {}, min(times, _MOST_STEPS))
    said = policy.get("customizedRetryPolicy")
    delays = said.get("next") if isinstance(said, Mapping) else None
    if not isinstance(delays, list) or not delays:
        return None
    return _positive(delays[min(times + _SKIPPED, len(delays) - 1)])


def _exponential(said: Mapping[str, Any], step: int) -> int | None:
    initial, longest, multiplier = (
        _positive(said.get(name, usual))
        for name, usual in (("initial", INITIAL_MS), ("max", LONGEST_MS), ("multiplier", MULTIPLIER))
    )
    if initial is None or longest is None or multiplier is None:
        return None
    grown: int = initial * multiplier**step
    return min(longest, grown)


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
