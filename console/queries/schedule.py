"""Reads the lanes."""

from __future__ import annotations

from console.queries.clock import now_ms
from console.queries.shapes.evidence import Evidence, StaleReason
from console.queries.shapes.lane import PAGE_COUNT, LanePage
from console.queries.shapes.lanes import LaneFigures, Lanes

NOTHING = Evidence(source="mirror", as_of_ms=None, exact=True, stale_reason=StaleReason.MIRROR_EMPTY)


def lanes() -> Lanes:
    """All lanes of the broker, from the mirror."""
    figures = LaneFigures(
        pending=None,
        released_per_s=None,
        next_due_ms=None,
        next_due_level=None,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_p99_level=None,
        early_total=None,
        started_ms=None,
        persisted_oldest_ms=None,
        persisted_oldest_level=None,
    )
    return Lanes(NOTHING, now_ms(), "", figures, (), None, NOTHING)


def lane(level: int, offset: int | None = None, count: int = PAGE_COUNT) -> LanePage:
    """A page of one lane; offset None begins at the first pending message."""
    return LanePage(NOTHING, now_ms(), "", None, offset or 0, count, (), None, None, None, None)
