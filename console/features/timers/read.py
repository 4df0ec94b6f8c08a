"""Read the Timers pages from the broker; on an Apache RocketMQ broker, what can be pulled there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from django.http import Http404
from django.utils.translation import gettext as _

from broker.client import Admin
from broker.client.timers import TimerStatus, TopicLateness
from console.features.timers import apache_records
from console.features.timers.rows import forecast_of, one_timer, timers_between, wheel_of, within
from console.features.timers.shapes import (
    FIRST_COUNT,
    PAGE_COUNT,
    ClockSteps,
    Forecast,
    Lateness,
    TimerFigures,
    TimerFilter,
    TimerLife,
    TimerList,
    TimerRow,
    TimersPage,
    TopicTimers,
    Wheel,
    Window,
    window_of,
)
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import Answer, ask
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Mirrored, mirrored
from console.site.reading_on import PATIENCE_S, fill

LIST, WHEEL, STATUS, LIFE, FORECAST = 14_002, 14_003, 14_004, 14_007, 14_008
TOPICS = 16
#: for what fires next on the page, which is drawn again and again
FIRST_S = 0.5
#: requests for one page of a filtered list: a broker that is out of time gives what it has and a cursor
MOST_ASKED = 3


@authorised
def timers(scope: TopicScope, zoom: str = "", at_ms: int | None = None) -> TimersPage:
    """Return the wheel and what stands around it, at a zoom (zoom.ZOOMS) that begins at `at_ms`, None: now."""
    found = _page_at(zoom, at_ms, scope.topic)
    if scope.see_all:
        return replace(found, first=replace(found.first, rows=masks().rows(found.first.rows)))
    first = _seen_list(scope, found.first.wanted, None, FIRST_COUNT, FIRST_S)
    return without_names(replace(found, first=first), scope)


def without_names(found: TimersPage, scope: TopicScope) -> TimersPage:
    """Return the page without topics that are not scope."""
    forecast = found.forecast and replace(
        found.forecast,
        herds=tuple(
            replace(herd, topics=tuple(pair for pair in herd.topics if scope.topic(pair[0])))
            for herd in found.forecast.herds
        ),
    )
    return replace(
        found,
        topics=scope.rows(found.topics, lambda row: row.topic),
        # of a moment that is past: so many were not kept, his perhaps among them
        topics_left=found.topics_left,
        lateness=found.lateness and replace(found.lateness, topic=""),
        forecast=forecast,
    )


def _page_at(zoom: str, at_ms: int | None, is_seen: Callable[[str], bool]) -> TimersPage:
    here = mirrored()
    window = window_of(zoom, at_ms, here.now_ms)
    status, evidence = _ask(lambda admin: admin.timer_status(), here, STATUS)
    if _lacks(evidence):
        return apache_records.timers(here, window, is_seen)
    topics = [row for row in _topics(status) if is_seen(row.topic)]
    wheel, wheel_evidence = _ask(lambda admin: wheel_of(admin, window, here.now_ms), here, WHEEL, FORECAST)
    forecast, forecast_evidence = _ask(lambda admin: forecast_of(admin, window), here, FORECAST)
    figures, first = timer_figures(status), _list(_first(window), None, FIRST_COUNT)
    if window.following and first.rows:
        # a broker that has not read the next second yet says its end; its list is exact
        figures = replace(figures, next_due_ms=first.rows[0].due_ms)
    return TimersPage(
        evidence=evidence,
        now_ms=here.now_ms,
        broker=here.name,
        zoom=window.zoom.name,
        at_ms=None if window.following else window.start_ms,
        figures=figures,
        topics=tuple(topics[:TOPICS]),
        topics_left=len(topics[TOPICS:]),
        lateness=_together(status),
        first=first,
        wheel=wheel and replace(wheel, evidence=wheel_evidence),
        forecast=_clear(replace(forecast, evidence=forecast_evidence), wheel, status) if forecast else None,
    )


@authorised
def timer_sums(scope: TopicScope) -> TimersPage:
    """Return the page's figures and topics, without anything that stands in the wheel."""
    return without_names(_sums(), scope)


def _sums() -> TimersPage:
    here = mirrored()
    status, evidence = _ask(lambda admin: admin.timer_status(), here, STATUS)
    if _lacks(evidence):
        return apache_records.timers(here, window_of("", None, here.now_ms))
    topics, nothing = _topics(status), TimerList(evidence, here.now_ms, TimerFilter(), ())
    return TimersPage(
        evidence, here.now_ms, here.name, window_of("", None, here.now_ms).zoom.name, None, timer_figures(status),
        topics[:TOPICS], len(topics[TOPICS:]), _together(status), nothing, None, None,
    )  # fmt: skip


@authorised
def timer_list(scope: TopicScope, wanted: TimerFilter, cursor: str | None = None, count: int = PAGE_COUNT) -> TimerList:
    """Return a page of pending timers, in the order in which they fire."""
    if scope.see_all:
        page = _list(wanted, cursor, count)
        return replace(page, rows=masks().rows(page.rows))
    return _seen_list(scope, wanted, cursor, count, PATIENCE_S)


def _seen_list(scope: TopicScope, wanted: TimerFilter, cursor: str | None, count: int, patience_s: float) -> TimerList:
    """A page of those that are seen."""
    if wanted.topic and not scope.topic(wanted.topic):
        page = _list(wanted, cursor, 1)
        return replace(page, rows=(), cursor=None, complete=True)
    found = fill(
        lambda place, step: _list(wanted, place, step),
        lambda page: (page.rows, page.cursor),
        lambda row: scope.topic(row.topic),
        cursor,
        count,
        patience_s=patience_s,
    )
    rows, is_whole = masks().rows(found.rows), found.page.complete or bool(found.looked)
    return replace(found.page, rows=rows, cursor=found.following, complete=is_whole, looked=found.looked)


def _list(wanted: TimerFilter, cursor: str | None, count: int) -> TimerList:
    here = mirrored()
    found, evidence = _ask(lambda admin: _page(admin, wanted, cursor, count), here, LIST)
    if _lacks(evidence):
        return apache_records.timer_list(here, wanted, cursor, count)
    rows, following, complete = found or ([], None, True)
    return TimerList(evidence, here.now_ms, wanted, tuple(rows), following, complete)


@authorised
def timer_life(scope: TopicScope, position: int) -> TimerLife:
    """Return one timer by the position of its parked record.

    Raises Http404 for one that is not seen; of a timer that is gone it is not known whose it was.
    """
    found = _life(position)
    if not scope.see_all and not found.evidence.stale and not (found.timer and scope.topic(found.timer.topic)):
        raise Http404(_("There is no such timer."))
    return replace(found, timer=found.timer and masks().row(found.timer, found.timer.topic))


def _life(position: int) -> TimerLife:
    here = mirrored()
    found, evidence = _ask(lambda admin: one_timer(admin, {"position": position}), here, LIFE)
    if _lacks(evidence):
        return apache_records.timer_life(here, position)
    state, timer, events = found or ("unknown", None, ())
    return TimerLife(evidence, here.now_ms, state, timer, events, position)


def _ask(question: Callable[[Admin], Answer], here: Mirrored, *requests: int) -> tuple[Answer | None, Evidence]:
    return ask(question, source=here.name, requests=requests)


def _lacks(evidence: Evidence) -> bool:
    """The broker has no timers of ours; any other trouble is told as it is."""
    return evidence.stale_reason is StaleReason.NOT_SUPPORTED


def _page(
    admin: Admin, wanted: TimerFilter, cursor: str | None, count: int
) -> tuple[list[TimerRow], str | None, bool]:  # fmt: skip
    rows, following, complete = timers_between(admin, wanted, limit=count, cursor=cursor)
    for _again in range(MOST_ASKED - 1):
        if len(rows) >= count or following is None:
            break
        more, following, complete = timers_between(admin, wanted, limit=count - len(rows), cursor=following)
        rows += more
    return rows, following, complete or following is None or len(rows) >= count


def _first(window: Window) -> TimerFilter:
    """What fires next; in a stretch that was chosen, what fires in it."""
    return TimerFilter() if window.following else within(window.start_ms, window.end_ms, window.zoom.step_ms)


def timer_figures(status: TimerStatus | None) -> TimerFigures:
    """The strip of figures; all unknown without a status."""
    if status is None:
        return TimerFigures()
    together = _together(status)
    limits = status.limits
    return TimerFigures(
        paused=status.paused,
        pending=status.pending,
        next_due_ms=status.next_due_ms,
        read_ms=status.read_ms or None,
        overdue=status.backlog,
        released_per_s=status.released_per_s,
        capacity_per_s=status.capacity_per_s,
        released_total=status.released_total,
        cancelled_total=status.cancelled_total,
        rescheduled_total=status.rescheduled_total,
        rolled_total=status.rolled_total,
        early_total=status.early_total,
        lateness_p50_ms=together.p50_ms if together else None,
        lateness_p99_ms=together.p99_ms if together else None,
        lateness_count=together.count if together else None,
        log_bytes=status.log_size_bytes,
        indexed_offset=status.enqueue_offset,
        end_offset=status.queue_max_offset,
        max_delay_ms=limits.max_delay_ms if limits else None,
        max_pending=limits.max_pending or None if limits else None,
        max_per_slot=limits.max_per_slot or None if limits else None,
        clock=ClockSteps(abs(status.clock_back_ms), abs(status.clock_forward_ms), status.clock_step_at_ms),
    )


def _topics(status: TimerStatus | None) -> tuple[TopicTimers, ...]:
    """By what waits, then by what was released."""
    if status is None:
        return ()
    late = {row.topic: _lateness(row) for row in status.lateness_by_topic}
    pending = {row.topic: row.pending for row in status.by_topic}
    rows = [TopicTimers(topic, pending.get(topic, 0), late.get(topic)) for topic in {*pending, *late}]
    rows.sort(key=lambda row: (-(row.pending or 0), -(row.lateness.count if row.lateness else 0), row.topic))
    return tuple(rows)


def _lateness(row: TopicLateness) -> Lateness:
    buckets = tuple((float(bucket.up_to_ms), bucket.count) for bucket in row.histogram)
    return Lateness(row.topic, row.count, row.p50_ms, row.p99_ms, row.max_ms, buckets)


def _together(status: TimerStatus | None) -> Lateness | None:
    """All topics; shares of a whole are read from the buckets, whose upper edges are what is known."""
    if status is None or not status.lateness_by_topic:
        return None
    counts: dict[int, int] = {}
    for row in status.lateness_by_topic:
        for bucket in row.histogram:
            counts[bucket.up_to_ms] = counts.get(bucket.up_to_ms, 0) + bucket.count
    total = sum(row.count for row in status.lateness_by_topic)
    if len(status.lateness_by_topic) == 1:
        return _lateness(status.lateness_by_topic[0])
    edges = sorted(counts)
    return Lateness(
        "",
        total,
        _edge_of(0.50, edges, counts),
        _edge_of(0.99, edges, counts),
        max((row.max_ms for row in status.lateness_by_topic if row.max_ms is not None), default=None),
        tuple((float(edge), counts[edge]) for edge in edges),
    )


def _edge_of(share: float, edges: list[int], counts: dict[int, int]) -> float | None:
    wanted, passed = share * sum(counts.values()), 0
    for edge in edges:
        passed += counts[edge]
        if passed >= wanted:
            return float(edge)
    return None


def _clear(forecast: Forecast, wheel: Wheel | None, status: TimerStatus | None) -> Forecast:
    """Return the forecast over the slots of the strip, with the measured rate from wherever it is told."""
    known = forecast.capacity_per_s or (status.capacity_per_s if status else None)
    return replace(forecast, capacity_per_s=known, stretch=wheel.strip if wheel else forecast.stretch)


def timers_mark(_: str) -> Hashable:
    """Return what changes with whatever waits or became of it; one small request instead of the page's six."""

    def mark(admin: Admin) -> Hashable:
        told = admin.timer_status()
        counted = (told.released_total, told.cancelled_total, told.rescheduled_total, told.rolled_total)
        return told.pending, told.backlog, told.paused, told.next_due_ms, told.enqueue_offset, counted

    found, _evidence = ask(mark, source="", requests=())
    return found
