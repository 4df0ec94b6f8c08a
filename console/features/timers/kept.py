"""The Timers page as a snapshot keeps it, and as it is shown at an earlier moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from broker.client import Admin
from console.features.timers import apache_records
from console.features.timers.read import forecast_of, timer_sums, timers, without_names
from console.features.timers.shapes import (
    DEFAULT,
    ZOOMS,
    Forecast,
    Stretch,
    TimerFilter,
    TimerList,
    TimersPage,
    Window,
    stretch_of_rows,
    window_of,
)
from console.past import Moment, evidence_of, part_at
from console.security.topic_scope import EVERYTHING, TopicScope, authorised
from console.site.broker import ask
from console.site.mirrored import Mirrored

#: zooms that are kept: below a second the timers themselves would have to be
KEPT_ZOOMS = tuple(name for name in ZOOMS if name != "1s")


@dataclass(frozen=True, slots=True)
class Zoomed:
    """What was due at one zoom of the Timers page."""

    zoom: str
    forecast: Forecast | None = None
    #: on a broker that tells no forecast: counted from its newest records
    strip: Stretch | None = None


@dataclass(frozen=True, slots=True)
class TimersKept:
    """The Timers page without the list of what fires next, and all its zooms."""

    page: TimersPage
    zooms: tuple[Zoomed, ...]


def kept_timers(here: Mirrored, zooms: tuple[str, ...], why: dict[str, str]) -> TimersKept | None:
    """Return the Timers page of now at these zooms, sums alone without any; None with the reason in `why`."""
    page = timers.within(EVERYTHING, DEFAULT) if zooms else timer_sums.within(EVERYTHING)
    if page.evidence.stale_reason is not None:
        why["timers"] = page.evidence.stale_reason.value
        return None
    return timers_kept(here, page, zooms)


def timers_kept(here: Mirrored, page: TimersPage, zooms: tuple[str, ...] = KEPT_ZOOMS) -> TimersKept:
    """Return the Timers page with its zooms, without what fires next, which has keys, and without bars of single
    topics."""
    first = page.first
    nothing = TimerList(
        page.evidence, page.now_ms, TimerFilter(), (), newest_read=first.newest_read, records=first.records
    )
    topics = tuple(replace(row, lateness=row.lateness and replace(row.lateness, histogram=())) for row in page.topics)
    page = replace(page, first=nothing, topics=topics, forecast=None)
    return TimersKept(page, _pulled(here, page, zooms) if page.polled else _forecasts(here, page, zooms))


def _forecasts(here: Mirrored, page: TimersPage, zooms: tuple[str, ...]) -> tuple[Zoomed, ...]:
    found = []
    for name in zooms:
        window = window_of(name, None, page.now_ms)
        forecast, _ = ask(partial(_forecast, window), source=here.name, requests=())
        if forecast is not None:
            found.append(Zoomed(name, forecast))
    return tuple(found)


def _forecast(window: Window, admin: Admin) -> Forecast:
    return forecast_of(admin, window)


def _pulled(here: Mirrored, page: TimersPage, zooms: tuple[str, ...]) -> tuple[Zoomed, ...]:
    newest, _ = ask(apache_records.read_newest, source=here.name, requests=())
    if newest is None:
        return ()
    windows = [window_of(name, None, page.now_ms) for name in zooms]
    return tuple(
        Zoomed(each.zoom.name, strip=stretch_of_rows(newest.rows, each.start_ms, each.zoom.span_ms, each.zoom.step_ms))
        for each in windows
    )


@authorised
def timers_at(scope: TopicScope, asked_ms: int, zoom: str = "") -> tuple[Moment, TimersPage | None]:
    """Return the Timers page at a moment, at one of the zooms that are kept, else at the default one."""
    moment, kept = part_at(asked_ms, "timers", TimersKept)
    if kept is None:
        return moment, None
    evidence = evidence_of(moment)
    zooms = {each.zoom: each for each in kept.zooms}
    chosen = zooms.get(zoom) or zooms.get(DEFAULT)
    forecast = chosen.forecast if chosen else None
    strip = forecast.stretch if forecast else chosen.strip if chosen else None
    wheel = kept.page.wheel
    if wheel is not None:
        # what is due beyond the stretch was asked for at the default zoom alone
        beyond = wheel.beyond if chosen and chosen.zoom == DEFAULT else None
        wheel = replace(wheel, strip=strip, beyond=beyond, evidence=evidence) if strip else None
    page = replace(
        kept.page,
        evidence=evidence,
        zoom=chosen.zoom if chosen else DEFAULT,
        first=replace(kept.page.first, evidence=evidence),
        wheel=wheel,
        forecast=forecast and replace(forecast, evidence=evidence),
        is_past=True,
    )
    return moment, page if scope.see_all else without_names(page, scope)
