"""What falls due in the next minute, hour and day as three rings of slots: lanes and timers, of all brokers chosen.

The first page draws it. Lanes are counted from the mirror's rows, timers are asked of their brokers, who answer by
slots; both are figures of whole brokers, which name nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.client import Admin
from broker.mirror.models import ScheduleLevel
from broker.rocketmq.codes import Request
from console.features.due.read import added_up, from_now
from console.features.due.shapes import DAY_MS, HOUR_MS, MINUTE_MS, DueKind, Unknown
from console.features.schedule.read import due_by_broker
from console.features.timers.due import as_steps
from console.features.timers.read import rings_of
from console.site.broker import ask, read_each
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Cluster, Mirrored

_REQUESTS = (Request.GET_TIMER_STATUS, Request.GET_TIMER_FORECAST)
#: span and width of a slot of each ring, the seconds outside; they are those of `rings_of`
RINGS = ((MINUTE_MS, 1_000), (HOUR_MS, MINUTE_MS), (DAY_MS, HOUR_MS))


@dataclass(frozen=True, slots=True)
class DueRing:
    """A stretch from now on, in slots. None: of that kind nothing is known."""

    start_ms: int
    slot_ms: int
    lanes: tuple[int, ...] | None
    timers: tuple[int, ...] | None

    @property
    def kinds(self) -> tuple[tuple[DueKind, tuple[int, ...]], ...]:
        """The kinds that are known, with their counts, from the hub outwards."""
        both = ((DueKind.LANES, self.lanes), (DueKind.TIMERS, self.timers))
        return tuple((kind, counts) for kind, counts in both if counts is not None)

    @property
    def totals(self) -> tuple[int, ...]:
        """The counts of the slots, all kinds together."""
        return added_up([counts for _kind, counts in self.kinds]) or ()

    @property
    def end_ms(self) -> int:
        """The end of the last slot."""
        return self.start_ms + self.slot_ms * len(self.totals)


@dataclass(frozen=True, slots=True)
class DueWheel:
    """The three rings, the first that falls due, and who is in no sum."""

    rings: tuple[DueRing, ...]
    next_due_ms: int | None
    next_kind: DueKind | None
    #: brokers of which one of both kinds is not known, and why
    unknown: tuple[Unknown, ...] = ()

    @property
    def is_known(self) -> bool:
        """Tell whether anything is known at all."""
        return bool(self.drawn)

    @property
    def drawn(self) -> tuple[DueKind, ...]:
        """The kinds of which something is known."""
        return tuple(kind for kind, _counts in self.rings[0].kinds)


@dataclass(frozen=True, slots=True)
class _Timers:
    rings: tuple[tuple[int, ...], ...]
    next_due_ms: int | None


def wheel_of(of: Cluster, levels: Sequence[ScheduleLevel], lanes_next_due_ms: int | None) -> DueWheel:
    """Return the wheel of these brokers; `levels` and what is next on them is the caller's to know."""
    starts = [of.now_ms - of.now_ms % width for width in (1_000, MINUTE_MS, MINUTE_MS)]
    ends = [range(start + width, start + span + 1, width) for start, (span, width) in zip(starts, RINGS, strict=True)]
    lanes, without_lanes = _lanes(of, levels, ends)
    told = _timers_of(of)
    known = [each for _here, each, _evidence in told if each is not None]
    timers = [added_up(ring) for ring in zip(*(each.rings for each in known), strict=True)] if known else [None] * 3
    rings = tuple(
        DueRing(start, width, on_lanes, of_timers)
        for start, (_span, width), on_lanes, of_timers in zip(starts, RINGS, lanes, timers, strict=True)
    )
    unknown = [
        Unknown(here.name or evidence.source, evidence.stale_reason or StaleReason.BROKER_REFUSED)
        for here, each, evidence in told
        if each is None
    ]
    first, kind = _next(lanes_next_due_ms, [each.next_due_ms for each in known])
    return DueWheel(rings, first, kind, (*without_lanes, *(each for each in unknown if each not in without_lanes)))


def _lanes(
    of: Cluster, levels: Sequence[ScheduleLevel], ends: Sequence[range]
) -> tuple[list[tuple[int, ...] | None], list[Unknown]]:
    """Return the counts of each ring, and the brokers whose lanes are not known."""
    moments = sorted({of.now_ms, *(ms for ring in ends for ms in ring)})
    found = due_by_broker(of, levels, moments)
    unknown = [
        Unknown(here.name, here.evidence(polled_by=()).stale_reason or StaleReason.NOT_THERE)
        for here in of.brokers
        if found.get(here.name) is None
    ]
    known = [dict(zip(moments, from_now(rising), strict=True)) for rising in found.values() if rising is not None]
    counts = [
        added_up([as_steps([by_moment[of.now_ms], *(by_moment[ms] for ms in ring)]) for by_moment in known])
        for ring in ends
    ]
    return counts, unknown


def _timers_of(of: Cluster) -> list[tuple[Mirrored, _Timers | None, Evidence]]:
    def asked(here: Mirrored) -> tuple[Mirrored, _Timers | None, Evidence]:
        found, evidence = ask(lambda admin: _timers(admin, of.now_ms), source=here.name, requests=_REQUESTS)
        return here, found, evidence

    return read_each(asked, of)


def _timers(admin: Admin, now_ms: int) -> _Timers:
    status = admin.timer_status()
    rings = rings_of(admin, now_ms)
    counts = tuple(tuple(slot.count for slot in ring.slots) for ring in rings)
    return _Timers(counts, None if status.paused or not status.pending else status.next_due_ms)


def _next(on_lanes_ms: int | None, of_timers_ms: Sequence[int | None]) -> tuple[int | None, DueKind | None]:
    both = [(ms, DueKind.TIMERS) for ms in of_timers_ms if ms] + ([(on_lanes_ms, DueKind.LANES)] if on_lanes_ms else [])
    return min(both, key=lambda pair: pair[0], default=(None, None))
