"""The lag of groups after an operation, and how long they would need for it at their recent pace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.client import Admin, ClientError
from console.site.mirrored import History, cluster, lags_by_group

#: of more groups than that nobody waits for the rates
MOST_GROUPS = 50


@dataclass(frozen=True, slots=True)
class Behind:
    """Messages that groups are behind, now and afterwards; the pace and the time are the slowest group's."""

    before: int
    after: int
    per_s: float | None
    catch_up_ms: int | None

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a preview that tell it."""
        return {
            "lag_before": self.before,
            "lag_after": self.after,
            "consumed_per_s": self.per_s,
            "catch_up_ms": self.catch_up_ms,
        }


def behind_after(admin: Admin, arriving: Mapping[str, int]) -> Behind | None:
    """Return the lag if so many more arrive in each topic; None: some group's lag is not known."""
    brokers, before, after = cluster().names, 0, 0
    more: dict[str, int] = defaultdict(int)
    for topic, count in arriving.items():
        for group in lags_by_group(brokers, topic=topic):
            if group.lag is None:
                return None
            before, after = before + group.lag, after + group.lag + count
            more[group.group] += count
    return Behind(before, after, *_slowest(admin, brokers, more))


def group_behind_after(admin: Admin, group: str, count: int) -> Behind | None:
    """Return the lag of one group if it is given so many more; None: its lag is not known."""
    lag = next((each.lag for each in lags_by_group(cluster().names, group=group)), 0)
    if lag is None:
        return None
    rate = pace(admin, group)
    return Behind(lag, lag + count, rate, catch_up_ms(lag + count, rate))


def pace(admin: Admin, group: str) -> float | None:
    """Return messages a second in those slots of the last five minutes in which the group took any; 0.0: none.

    Where the mirror keeps no rates (Apache RocketMQ) it is what the broker says that the group takes now. None: nobody
    knows.
    """
    history = cluster().histories("group", [group])[group]
    if history.known:
        return busy_rate(history)
    try:
        return admin.consume_stats(group).consume_per_s
    except ClientError:
        return None


def busy_rate(history: History) -> float:
    """Return the mean of the slots in which there was anything; what was idle says nothing about the pace."""
    busy = [rate for rate in history.per_s if rate]
    return sum(busy) / len(busy) if busy else 0.0


def catch_up_ms(behind: int, per_s: float | None) -> int | None:
    """Return how long catching up takes, in ms; None where the pace is not known, or nothing is taken at all."""
    if not behind:
        return 0
    return round(1000 * behind / per_s) if per_s else None


def _slowest(admin: Admin, brokers: Sequence[str], more: Mapping[str, int]) -> tuple[float | None, int | None]:
    """Return pace and time of the group that needs longest for all that it is behind then; None: one is not known."""
    if not 0 < len(more) <= MOST_GROUPS:
        return None, None
    longest: tuple[float | None, int] = (None, -1)
    for name, count in more.items():
        whole = next((each.lag for each in lags_by_group(brokers, group=name)), None)
        rate = pace(admin, name)
        needed = None if whole is None else catch_up_ms(whole + count, rate)
        if needed is None:
            return rate, None
        if needed > longest[1]:
            longest = rate, needed
    return longest
