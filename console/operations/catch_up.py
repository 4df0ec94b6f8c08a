"""The lag of groups after an operation, and how long they would need for it at their recent pace.

What arrives meanwhile counts: a group catches up by what it takes more than that. Where no more is seen than arrives,
either it never does, or it took all that there was, and how much more it could take was not seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from broker.client import Admin, ClientError
from broker.mirror.models import ConsumerOffset
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.site.mirrored import Cluster, History, cluster, lags_by_group

#: of more groups than that nobody waits for the rates
MOST_GROUPS = 50
#: what arrived in so short a time is on its way to a group that keeps up
ON_ITS_WAY_S = 5
#: who keeps up takes what arrives, unevenly: how fast it could be is seen where it took twice as much for a while
_SPARE_SEEN = 0.5


@dataclass(frozen=True, slots=True)
class Pace:
    """Messages a second that a group takes when it takes any, and that arrive for it; None: nobody knows."""

    consumed_per_s: float | None
    arriving_per_s: float | None = None

    def catch_up_ms(self, behind: int, before: int | None = None) -> int | None:
        """Return how long it needs for all that it is `behind`, in ms; None: nothing is taken, it never does, or it is
        not known. `before` is what it is behind now, if that is less."""
        if not behind:
            return 0
        if not self.consumed_per_s:
            return None
        spare_per_s = self.consumed_per_s - (self.arriving_per_s or 0)
        if spare_per_s <= 0:
            return None
        if self.keeps_up(behind if before is None else before) and spare_per_s < _SPARE_SEEN * self.consumed_per_s:
            return None
        return round(1000 * behind / spare_per_s)

    def keeps_up(self, behind: int) -> bool:
        """Tell whether it takes all that arrives: it is behind by no more than is on its way."""
        return behind <= (self.arriving_per_s or 0) * ON_ITS_WAY_S

    def is_outrun(self, behind: int) -> bool:
        """Tell whether it is behind, takes something, and as much or more arrives."""
        if not self.consumed_per_s or self.arriving_per_s is None:
            return False
        return self.arriving_per_s >= self.consumed_per_s and not self.keeps_up(behind)


@dataclass(frozen=True, slots=True)
class Behind:
    """Messages that groups are behind, now and afterwards; the pace and the time are the slowest group's."""

    before: int
    after: int
    pace: Pace
    catch_up_ms: int | None
    #: it never catches up, as more arrives than it takes
    is_outrun: bool = False

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a preview that tell it."""
        return {
            "lag_before": self.before,
            "lag_after": self.after,
            "consumed_per_s": self.pace.consumed_per_s,
            "arriving_per_s": self.pace.arriving_per_s,
            "catch_up_ms": self.catch_up_ms,
            "is_outrun": self.is_outrun,
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
    lag = lag_of_group(group)
    return None if lag is None else behind_at(pace(admin, group), lag, lag + count)


def lag_of_group(group: str) -> int | None:
    """Return how far a group is behind now; None: not known."""
    return next((each.lag for each in lags_by_group(cluster().names, group=group)), 0)


def lag_of_topics(topics: Iterable[str], group: str | None = None) -> int | None:
    """Return how far all groups of these topics, or this one, are behind in them now; None: that of some is not
    known."""
    names = cluster().names
    lags = [each.lag for topic in topics for each in lags_by_group(names, topic=topic, group=group)]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def in_words(topics: Iterable[str], group: str = "") -> str:
    """Return whose lag it is: that of one group, of one in some topics, or of all groups of some topics."""
    names = sorted(set(topics))
    of = {"group": group, "n": len(names), "topic": names[0] if names else ""}
    if not names:
        return group
    if len(names) == 1:
        return (gettext("%(group)s in %(topic)s") if group else gettext("all groups of %(topic)s")) % of
    several = ngettext("%(group)s in %(n)s topic", "%(group)s in %(n)s topics", len(names))
    of_all = ngettext("all groups of %(n)s topic", "all groups of %(n)s topics", len(names))
    return (several if group else of_all) % of


def behind_at(found: Pace, before: int, after: int) -> Behind:
    """Return what it means to be behind by so much afterwards, at this pace."""
    return Behind(before, after, found, found.catch_up_ms(after, before), bool(after) and found.is_outrun(before))


def pace(admin: Admin, group: str) -> Pace:
    """Return what the group took in those slots of the last five minutes in which it took any, and what arrived for it
    in all of them.

    Where the mirror keeps no rates (Apache RocketMQ) it is what the broker says that the group takes now.
    """
    here = cluster()
    history = here.histories("group", [group])[group]
    if history.known:
        return Pace(busy_rate(history), arriving(here, group, _topics_of(here, group), _mean))
    try:
        return Pace(admin.consume_stats(group).consume_per_s)
    except ClientError:
        return Pace(None)


def busy_rate(history: History) -> float:
    """Return the mean of the slots in which there was anything; what was idle says nothing about the pace."""
    busy = [rate for rate in history.per_s if rate]
    return sum(busy) / len(busy) if busy else 0.0


def arriving(here: Cluster, group: str, topics: Iterable[str], rate: Callable[[History], float | None]) -> float | None:
    """Return what arrives a second for a group that reads these topics, its own of retries among them; None: nobody
    knows."""
    names = {name for name in topics if not name.startswith(DLQ_PREFIX)} | {f"{RETRY_PREFIX}{group}"}
    known = [found for each in here.histories("topic", names).values() if (found := rate(each)) is not None]
    return sum(known) if known else None


def _mean(history: History) -> float | None:
    known = [rate for rate in history.per_s if rate is not None]
    return sum(known) / len(known) if known else None


def _topics_of(here: Cluster, group: str) -> list[str]:
    read = ConsumerOffset.objects.filter(broker__in=here.names, group=group).order_by()
    return list(read.values_list("topic", flat=True).distinct())


def _slowest(admin: Admin, brokers: Sequence[str], more: Mapping[str, int]) -> tuple[Pace, int | None, bool]:
    """Return pace and time of the group that needs longest for all that it is behind then, and whether more arrives
    than it takes; no time: one is not known."""
    if not 0 < len(more) <= MOST_GROUPS:
        return Pace(None), None, False
    longest: tuple[Pace, int, bool] = (Pace(None), -1, False)
    for name, count in more.items():
        whole = next((each.lag for each in lags_by_group(brokers, group=name)), None)
        found = pace(admin, name)
        if whole is None:
            return found, None, False
        then = behind_at(found, whole, whole + count)
        if then.catch_up_ms is None:
            return found, None, then.is_outrun
        if then.catch_up_ms > longest[1]:
            longest = found, then.catch_up_ms, False
    return longest
