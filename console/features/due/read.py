"""Read what falls due from all who know: the mirror's rows, the brokers, and Redis; each once for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from console.features.due.shapes import (
    DEFAULT,
    WINDOWS,
    Band,
    BrokerLoad,
    DueKind,
    DuePage,
    Measured,
    Unknown,
    Window,
    load_of,
    verdict_of,
)
from console.features.redisson.due import due_of_queues
from console.features.schedule.read import due_by_broker, level_rows
from console.features.timers.due import Stretch, TimersDue, as_steps, timers_due
from console.features.transactions.due import checks_due
from console.kept_figures import FigureSubject
from console.over_time import fastest
from console.security.topic_scope import TopicScope, authorised
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import SLOT_MS, Cluster, Mirrored, cluster


@authorised
def read_due(scope: TopicScope, name: str = "") -> DuePage:
    """Return what falls due within a window (shapes.WINDOWS), of the brokers that are chosen.

    Lanes and timers are counts of the whole broker, which name nothing; queues and transactions are those that are
    seen.
    """
    return due_of(cluster(), name, is_topic=scope.topic, is_queue=scope.queue, is_limited=not scope.see_all)


def due_of(
    of: Cluster,
    name: str,
    *,
    is_topic: Callable[[str], bool],
    is_queue: Callable[[str], bool],
    is_limited: bool = False,
) -> DuePage:
    """Return what falls due, for callers that decide themselves which topics and queues are seen."""
    window = WINDOWS.get(name, WINDOWS[DEFAULT])
    start_ms = of.now_ms - of.now_ms % window.slot_ms
    stretch = Stretch(start_ms, start_ms + window.span_ms, window.step_ms)
    lanes = {
        name: _lanes_due(rising)
        for name, rising in due_by_broker(of, level_rows(of), [of.now_ms, *_ends(stretch)]).items()
    }
    timers = timers_due(of, stretch)
    bands = (
        _lanes_band(of, lanes, window),
        *_timer_bands(timers, window),
        _queues_band(is_queue, of.now_ms, stretch, window),
        _checks_band(is_topic, of, start_ms, window),
    )
    seen = seen_of(of)
    loads = tuple(
        _measured(_load(here, lanes.get(here.name), told, seen.get(here.name), stretch), here, told, evidence)
        for here, told, evidence in timers
    )
    return DuePage(of.now_ms, of.source if of.brokers else "", window, start_ms, bands, loads, verdict_of(loads),
                   of.has_several, is_limited)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _LanesDue:
    """The lanes of one broker: what comes due with each step, and what was due before."""

    counts: tuple[int, ...]
    overdue: int


def _lanes_due(rising: Sequence[int] | None) -> _LanesDue | None:
    return None if rising is None else _LanesDue(as_steps(from_now(rising)), rising[0])


def _ends(stretch: Stretch) -> range:
    return range(stretch.start_ms + stretch.step_ms, stretch.end_ms + 1, stretch.step_ms)


def _wide(steps: Sequence[int], window: Window) -> tuple[int, ...]:
    """Return the counts of the slots, from those of the steps."""
    wide = window.slot_ms // window.step_ms
    return tuple(sum(steps[at : at + wide]) for at in range(0, len(steps), wide))


def added_up(several: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Return the sums of counts that stand at the same place; None: there are none to add."""
    return tuple(sum(column) for column in zip(*several, strict=True)) if several else None


def _lanes_band(of: Cluster, lanes: Mapping[str, _LanesDue | None], window: Window) -> Band:
    known = [each for each in lanes.values() if each is not None]
    unknown = []
    for here in of.brokers:
        why = here.evidence(polled_by=()).stale_reason
        if lanes.get(here.name) is None or why is not None:
            unknown.append(Unknown(here.name, why or StaleReason.NOT_THERE))
    counts = added_up([_wide(each.counts, window) for each in known])
    overdue = sum(each.overdue for each in known) if known else None
    if not of.brokers:
        unknown.append(Unknown("", StaleReason.MIRROR_EMPTY))
    return Band(DueKind.LANES, counts, overdue, tuple(unknown))


def from_now(rising: Sequence[int]) -> list[int]:
    """Return what is due by the ends of the steps; steps that are over when it is counted hold nothing any more."""
    return list(accumulate(rising, max))


def _timer_bands(timers: Sequence[tuple[Mirrored, TimersDue | None, Evidence]], window: Window) -> tuple[Band, Band]:
    told = [each for _here, each, _evidence in timers if each is not None]
    unknown = tuple(
        Unknown(here.name or evidence.source, evidence.stale_reason or StaleReason.BROKER_REFUSED)
        for here, each, evidence in timers
        if each is None
    )
    tries = added_up([_wide(each.tries, window) for each in told])
    every = added_up([_wide(each.counts, window) for each in told])
    rest = every and tuple(max(0, count - of_groups) for count, of_groups in zip(every, tries or (), strict=True))
    return (
        Band(DueKind.TIMERS, rest, sum(each.overdue for each in told) if told else None, unknown),
        Band(DueKind.RETRIES, tries, None, unknown, is_whole=all(each.is_whole for each in told)),
    )


def _queues_band(is_seen: Callable[[str], bool], now_ms: int, stretch: Stretch, window: Window) -> Band:
    slots = Stretch(stretch.start_ms, stretch.end_ms, window.slot_ms)
    found = due_of_queues([now_ms, *_ends(slots)], is_seen)
    if found.counts is None:
        why = found.evidence.stale_reason or StaleReason.REDIS_REFUSED
        return Band(DueKind.REDISSON, None, unknown=(Unknown(found.evidence.source, why),))
    counts = as_steps(from_now(found.counts))
    return Band(DueKind.REDISSON, counts, found.counts[0], is_whole=not found.left, left=found.left + found.unread)


def _checks_band(is_seen: Callable[[str], bool], of: Cluster, start_ms: int, window: Window) -> Band:
    found = checks_due(of.brokers, is_seen)
    known = [each for each in found if each.moments_ms is not None]
    unknown = tuple(Unknown(each.broker, each.why) for each in found if each.why is not None)
    if not known:
        return Band(DueKind.CHECKS, None, unknown=unknown or (Unknown("", StaleReason.MIRROR_EMPTY),))
    moments = [ms for each in known for ms in each.moments_ms or ()]
    ahead = Counter(ms for ms in moments if ms > of.now_ms)
    counts = Stretch(start_ms, start_ms + window.span_ms, window.slot_ms).counted(ahead)
    overdue = len(moments) - ahead.total()
    return Band(DueKind.CHECKS, counts, overdue, unknown, is_whole=all(each.is_whole for each in known))


def _load(
    here: Mirrored, lanes: _LanesDue | None, timers: TimersDue | None, seen: tuple[float, int] | None,
    stretch: Stretch,
) -> BrokerLoad:  # fmt: skip
    arrivals: Sequence[int] = [0] * stretch.length
    overdue = 0
    if lanes is not None:
        arrivals, overdue = lanes.counts, lanes.overdue
    if timers is not None and not timers.is_paused:
        arrivals = [one + other for one, other in zip(arrivals, timers.counts, strict=True)]
        overdue += timers.overdue
    return load_of(
        here.name, arrivals, overdue, start_ms=stretch.start_ms, step_ms=stretch.step_ms,
        capacity_per_s=timers.capacity_per_s if timers else None,
        seen=seen,
        late=[(each.due_ms, each.late_ms) for each in timers.late] if timers and not timers.is_paused else (),
        is_known=lanes is not None and timers is not None,
        is_paused=bool(timers and timers.is_paused),
    )  # fmt: skip


def _measured(load: BrokerLoad, here: Mirrored, timers: TimersDue | None, evidence: Evidence) -> BrokerLoad:
    """Return the load with how its capacity was found."""
    if timers is None:
        never = here.polling or evidence.stale_reason is StaleReason.NOT_SUPPORTED
        return replace(load, is_measurable=not never)
    how = Measured(timers.capacity_how) if timers.capacity_how in Measured.values else None
    return replace(load, capacity_at_ms=timers.capacity_at_ms, capacity_how=how)


def seen_of(of: Cluster) -> dict[str, tuple[float, int]]:
    """Return by broker the most messages a second that were seen to go out, and when: in five seconds of the last five
    minutes of its lanes, or in a minute of the last day of its lanes or its timers."""
    found = fastest(of, (FigureSubject.Kind.LANES, FigureSubject.Kind.TIMERS))
    for here in of.brokers:
        history = here.histories("flow", ["released"])["released"]
        if history.end_ms is None or not history.peak:
            continue
        at = max(range(len(history.per_s)), key=lambda slot: history.per_s[slot] or 0)
        lately = history.peak, history.end_ms - (len(history.per_s) - at) * SLOT_MS
        found[here.name] = max(lately, found.get(here.name, lately))
    return found
