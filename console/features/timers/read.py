"""Read timers from the broker in the shapes of the pages; of an Apache RocketMQ broker, what can be pulled there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from django.http import Http404
from django.utils.translation import gettext as _

from broker.client import Admin, BrokerRefused
from broker.client.timers import DueBucket, Timer, TimerStatus, TimerTarget, TopicLateness, WheelBucket
from broker.rocketmq.codes import Request
from broker.rocketmq.message import parse_offset_message_id
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers import apache_records, total
from console.features.timers.kept import with_last_known
from console.features.timers.shapes import (
    DAY,
    FIRST_COUNT,
    HOUR,
    MINUTE,
    PAGE_COUNT,
    SECOND,
    ClockSteps,
    Forecast,
    Herd,
    Lateness,
    LifeEvent,
    LifeKind,
    Stretch,
    TimerFigures,
    TimerFilter,
    TimerLife,
    TimerList,
    TimerRow,
    TimersPage,
    TopicTimers,
    Wheel,
    Window,
    stretch_of,
    stretch_of_rows,
    window_of,
    within,
)
from console.operations.copies import COPY_OF, message_id_again
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import Answer, ask, ask_each, read_each
from console.site.evidence import Evidence, StaleReason
from console.site.merged import read_cursor
from console.site.mirrored import Cluster, Mirrored, cluster, mirrored
from console.site.reading_on import PATIENCE_S, fill

TOPICS = 16
#: for what fires next on the page, which is drawn again and again
FIRST_S = 0.5
#: requests for one page of a filtered list: a broker that is out of time gives what it has and a cursor
MOST_ASKED = 3
_OFFSET_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}").fullmatch
#: timers of one request, the broker's own limit
PAGE = 1_000
#: the end of time for a list: RocketMQ's moments have 63 bits
FOREVER_MS = 2**62
#: timers that are looked at one by one, where the wheel is too coarse
ONE_BY_ONE = 5_000
_UNSAID = Evidence("", None, True)
#: who did not answer is not asked again for the same page
AWAY = frozenset({StaleReason.BROKER_UNREACHABLE, StaleReason.BROKER_SLOW})


@authorised
def timers(scope: TopicScope, zoom: str = "", at_ms: int | None = None, of: Cluster | None = None) -> TimersPage:
    """Return the wheel and what stands around it, at a zoom (shapes.ZOOMS) that begins at `at_ms`, None: now.

    Of the brokers that are chosen, in total, unless `of` says otherwise.
    """
    of = of or cluster()
    every = _page_at(of, zoom, at_ms)
    found = _topics_cut(every, scope.topic)
    if scope.see_all:
        return replace(found, first=replace(found.first, rows=masks().rows(found.first.rows)))
    first = _seen_list(of, scope, found.first.wanted, None, FIRST_COUNT, FIRST_S)
    begins = first if found.at_ms is None else _seen_list(of, scope, TimerFilter(), None, 1, FIRST_S)
    own = own_figures(every, scope, begins.rows[0].due_ms if begins.rows else None)
    return without_names(replace(found, first=first, own=own), scope)


def own_figures(page: TimersPage, scope: TopicScope, next_due_ms: int | None) -> TimerFigures:
    """Return what can be told of the topics that are seen alone, from all topics of a page; brokers count and measure
    by topic. `next_due_ms` is the caller's to know."""
    rows = scope.rows(page.topics, lambda row: row.topic)
    late = total.together([row.lateness for row in rows if row.lateness is not None])
    # a snapshot keeps the topics with the most timers
    is_known = page.figures.pending is not None and not (page.is_past and page.topics_left)
    return TimerFigures(
        pending=sum(row.pending or 0 for row in rows) if is_known else None,
        next_due_ms=next_due_ms,
        lateness_p50_ms=late.p50_ms if late else None,
        lateness_p99_ms=late.p99_ms if late else None,
        lateness_count=late.count if late else None,
    )


def without_names(found: TimersPage, scope: TopicScope) -> TimersPage:
    """Return the page without topics that are not in scope."""
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
        # of a moment that is past: so many topics were not kept, seen ones perhaps among them
        topics_left=found.topics_left,
        lateness=found.lateness and replace(found.lateness, topic=""),
        forecast=forecast,
    )


def _topics_cut(found: TimersPage, is_seen: Callable[[str], bool]) -> TimersPage:
    """Return the page with as many topics as it lists, of those that are seen."""
    topics = [row for row in found.topics if is_seen(row.topic)]
    return replace(found, topics=tuple(topics[:TOPICS]), topics_left=len(topics[TOPICS:]))


def _page_at(of: Cluster, zoom: str, at_ms: int | None) -> TimersPage:
    window = window_of(zoom, at_ms, of.now_ms)
    pages = read_each(lambda here: _page_of(here, window), of)
    if len(pages) == 1:
        return pages[0]
    lists = [page.first for page in pages]
    return _in_total(pages, of, total.list_of_all(lists, of.names, {}, of.source, FIRST_COUNT))


def _in_total(pages: Sequence[TimersPage], of: Cluster, first: TimerList) -> TimersPage:
    known, away = with_last_known(pages)
    return replace(total.page_of_all(known, of.source, first), away=away)


def _page_of(here: Mirrored, window: Window) -> TimersPage:
    """Return the page of one broker, with all its topics; one that is away is asked once."""
    status, evidence = _ask(lambda admin: admin.timer_status(), here, Request.GET_TIMER_STATUS)
    if _lacks(evidence):
        return apache_records.timers(here, window)
    nothing = _nothing(here, evidence, window, status)
    if evidence.stale_reason in AWAY:
        return replace(nothing, first=replace(nothing.first, wanted=_first(window)))
    wheel, wheel_evidence = _ask(
        lambda admin: wheel_of(admin, window, here.now_ms), here, Request.GET_TIMER_WHEEL, Request.GET_TIMER_FORECAST
    )
    forecast, forecast_evidence = _ask(lambda admin: forecast_of(admin, window), here, Request.GET_TIMER_FORECAST)
    figures, first = nothing.figures, _list_of(here, _first(window), None, FIRST_COUNT)
    if window.following and first.rows:
        # a broker that has not read the next second yet says its end; its list is exact
        figures = replace(figures, next_due_ms=first.rows[0].due_ms)
    return replace(
        nothing,
        at_ms=None if window.following else window.start_ms,
        figures=figures,
        first=first,
        wheel=wheel and replace(wheel, evidence=wheel_evidence),
        forecast=_clear(replace(forecast, evidence=forecast_evidence), wheel, status) if forecast else None,
    )


def _nothing(here: Mirrored, evidence: Evidence, window: Window, status: TimerStatus | None) -> TimersPage:
    """Return the page with what the status tells: figures and topics, without anything that stands in the wheel."""
    return TimersPage(
        evidence, here.now_ms, here.name, window.zoom.name, None if window.following else window.start_ms,
        timer_figures(status), _topics(status), 0, _together(status),
        TimerList(evidence, here.now_ms, TimerFilter(), ()), None, None,
    )  # fmt: skip


@authorised
def timer_sums(scope: TopicScope, of: Cluster | None = None) -> TimersPage:
    """Return the page's figures and topics, without anything that stands in the wheel."""
    of = of or cluster()
    window = window_of("", None, of.now_ms)
    pages = read_each(lambda here: _sums(here, window), of)
    found = pages[0] if len(pages) == 1 else _in_total(pages, of, pages[0].first)
    return without_names(_topics_cut(found, lambda topic: True), scope)


def _sums(here: Mirrored, window: Window) -> TimersPage:
    status, evidence = _ask(lambda admin: admin.timer_status(), here, Request.GET_TIMER_STATUS)
    return apache_records.timers(here, window) if _lacks(evidence) else _nothing(here, evidence, window, status)


@authorised
def timer_list(scope: TopicScope, wanted: TimerFilter, cursor: str | None = None, count: int = PAGE_COUNT) -> TimerList:
    """Return a page of pending timers, in the order in which they fire."""
    of = cluster()
    if scope.see_all:
        page = _list(of, wanted, cursor, count)
        return replace(page, rows=masks().rows(page.rows))
    return _seen_list(of, scope, wanted, cursor, count, PATIENCE_S)


def brokers_of_key(key: str) -> frozenset[str]:
    """Return the brokers at which timers with this key wait, of those that answer."""
    return frozenset(row.broker for row in timer_list(TimerFilter(key=key), count=PAGE).rows)


def _seen_list(
    of: Cluster, scope: TopicScope, wanted: TimerFilter, cursor: str | None, count: int, patience_s: float
) -> TimerList:
    """Return a page of those that are seen."""
    if wanted.topic and not scope.topic(wanted.topic):
        page = _list(of, wanted, cursor, 1)
        return replace(page, rows=(), cursor=None, complete=True)
    found = fill(
        lambda place, step: _list(of, wanted, place, step),
        lambda page: (page.rows, page.cursor),
        lambda row: scope.topic(row.topic),
        cursor,
        count,
        patience_s=patience_s,
    )
    rows, is_whole = masks().rows(found.rows), found.page.complete or bool(found.looked)
    return replace(found.page, rows=rows, cursor=found.following, complete=is_whole, looked=found.looked)


def _list(of: Cluster, wanted: TimerFilter, cursor: str | None, count: int) -> TimerList:
    """Return a page of the list; that of several brokers has a cursor with a place for each."""
    if not of.has_several:
        return read_each(lambda here: _list_of(here, wanted, cursor, count), of)[0]
    places = read_cursor(cursor) or {}

    def read(here: Mirrored) -> TimerList:
        place = places.get(here.name)
        if here.name in places and place is None:
            return TimerList(here.evidence(polled_by=()), here.now_ms, wanted, ())
        return _list_of(here, wanted, None if place is None else str(place), count)

    return total.list_of_all(read_each(read, of), of.names, places, of.source, count)


def _list_of(here: Mirrored, wanted: TimerFilter, cursor: str | None, count: int) -> TimerList:
    found, evidence = _ask(lambda admin: _page(admin, wanted, cursor, count), here, Request.LIST_TIMERS)
    if _lacks(evidence):
        return apache_records.timer_list(here, wanted, cursor, count)
    rows, following, complete = found or ([], None, True)
    named = tuple(replace(row, broker=here.name) for row in rows)
    return TimerList(evidence, here.now_ms, wanted, named, following, complete)


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
    found, evidence = _ask(lambda admin: one_timer(admin, {"position": position}), here, Request.GET_TIMER)
    if _lacks(evidence):
        return apache_records.timer_life(here, position)
    state, timer, events = found or ("unknown", None, ())
    again, again_of = ask(lambda admin: _again(admin, state, timer), source=here.name, requests=())[0] or (None, None)
    named = timer and replace(timer, broker=here.name)
    return TimerLife(evidence, here.now_ms, state, named, events, position, again=again, again_of=again_of)


def _again(admin: Admin, state: str, timer: TimerRow | None) -> tuple[int | None, int | None]:
    """Return where what took the place of a timer is that was cancelled, and the one whose place it took itself."""
    if timer is None:
        return None, None
    again = None
    if state == "cancelled":
        wanted = {"topic": timer.topic, "uniqueKey": message_id_again(timer.position, timer.unique_key)}
        row = one_timer(admin, wanted)[1]
        again = row.position if row is not None else None
    copied = admin.message_at(timer.position, topic=TIMER_TOPIC).properties.get(COPY_OF, "")
    if not _OFFSET_ID(copied):
        return again, None
    before = parse_offset_message_id(copied)[2]
    try:
        unique_key = admin.message_at(before, topic=TIMER_TOPIC).unique_key or ""
    except BrokerRefused:
        # retention took it
        return again, None
    # any producer may have set the property
    return again, before if message_id_again(before, unique_key) == timer.unique_key else None


def _ask(question: Callable[[Admin], Answer], here: Mirrored, *requests: int) -> tuple[Answer | None, Evidence]:
    return ask(question, source=here.name, requests=requests)


def _lacks(evidence: Evidence) -> bool:
    """Tell whether the broker has no timers of ours; any other trouble is told as it is."""
    return evidence.stale_reason is StaleReason.NOT_SUPPORTED


def _page(admin: Admin, wanted: TimerFilter, cursor: str | None, count: int) -> tuple[list[TimerRow], str | None, bool]:
    rows, following, complete = timers_between(admin, wanted, limit=count, cursor=cursor)
    for _again in range(MOST_ASKED - 1):
        if len(rows) >= count or following is None:
            break
        more, following, complete = timers_between(admin, wanted, limit=count - len(rows), cursor=following)
        rows += more
    return rows, following, complete or following is None or len(rows) >= count


def _first(window: Window) -> TimerFilter:
    """Return the filter for the timers that fire next; in a chosen stretch, for those that fire in it."""
    return TimerFilter() if window.following else within(window.start_ms, window.end_ms, window.zoom.step_ms)


def timer_figures(status: TimerStatus | None) -> TimerFigures:
    """Return the strip of figures; all unknown without a status."""
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
    """Return topics sorted by what waits, then by what was released."""
    if status is None:
        return ()
    late = {row.topic: _lateness(row) for row in status.lateness_by_topic}
    pending = {row.topic: row.pending for row in status.by_topic}
    return total.in_order(TopicTimers(topic, pending.get(topic, 0), late.get(topic)) for topic in {*pending, *late})


def _lateness(row: TopicLateness) -> Lateness:
    buckets = tuple((float(bucket.up_to_ms), bucket.count) for bucket in row.histogram)
    return Lateness(row.topic, row.count, row.p50_ms, row.p99_ms, row.max_ms, buckets)


def _together(status: TimerStatus | None) -> Lateness | None:
    """Return the lateness of all topics."""
    return total.together([_lateness(row) for row in status.lateness_by_topic]) if status is not None else None


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

    return tuple(answer for _here, answer in ask_each(mark, cluster(), requests=())[0]) or None


def timers_between(
    admin: Admin, wanted: TimerFilter, *, limit: int, cursor: str | None = None
) -> tuple[list[TimerRow], str | None, bool]:
    """Return a page of pending timers in due order, the next cursor, and False if the broker ran out of time."""
    found = admin.timers(
        wanted.from_ms or 0,
        FOREVER_MS if wanted.to_ms is None else wanted.to_ms,
        topic=wanted.topic or None,
        key=wanted.key or None,
        limit=min(limit, PAGE),
        cursor=cursor,
    )
    following = found.cursor
    if wanted.key and following is None and len(found.items) >= min(limit, PAGE):
        # of those with a key a broker says no cursor, yet it goes on from one
        following = f"{found.items[-1].due_ms}-{found.items[-1].offset}"
    return [row_of(timer) for timer in found.items], following, found.complete


def all_timers(
    admin: Admin, wanted: TimerFilter, *, most: int, patience_s: float | None = None
) -> tuple[list[TimerRow], bool]:
    """Return up to `most` pending timers in due order; False: there are more, or patience ended before the last."""
    rows: list[TimerRow] = []
    end_s = None if patience_s is None else time.monotonic() + patience_s
    for page, cursor in _pages(admin, wanted):
        rows.extend(page)
        if len(rows) > most:
            return rows[:most], False
        if cursor is not None and end_s is not None and time.monotonic() > end_s:
            return rows, False
    return rows, True


def _pages(admin: Admin, wanted: TimerFilter) -> Iterator[tuple[list[TimerRow], str | None]]:
    cursor: str | None = None
    while True:
        page, cursor, _ = timers_between(admin, wanted, limit=PAGE, cursor=cursor)
        yield page, cursor
        if cursor is None:
            return


def one_timer(admin: Admin, target: Mapping[str, Any]) -> tuple[str, TimerRow | None, tuple[LifeEvent, ...]]:
    """Return state, the timer while known, and its events, oldest first; `target` as in PROTOCOL.md (14005)."""
    found = admin.timer(target_of(target))
    events = tuple(
        LifeEvent(LifeKind(event.kind), event.ms, event.position, event.late_ms, event.reason or "")
        for event in found.events
    )
    return found.state, row_of(found.timer) if found.timer is not None else None, events


def target_of(given: Mapping[str, Any]) -> TimerTarget:
    """Return the client's form of a target."""
    return msgspec.convert(given, TimerTarget)


def row_of(timer: Timer) -> TimerRow:
    """Return a timer of the client as a row."""
    return TimerRow(
        position=timer.position,
        offset=timer.offset,
        due_ms=timer.due_ms,
        topic=timer.topic,
        queue_id=timer.queue_id,
        size_bytes=timer.size_bytes,
        message_id=timer.offset_message_id,
        unique_key=timer.message_id or "",
        keys=tuple(timer.keys),
        tag=timer.tag or "",
        schedule_key=timer.schedule_key or "",
        store_ms=timer.store_ms or None,
        born_ms=timer.born_ms or None,
        rolled=timer.roll_times,
        handle=timer.handle or "",
    )


def wheel_of(admin: Admin, window: Window, now_ms: int) -> Wheel:
    """Return three rings from now on and the stretch; raise ClientError. Evidence is the caller's."""
    zoom = window.zoom
    # the wheel of the stretch tells rolls and reach; the rings need counts alone, which the forecast gives much sooner
    step_ms = max(zoom.step_ms, SECOND)
    asked = admin.timer_wheel(window.start_ms, window.end_ms, step_ms)
    strip = None
    reach_ms = now_ms + asked.slots * asked.precision_ms
    if zoom.step_ms < SECOND or (zoom.step_ms < HOUR and window.end_ms > reach_ms):
        strip = _one_by_one(admin, window, must=zoom.step_ms < SECOND)
    if strip is None:
        strip = stretch_of(asked.buckets, window.start_ms, zoom.span_ms, zoom.step_ms)
    return Wheel(
        evidence=_UNSAID, rings=rings_of(admin, now_ms), strip=strip,
        rolls=tuple((roll.roll_ms, roll.count) for roll in asked.rolls), beyond=asked.far,
        read_ms=asked.read_ms or None, precision_ms=asked.precision_ms, slots=asked.slots,
    )  # fmt: skip


def rings_of(admin: Admin, now_ms: int) -> tuple[Stretch, Stretch, Stretch]:
    """Return the rings from now on; a day in minutes gives the hour's ring and the day's. Raise ClientError."""
    second, minute = now_ms - now_ms % SECOND, now_ms - now_ms % MINUTE
    near = _slots(admin.timer_forecast(second, second + MINUTE, SECOND).buckets)
    far = _slots(admin.timer_forecast(minute, minute + DAY, MINUTE).buckets)
    return (
        stretch_of(near, second, MINUTE, SECOND),
        stretch_of(far, minute, HOUR, MINUTE),
        stretch_of(far, minute, DAY, HOUR),
    )


def _slots(buckets: Iterable[DueBucket]) -> list[WheelBucket]:
    return [WheelBucket(bucket.start_ms, bucket.count) for bucket in buckets]


def forecast_of(admin: Admin, window: Window) -> Forecast:
    """Return what is due in the stretch and its herds; raise ClientError. Evidence is the caller's."""
    step_ms = max(window.zoom.step_ms, SECOND)
    found = admin.timer_forecast(window.start_ms, window.end_ms, step_ms)
    herds = tuple(
        Herd(herd.due_ms, herd.count, herd.last_late_ms, tuple((each.topic, each.count) for each in herd.topics))
        for herd in found.herds
    )
    stretch = stretch_of(_slots(found.buckets), window.start_ms, window.zoom.span_ms, step_ms)
    return Forecast(_UNSAID, stretch, found.capacity_per_s, herds)


def _one_by_one(admin: Admin, window: Window, *, must: bool) -> Stretch | None:
    """Return the stretch counted from the timers themselves: below a second, and below an hour beyond its reach, the
    wheel knows nothing. None: they are too many, and the wheel's own answer is better than a part of them."""
    rows, is_whole = all_timers(admin, within(window.start_ms, window.end_ms, window.zoom.step_ms), most=ONE_BY_ONE)
    if not is_whole and not must:
        return None
    return stretch_of_rows(rows, window.start_ms, window.zoom.span_ms, window.zoom.step_ms)
