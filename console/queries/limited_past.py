"""The same as limited.py, of moments that are past: names that are not seen now, or read then what is not seen, are
not shown. Figures of the whole broker are everybody's."""

from __future__ import annotations

from dataclasses import replace

from console.features.schedule.shapes import Lanes
from console.features.timers.shapes import TimersPage
from console.queries.limited_waiting import without_names
from console.security.topic_scope import eyes
from console.ui.snapshots import compare
from console.ui.snapshots import read as snapshots_read
from console.ui.snapshots import reader as snapshots_reader
from console.ui.snapshots.page_shapes import Comparison, Moment, PastGroups, Sums


def lanes_at(asked_ms: int) -> tuple[Moment, Lanes | None]:
    """All lanes: counts and moments, no names."""
    return snapshots_read.lanes_at(asked_ms)


def timers_at(asked_ms: int, zoom: str = "") -> tuple[Moment, TimersPage | None]:
    """The Timers page."""
    moment, found = snapshots_read.timers_at(asked_ms, zoom)
    seen = eyes()
    return moment, found if found is None or seen.see_all else without_names(found, seen)


def groups_at(asked_ms: int, search: str = "", offset: int = 0) -> tuple[Moment, PastGroups | None]:
    """Consumer groups."""
    return snapshots_read.groups_at(asked_ms, search=search, offset=offset, eyes=eyes())


def kept_sums() -> tuple[Sums, ...]:
    """Over all that is kept; the lag is that of all groups, for those who see all."""
    found, seen = snapshots_reader.sums(), eyes()
    return tuple(found if seen.see_all else (replace(row, lag=None) for row in found))


def compared(before_ms: int | None, after_ms: int | None) -> Comparison:
    """Two moments side by side."""
    return compare.compared(before_ms, after_ms, eyes())
