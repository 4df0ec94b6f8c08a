"""A round of alerting: read what the rules watch, judge it, and say which alerts begin, are raised, and end.

Readings are taken as the first page takes them, one value for each subject. `look` says what a rule would see now,
before anybody relies on it. Who is told, and when, is decided in deliveries.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from broker.mirror.models import HalfMessage, Replica
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.groups.read import group_rows
from console.features.overview.findings import UNDECIDED, ServerFacts, server_facts
from console.features.redisson.read import QueueRow
from console.features.schedule.read import lane_of, levels
from console.features.timers.read import timer_figures
from console.site.broker import at, brokers_of
from console.site.chosen import Choice, choosing
from console.site.clock import now_ms
from console.site.mirrored import Mirrored, cluster

#: alerts that are over are kept so long
KEPT = timedelta(days=90)
#: subjects that one rule may raise; a rule for everything must not fill the table
SUBJECTS = 200

#: readings that are shown, the highest first
SHOWN = 8
_JUDGED = ("value", "highest", "state", "raised_at", "was_silenced")

What = AlertRule.What

#: counts of messages: those at several brokers are added
_ADDED = frozenset({What.BACKLOG, What.DEAD_LETTERS})
_OF_MIRROR = frozenset({What.BACKLOG, What.STILL, What.DEAD_LETTERS, What.LANE_LATE, What.HALF_AGE, What.SLAVE_BEHIND})


@dataclass(frozen=True, slots=True)
class Reading:
    """The `value` of a `subject`, in the unit of `what`."""

    what: str
    subject: str
    value: float


@dataclass(frozen=True, slots=True)
class Round:
    """The readings of one moment. `told`: the kinds that could be read; of others nothing is known, so nothing ends."""

    at_ms: int
    readings: tuple[Reading, ...]
    told: frozenset[str]


@dataclass(frozen=True, slots=True)
class News:
    """An alert that was raised or is over, of which people are told."""

    alert: Alert
    is_over: bool


@dataclass(frozen=True, slots=True)
class Look:
    """`rows`: the highest of `count` readings of what is watched, `above` of which are above the limit. `is_told`
    False: it cannot be read now, so that nothing is raised, and nothing ends."""

    is_told: bool
    count: int
    above: int
    rows: tuple[Reading, ...]
    #: one of those above is silenced for every rule
    is_silenced: bool

    @property
    def pairs(self) -> tuple[tuple[str, float], ...]:
        """The subjects with their values, as a preview has them."""
        return tuple((each.subject, each.value) for each in self.rows)


def watch(found: Round) -> list[News]:
    """Judge all rules, and return what is new. Two calls at the same time wait for each other."""
    at = datetime.fromtimestamp(found.at_ms / 1000, UTC)
    news: list[News] = []
    with transaction.atomic():
        for rule in AlertRule.objects.select_for_update().filter(is_on=True):
            if rule.what in found.told:
                news += _judge(rule, _above(rule, found.readings), at)
        _end_of_rules_switched_off(at)
        Alert.objects.filter(state=Alert.State.ENDED, ended_at__lt=at - KEPT).delete()
    return [each for each in news if not each.alert.was_silenced]


def _above(rule: AlertRule, readings: Iterable[Reading]) -> dict[str, float]:
    hits = {
        each.subject[:255]: each.value
        for each in readings
        if each.what == rule.what and each.value > rule.limit and fnmatchcase(each.subject, rule.subject)
    }
    worst = sorted(hits, key=lambda subject: -hits[subject])[:SUBJECTS]
    return {subject: hits[subject] for subject in worst}


def _judge(rule: AlertRule, above: dict[str, float], at: datetime) -> list[News]:
    news: list[News] = []
    is_open = {row.subject: row for row in rule.alerts.exclude(state=Alert.State.ENDED)}
    for subject, value in above.items():
        row = is_open.pop(subject, None) or Alert(rule=rule, subject=subject, since=at, value=value, highest=value)
        row.value, row.highest = value, max(value, row.highest)
        if row.state == Alert.State.PENDING and at - row.since >= timedelta(seconds=rule.for_s):
            row.state, row.raised_at, row.was_silenced = Alert.State.FIRING, at, is_silenced(rule, subject, at)
            news.append(News(row, is_over=False))
        row.save(update_fields=_JUDGED if row.pk else None)
    for row in is_open.values():
        if row.state == Alert.State.PENDING:
            row.delete()
            continue
        row.state, row.ended_at = Alert.State.ENDED, at
        row.save(update_fields=["state", "ended_at"])
        news.append(News(row, is_over=True))
    return news


def _end_of_rules_switched_off(at: datetime) -> None:
    Alert.objects.filter(rule__is_on=False, state=Alert.State.PENDING).delete()
    Alert.objects.filter(rule__is_on=False, state=Alert.State.FIRING).update(state=Alert.State.ENDED, ended_at=at)


def is_silenced(rule: AlertRule, subject: str, at: datetime) -> bool:
    """Tell whether a silence holds for this subject of the rule."""
    silences = Silence.objects.filter(Q(rule=rule) | Q(rule=None), until__gt=at)
    return any(fnmatchcase(subject, silence.subject) for silence in silences)


def read(wanted: Collection[str] = tuple(What)) -> Round:
    """Take readings of everything, or of what is wanted, at the brokers of all clusters.

    What stands at several brokers, a group or a lane, is one subject: its messages are added, and of what is a time the
    worst one counts. Of a further cluster its name stands before the subject's.
    """
    at_ms, found, told = now_ms(), dict[tuple[str, str], float](), {str(What.BROKER_DOWN)}
    for entry in ("", *settings.ESCAPEMENT_CLUSTERS):
        with choosing(Choice(entry)):
            for here in brokers_of(cluster()):
                with at(here.name):
                    readings, known = _of_one(here, wanted)
                told |= known
                for each in readings:
                    key = each.what, each.subject if not entry or "/" in each.subject else f"{entry}/{each.subject}"
                    before = found.get(key, 0.0)
                    found[key] = before + each.value if each.what in _ADDED else max(before, each.value)
    return Round(at_ms, tuple(Reading(*key, value) for key, value in found.items()), frozenset(told))


def _of_one(here: Mirrored, wanted: Collection[str]) -> tuple[list[Reading], set[str]]:
    """Return the readings of one broker, and of which kinds they are all that there is."""
    found, told = list(_of_broker(here)), set[str]()
    known = server_facts(here) if What.STUCK_QUEUE in wanted or What.LATENESS in wanted else ServerFacts()
    if known.queues is not None:
        found += _of_queues(known.queues)
        told.add(What.STUCK_QUEUE)
    is_stale = here.evidence(polled_by=()).stale
    if {What.BACKLOG, What.STILL, What.DEAD_LETTERS} & set(wanted):
        # what waits at a broker that is away waits there still
        found += (each for each in _of_groups(here) if not is_stale or each.what == What.BACKLOG)
    if is_stale:
        return found, told
    if What.LANE_LATE in wanted:
        found += _of_lanes(here)
    if What.HALF_AGE in wanted:
        found += _of_halves(here)
    if What.SLAVE_BEHIND in wanted:
        found += _of_slaves(here)
    if here.broker is not None and here.broker.disk_used_ratio is not None:
        found.append(Reading(What.DISK_USED, here.name, here.broker.disk_used_ratio * 100))
        told.add(What.DISK_USED)
    # how fast the groups of a polled broker are nobody counts
    told |= (_OF_MIRROR - {What.STILL} if here.polling else _OF_MIRROR) & set(wanted)
    if known.timers is not None:
        told.add(What.LATENESS)
        late_ms = timer_figures(known.timers).lateness_p99_ms
        if late_ms is not None:
            found.append(Reading(What.LATENESS, here.name, late_ms))
    return found, told


def _of_broker(here: Mirrored) -> Iterator[Reading]:
    seen_ms = here.as_of_ms
    if here.state is not None and here.state.slave_number is not None:
        # a slave is read, and takes no message
        master = Replica.objects.filter(broker=here.name, number=0).values_list("as_of_ms", flat=True)
        seen_ms = master.first() or seen_ms
    if seen_ms is not None:
        yield Reading(What.BROKER_DOWN, here.name, max(0, here.now_ms - seen_ms) / 1000)


def _of_groups(here: Mirrored) -> Iterator[Reading]:
    for row in group_rows(here):
        if row.lag is not None:
            yield Reading(What.BACKLOG, row.name, row.lag)
        if row.quiet_ms is not None:
            yield Reading(What.STILL, row.name, row.quiet_ms / 1000)
        yield Reading(What.DEAD_LETTERS, row.name, row.newly_dead)


def _of_lanes(here: Mirrored) -> Iterator[Reading]:
    rows = levels(here)
    histories = here.histories("level", [str(row.level) for row in rows])
    for row in rows:
        lane = lane_of(row, here, histories[str(row.level)])
        late_ms = (here.as_of_ms or here.now_ms) - lane.next_due_ms if lane.next_due_ms is not None else 0
        yield Reading(What.LANE_LATE, str(lane.level), max(0, late_ms))


def _of_halves(here: Mirrored) -> Iterator[Reading]:
    halves = HalfMessage.objects.filter(broker=here.name, state__in=UNDECIDED, store_ms__isnull=False)
    first = halves.order_by("store_ms").values_list("store_ms", flat=True).first()
    if first is not None:
        yield Reading(What.HALF_AGE, here.name, max(0, here.now_ms - first) / 1000)


def _of_slaves(here: Mirrored) -> Iterator[Reading]:
    end = None if here.broker is None else here.broker.log_end_position
    rows = Replica.objects.filter(broker=here.name, number__gt=0, log_end_position__isnull=False)
    for number, has in rows.values_list("number", "log_end_position"):
        if end is not None and has is not None:
            yield Reading(What.SLAVE_BEHIND, f"{here.name} {number}", max(0, end - has))


def _of_queues(queues: Iterable[QueueRow]) -> Iterator[Reading]:
    for row in queues:
        if row.survey is not None and row.is_stuck:
            yield Reading(What.STUCK_QUEUE, row.name, row.survey.stuck_ms / 1000)


def look(what: str, subject: str, limit: float) -> Look:
    """Return what a rule with these settings would see now."""
    found = read((what,))
    hits = [each for each in found.readings if each.what == what and fnmatchcase(each.subject, subject)]
    hits.sort(key=lambda each: (-each.value, each.subject))
    above = [each for each in hits if each.value > limit]
    quiet = Silence.objects.filter(rule=None, until__gt=timezone.now()).values_list("subject", flat=True)
    is_silenced = any(fnmatchcase(each.subject, pattern) for pattern in quiet for each in above)
    return Look(what in found.told, len(hits), len(above), tuple(hits[:SHOWN]), is_silenced)
