"""The Timers page as snapshots keep it, and what is told from them of brokers that are away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from console.features.timers.shapes import Forecast, Stretch, TimersPage, TopicTimers
from console.last_known import Away, last_known


@dataclass(frozen=True, slots=True)
class Zoomed:
    """The forecast and strip for one zoom of the Timers page."""

    zoom: str
    forecast: Forecast | None = None
    #: on a broker that tells no forecast: counted from its newest records
    strip: Stretch | None = None


@dataclass(frozen=True, slots=True)
class TimersKept:
    """The Timers page without the list of what fires next, and all its zooms."""

    page: TimersPage
    zooms: tuple[Zoomed, ...]


def away_at(names: Sequence[str], is_seen: Callable[[str], bool] | None = None) -> tuple[Away, ...]:
    """Return the brokers of these names with the timers that waited there last; `is_seen`: of these topics alone."""
    known = last_known(names, "timers", TimersKept)
    return tuple(_away(name, known.get(name), is_seen) for name in names)


def _away(name: str, known: tuple[int, TimersKept] | None, is_seen: Callable[[str], bool] | None) -> Away:
    if known is None:
        return Away(name)
    at_ms, page = known[0], known[1].page
    if is_seen is None:
        return Away(name, at_ms, page.figures.pending)
    return Away(name, at_ms, sum(row.pending or 0 for row in page.topics if is_seen(row.topic)))


def with_last_known(pages: Sequence[TimersPage]) -> tuple[list[TimersPage], tuple[Away, ...]]:
    """Return the pages of several brokers, those of brokers that are away with what waited there when a snapshot saw
    them last; what was in the wheel then may be due by now, so it stays out."""
    names = [page.broker for page in pages if page.evidence.stale and page.figures.pending is None]
    known = last_known(names, "timers", TimersKept)
    found = [
        replace(
            page,
            figures=replace(page.figures, pending=known[page.broker][1].page.figures.pending),
            topics=tuple(TopicTimers(row.topic, row.pending) for row in known[page.broker][1].page.topics),
        )
        if page.broker in known
        else page
        for page in pages
    ]
    return found, tuple(_away(name, known.get(name), None) for name in names)
