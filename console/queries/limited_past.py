"""The same as limited.py, of moments that are past: names that are not seen now, or read then what is not seen, are
not shown. Figures of the whole broker are everybody's."""

from __future__ import annotations

from dataclasses import replace

from console.access.topics import eyes
from console.queries import comparing, past
from console.queries.limited_waiting import without_names
from console.queries.shapes.lanes import Lanes
from console.queries.shapes.past import Comparison, Moment, PastGroups, Sums
from console.queries.shapes.timers import TimersPage
from console.snapshots import reading


def lanes_at(asked_ms: int) -> tuple[Moment, Lanes | None]:
    """All lanes: counts and moments, no names."""
    return past.lanes_at(asked_ms)


def timers_at(asked_ms: int, zoom: str = "") -> tuple[Moment, TimersPage | None]:
    """The Timers page."""
    moment, found = past.timers_at(asked_ms, zoom)
    seen = eyes()
    return moment, found if found is None or seen.see_all else without_names(found, seen)


def groups_at(asked_ms: int, search: str = "", offset: int = 0) -> tuple[Moment, PastGroups | None]:
    """Consumer groups."""
    return past.groups_at(asked_ms, search=search, offset=offset, eyes=eyes())


def kept_sums() -> tuple[Sums, ...]:
    """Over all that is kept; the lag is that of all groups, for those who see all."""
    found, seen = reading.sums(), eyes()
    return tuple(found if seen.see_all else (replace(row, lag=None) for row in found))


def compared(before_ms: int | None, after_ms: int | None) -> Comparison:
    """Two moments side by side."""
    return comparing.compared(before_ms, after_ms, eyes())
