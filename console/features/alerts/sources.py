"""What the rules look at, read as the first page reads it: one value a subject."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from broker.mirror.models import HalfMessage
from console.features.alerts.models import AlertRule
from console.features.groups.read import group_rows
from console.features.overview.findings import UNDECIDED
from console.features.overview.overview_facts import Afar, afar
from console.features.redisson.shapes import QueueRow
from console.features.schedule.read import lane_of, levels
from console.features.timers.read import timer_figures
from console.site.mirrored import Mirrored, mirrored

What = AlertRule.What


@dataclass(frozen=True, slots=True)
class Reading:
    """`value` of `subject` in the unit of `what`."""

    what: str
    subject: str
    value: float


@dataclass(frozen=True, slots=True)
class Round:
    """All readings of one moment. `told`: what could be read; of the rest nothing is known, so nothing ends."""

    at_ms: int
    readings: tuple[Reading, ...]
    told: frozenset[str]


_OF_MIRROR = frozenset({What.BACKLOG, What.STILL, What.DEAD_LETTERS, What.LANE_LATE, What.HALF_AGE})


def read(wanted: Collection[str] = tuple(What)) -> Round:
    """Look once at everything, or at what is wanted."""
    here = mirrored()
    found, told = list(_of_broker(here)), {What.BROKER_DOWN}
    known = afar(here) if What.STUCK_QUEUE in wanted or What.LATENESS in wanted else Afar()
    if known.queues is not None:
        found += _of_queues(known.queues)
        told.add(What.STUCK_QUEUE)
    if not here.evidence(polled_by=()).stale:
        if {What.BACKLOG, What.STILL, What.DEAD_LETTERS} & set(wanted):
            found += _of_groups(here)
        if What.LANE_LATE in wanted:
            found += _of_lanes(here)
        if What.HALF_AGE in wanted:
            found += _of_halves(here)
        told |= _OF_MIRROR & set(wanted)
        if known.timers is not None:
            told.add(What.LATENESS)
            late_ms = timer_figures(known.timers).lateness_p99_ms
            if late_ms is not None:
                found.append(Reading(What.LATENESS, here.name, late_ms))
    return Round(here.now_ms, tuple(found), frozenset(told))


def _of_broker(here: Mirrored) -> Iterator[Reading]:
    if here.state is not None and here.state.as_of_ms is not None:
        yield Reading(What.BROKER_DOWN, here.name, max(0, here.now_ms - here.state.as_of_ms) / 1000)


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


def _of_queues(queues: Iterable[QueueRow]) -> Iterator[Reading]:
    for row in queues:
        if row.survey is not None and row.is_stuck:
            yield Reading(What.STUCK_QUEUE, row.name, row.survey.stuck_ms / 1000)
