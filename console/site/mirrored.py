"""The mirror's rows with their evidence: which brokers, how far, how old.

A page is about one broker (`mirrored`), or about all that its address chooses, in total (`cluster`).

Also the rate histories behind the sparklines, 60 slots of 5 s, and how far consumer groups are behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import BigIntegerField, Func
from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from broker.mirror.models import SLOT_MS, SLOTS, Broker, MirrorState, RateHistory
from broker.mirror.watch import aligned
from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.site.chosen import Choice, chosen
from console.site.clock import now_ms, simulated
from console.site.evidence import Evidence, StaleReason, joined


@dataclass(frozen=True, slots=True)
class History:
    """Mean rates per second, oldest first, always SLOTS long; None is a gap (the mirror did not run), never 0."""

    per_s: tuple[float | None, ...] = (None,) * SLOTS
    #: epoch ms at which the last (newest, complete) slot ended; None when nothing is known
    end_ms: int | None = None

    @property
    def known(self) -> bool:
        """Tell whether at least one slot has a value."""
        return any(value is not None for value in self.per_s)

    @property
    def latest(self) -> float | None:
        """Mean of the newest two slots that are known among the last two (10 s)."""
        recent = [value for value in self.per_s[-2:] if value is not None]
        return sum(recent) / len(recent) if recent else None

    @property
    def quiet_ms(self) -> int | None:
        """The time for which nothing has happened, at most the history's length; None if the newest slot is unknown."""
        if self.per_s[-1] is None:
            return None
        silent = takewhile(lambda value: value == 0, reversed(self.per_s))
        return sum(1 for _ in silent) * SLOT_MS

    @property
    def total(self) -> int:
        """The number of messages in all known slots."""
        return round(sum(value for value in self.per_s if value is not None) * SLOT_MS / 1000)

    @property
    def peak(self) -> float | None:
        """The highest rate of all slots, for the scale of a chart."""
        known = [value for value in self.per_s if value is not None]
        return max(known) if known else None


#: rows older than this are not the present: ten rounds of following, and of polling
FOLLOWING_STALE_MS = 5_000
POLLING_STALE_MS = 15_000
#: the request that the mirror follows by
CHANGES_REQUEST = 14_000


#: the last two counts of a history
_NEWEST = Func(
    "counts",
    template="(%(expressions)s)[array_upper(%(expressions)s, 1) - 1:]",
    output_field=ArrayField(BigIntegerField(null=True)),
)


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One broker, read once for a page. Both are None before the mirror's first round."""

    now_ms: int
    broker: Broker | None
    state: MirrorState | None

    @property
    def name(self) -> str:
        """The broker's name, empty before the first round."""
        return self.broker.name if self.broker else ""

    @property
    def names(self) -> list[str]:
        """The name alone, for those who read the rows of one broker or of several."""
        return [self.name]

    @property
    def has_several(self) -> bool:
        """Tell that it is one, for those who read the rows of one broker or of several."""
        return False

    @property
    def as_of_ms(self) -> int | None:
        """The moment of the rows, in epoch ms."""
        return self.state.as_of_ms if self.state else None

    @property
    def polling(self) -> bool:
        """Tell whether the broker is asked by standard requests only."""
        return bool(self.state and self.state.polling)

    def evidence(self, *, polled_by: tuple[int, ...], exact: bool = True) -> Evidence:
        """Return the evidence of the rows' numbers; `polled_by`: the standard requests that give them on an Apache
        broker."""
        requests = polled_by if self.polling else (CHANGES_REQUEST,)
        detail = self.state.error if self.state else ""
        return Evidence(self.name or "mirror", self.as_of_ms, exact, self._reason(), requests, detail)

    def history(self, row: RateHistory | None) -> History:
        """Return the rates of the last SLOTS whole slots; without a row they are 0 as far as the mirror has watched."""
        return self._history((row.slot, row.counts) if row else None)

    def _history(self, row: tuple[int, Sequence[int | None]] | None) -> History:
        """Make a history from a row's last slot number and counts."""
        if self.state is None or self.state.as_of_ms is None or self.state.following_since_ms is None:
            return History()
        until = self.state.as_of_ms // SLOT_MS
        since = self.state.following_since_ms // SLOT_MS
        slot, counts = row or (until - SLOTS - 1, [])
        line = aligned(slot, counts, until=until, since=since)[-SLOTS:]
        per_s = [None if count is None else count * 1000 / SLOT_MS for count in line]
        return History((*(None,) * (SLOTS - len(line)), *per_s), until * SLOT_MS)

    def histories(self, kind: str, names: Iterable[str]) -> Mapping[str, History]:
        """Return the histories of one kind by name."""
        asked = list(names)
        # of a polled broker's topics only those of dead letters are counted
        is_told = not self.polling or kind not in ("topic", "group")
        wanted = [name for name in asked if is_told or (kind == "topic" and name.startswith(DLQ_PREFIX))]
        unknown = dict.fromkeys(asked, History())
        if not wanted:
            return unknown
        found = RateHistory.objects.filter(broker=self.name, kind=kind, name__in=wanted)
        rows = {name: (slot, counts) for name, slot, counts in found.values_list("name", "slot", "counts").order_by()}
        silent = self._history(None)
        return unknown | {name: self._history(rows[name]) if name in rows else silent for name in wanted}

    def rates(self, kind: str) -> Mapping[str, float | None]:
        """Return the latest rate of each thing of a kind that has a history: as `History.latest`, without the rest."""
        if self.polling and kind in ("topic", "group"):
            return {}
        rows = RateHistory.objects.filter(broker=self.name, kind=kind).annotate(newest=_NEWEST)
        found = rows.values_list("name", "slot", "newest").order_by()
        return {name: self._history((slot, newest)).latest for name, slot, newest in found}

    def _reason(self) -> StaleReason | None:
        if self.state is None or self.state.as_of_ms is None:
            return StaleReason.MIRROR_EMPTY
        if self.state.error:
            return StaleReason.BROKER_UNREACHABLE
        limit = POLLING_STALE_MS if self.state.polling else FOLLOWING_STALE_MS
        # how far a process is behind is real time, whatever the broker's clock does
        line = simulated()
        behind_ms = (self.now_ms - self.state.as_of_ms) / (line.speed if line is not None else 1)
        return StaleReason.MIRROR_BEHIND if behind_ms > limit else None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers that a page is about, by name: all of a cluster, or one; empty before the mirror's first round."""

    now_ms: int
    brokers: tuple[Mirrored, ...]

    @property
    def names(self) -> list[str]:
        """The names of the brokers, as rows have them."""
        return [each.name for each in self.brokers]

    @property
    def source(self) -> str:
        """What says whose figures these are: the broker, or how many."""
        if len(self.brokers) == 1:
            return self.brokers[0].name
        return ngettext("%(count)s broker", "%(count)s brokers", len(self.brokers)) % {"count": len(self.brokers)}

    @property
    def has_several(self) -> bool:
        """Tell whether there is more than one broker, so that a row has to say whose it is."""
        return len(self.brokers) > 1

    @property
    def polling(self) -> bool:
        """Tell whether any broker is asked by standard requests only."""
        return any(each.polling for each in self.brokers)

    def evidence(self, *, polled_by: tuple[int, ...], exact: bool = True) -> Evidence:
        """Return the evidence of the rows' numbers, in total."""
        if not self.brokers:
            return Evidence("mirror", None, exact, StaleReason.MIRROR_EMPTY)
        return joined(self.source, [each.evidence(polled_by=polled_by, exact=exact) for each in self.brokers])

    def histories(self, kind: str, names: Iterable[str]) -> Mapping[str, History]:
        """Return the histories of one kind by name, in total."""
        wanted = list(names)
        if len(self.brokers) == 1:
            return self.brokers[0].histories(kind, wanted)
        each = [broker.histories(kind, wanted) for broker in self.brokers]
        return {name: added([found[name] for found in each]) for name in wanted}

    def rates(self, kind: str) -> Mapping[str, float]:
        """Return the latest rate of each thing of a kind that has one, in total."""
        sums: dict[str, float] = {}
        for broker in self.brokers:
            for name, rate in broker.rates(kind).items():
                sums[name] = sums.get(name, 0.0) + (rate or 0.0)
        return sums


#: whose rows are read
Here = Mirrored | Cluster


def added(histories: Sequence[History]) -> History:
    """Return the sum of several brokers' histories; a slot counts where any of them knows it.

    Their newest slots may end at different moments, one slot apart: they are added by their end.
    """
    known = [each for each in histories if each.end_ms is not None]
    if not known:
        return History()
    end_ms = max(each.end_ms or 0 for each in known)
    sums: list[float | None] = [None] * SLOTS
    for each in known:
        late = (end_ms - (each.end_ms or 0)) // SLOT_MS
        for slot, value in enumerate(each.per_s[late:] if late < SLOTS else ()):
            if value is not None:
                sums[slot] = (sums[slot] or 0) + value
    return History(tuple(sums), end_ms)


def _states(choice: Choice) -> list[MirrorState]:
    """Return the brokers of a choice, by name; raises Http404 where it names one that is not there."""
    rows = MirrorState.objects.select_related("broker").order_by("broker")
    found = list(rows.filter(broker__entry=choice.entry, **({"broker": choice.name} if choice.broker else {})))
    if not found and choice.broker:
        raise Http404(_("There is no such broker."))
    return found


def mirrored() -> Mirrored:
    """Return the broker that is chosen, or the first of its cluster, by one query."""
    return next(iter(cluster().brokers), None) or Mirrored(now_ms(), None, None)


def cluster() -> Cluster:
    """Return all brokers that are chosen, by one query."""
    at_ms = now_ms()
    return Cluster(at_ms, tuple(Mirrored(at_ms, state.broker, state) for state in _states(chosen())))


def alone(here: Mirrored) -> Cluster:
    """Return this broker as all that a page is about."""
    return Cluster(here.now_ms, (here,) if here.broker else ())


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Sums over a group's queues; lag None: some queue's end is unknown."""

    group: str
    #: topics and queues with a committed offset, retry and dead-letter topics not counted in topics
    topics: int
    queues: int
    #: all topics but the dead letters
    lag: int | None
    #: of that, in %RETRY%group and in the retry topics of who pops; None without such a topic
    retry: int | None


#: What stands in a group's own retry topic is for that group alone: it is behind there before it ever read it.
#: Names and numbers of queues are the same on other brokers: all is joined by broker.
_SUMS = """
    WITH progress AS (
    SELECT broker_id, "group", topic, queue_id, "offset"
      FROM broker_consumeroffset
     WHERE broker_id = ANY(%(brokers)s)
     UNION ALL
    SELECT g.broker_id, g.name, q.topic, q.queue_id, coalesce(q.min_offset, 0)
      FROM broker_consumergroup g
      JOIN broker_queue q ON q.broker_id = g.broker_id AND q.topic = %(retry)s || g.name
     WHERE g.broker_id = ANY(%(brokers)s)
       AND q.max_offset > coalesce(q.min_offset, 0)
       AND NOT EXISTS (SELECT 1 FROM broker_consumeroffset o
                        WHERE o.broker_id = g.broker_id AND o."group" = g.name
                          AND o.topic = q.topic AND o.queue_id = q.queue_id)
    ), by_topic AS (
    SELECT o.broker_id, o."group", o.topic COLLATE "C" AS topic, count(*) AS queues,
           starts_with(o.topic, %(retry)s) AS is_retry, starts_with(o.topic, %(dead)s) AS is_dead,
           bool_and(q.max_offset IS NOT NULL) AS is_known, sum(greatest(q.max_offset - o."offset", 0)) AS lag
      FROM progress o
      LEFT JOIN broker_queue q ON q.broker_id = o.broker_id AND q.topic = o.topic AND q.queue_id = o.queue_id
     WHERE (%(topics)s::text[] IS NULL OR o.topic = ANY(%(topics)s))
       AND (%(group)s::text IS NULL OR o."group" = %(group)s)
     GROUP BY o.broker_id, o."group", o.topic
    )
    SELECT "group",
           count(DISTINCT topic) FILTER (WHERE NOT is_retry AND NOT is_dead),
           sum(queues),
           CASE WHEN bool_and(is_known OR is_dead) THEN coalesce(sum(lag) FILTER (WHERE NOT is_dead), 0) END,
           sum(lag) FILTER (WHERE is_retry),
           {broker}
      FROM by_topic
     GROUP BY {sets}
     ORDER BY "group"
"""
_IN_TOTAL = _SUMS.format(broker="NULL", sets='"group"')
_OF_EACH = _SUMS.format(
    broker="CASE WHEN grouping(broker_id) = 0 THEN broker_id END",
    sets='GROUPING SETS (("group"), ("group", broker_id))',
)


def lags_by_group(
    brokers: Sequence[str], *, topic: str | None = None, group: str | None = None, among: Sequence[str] | None = None
) -> list[GroupLag]:
    """Return a line for each group, over all topics, one, or these, in total over the brokers of these names."""
    topics = among if topic is None else [topic]
    return [lag for _broker, lag in _lags(_IN_TOTAL, brokers, topics, group)]


def lags_of_each(
    brokers: Sequence[str], *, group: str | None = None, among: Sequence[str] | None = None
) -> tuple[list[GroupLag], list[tuple[str, GroupLag]]]:
    """Return a line for each group in total, and one for each group at each broker with the broker's name."""
    found = _lags(_OF_EACH, brokers, among, group)
    total = [lag for broker, lag in found if broker is None]
    return total, [(broker, lag) for broker, lag in found if broker is not None]


def _lags(
    query: str, brokers: Sequence[str], among: Sequence[str] | None, group: str | None
) -> list[tuple[str | None, GroupLag]]:
    topics = None if among is None else list(among)
    wanted = {"brokers": list(brokers), "topics": topics, "group": group, "retry": RETRY_PREFIX, "dead": DLQ_PREFIX}
    with connection.cursor() as cursor:
        cursor.execute(query, wanted)
        found = cursor.fetchall()
    return [
        (broker, GroupLag(name, topics, int(queues), _whole(lag), _whole(retry)))
        for name, topics, queues, lag, retry, broker in found
    ]


def _whole(number: Decimal | None) -> int | None:
    return None if number is None else int(number)
