"""The Timers pages: the wheel with what fires next, the list that can be acted on, and the life of one timer.

The wheel is shown of an earlier moment, too, as a snapshot kept it. The log keeps the reason of a cancel only; that of
a move stands with the operation that moved it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter

from django.db.models import BigIntegerField, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import Admin
from broker.mirror.models import Topic
from console.features.timers import apache_records, read, total
from console.features.timers.kept import TimersKept, Zoomed, away_at
from console.features.timers.shapes import (
    DEFAULT,
    PAGE_COUNT,
    TIMERS,
    ZOOMS,
    Forecast,
    LifeEvent,
    LifeKind,
    TimerFilter,
    TimerLife,
    TimerList,
    TimersPage,
    Window,
    stretch_of_rows,
    window_of,
)
from console.kept_figures import FigureSubject
from console.operations.models import Operation, OperationItem
from console.operations.reading import is_seen
from console.operations.typed_moments import bound_ms, shown_moment
from console.over_time import Measure, OverTime, Wanted, over_time
from console.past import Moment, asked_of, evidence_of, parts_at, past_of, status_of
from console.security.topic_scope import EVERYTHING, TopicScope, authorised, current_scope, current_topics
from console.site.broker import ask
from console.site.clock import local_time
from console.site.evidence import Evidence
from console.site.merged import LONGEST
from console.site.mirrored import Mirrored, alone
from console.site.parsing import whole_number
from console.templatetags.escapement import is_late, span, until
from console.ui.charts import FOLD_MS, Stop, drawn_of, left_out, life_svg
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind
from console.ui.page_sizes import size_of

#: what is shown of the timers over time
MEASURES = (Measure.PASSED, Measure.PENDING, Measure.LATENESS)
#: zooms that are kept: below a second the timers themselves would have to be
KEPT_ZOOMS = tuple(name for name in ZOOMS if name != "1s")


def kept_timers(here: Mirrored, zooms: tuple[str, ...], why: dict[str, str]) -> TimersKept | None:
    """Return the Timers page of now at these zooms, sums alone without any; None with the reason in `why`."""
    page = (
        read.timers.within(EVERYTHING, DEFAULT, None, alone(here))
        if zooms
        else read.timer_sums.within(EVERYTHING, alone(here))
    )
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
    return read.forecast_of(admin, window)


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
    """Return the Timers page at a moment, at one of the zooms that are kept, else at the default one; of several
    brokers in total."""
    moment, parts = parts_at(asked_ms, "timers", TimersKept)
    if not parts:
        return moment, None
    evidence = evidence_of(moment)
    pages = [_past_page(kept, zoom, evidence) for _broker, kept in parts]
    page = pages[0]
    if moment.has_several:
        newest = max(pages, key=lambda each: each.now_ms)
        page = replace(together(pages, moment.broker), now_ms=newest.now_ms, evidence=evidence)
    if scope.see_all:
        return moment, page
    return moment, read.without_names(replace(page, own=read.own_figures(page, scope, None)), scope)


def together(pages: Sequence[TimersPage], source: str) -> TimersPage:
    """Return kept pages of several brokers in total; their lists are empty."""
    return replace(
        total.page_of_all(pages, source, pages[0].first),
        topics_left=sum(page.topics_left for page in pages),
        is_past=True,
    )


def _past_page(kept: TimersKept, zoom: str, evidence: Evidence) -> TimersPage:
    """Return the page of one broker as it was kept."""
    zooms = {each.zoom: each for each in kept.zooms}
    chosen = zooms.get(zoom) or zooms.get(DEFAULT)
    forecast = chosen.forecast if chosen else None
    strip = forecast.stretch if forecast else chosen.strip if chosen else None
    wheel = kept.page.wheel
    if wheel is not None:
        # what is due beyond the stretch was asked for at the default zoom alone
        beyond = wheel.beyond if chosen and chosen.zoom == DEFAULT else None
        wheel = replace(wheel, strip=strip, beyond=beyond, evidence=evidence) if strip else None
    return replace(
        kept.page,
        evidence=evidence,
        zoom=chosen.zoom if chosen else DEFAULT,
        first=replace(kept.page.first, evidence=evidence),
        wheel=wheel,
        forecast=forecast and replace(forecast, evidence=evidence),
        is_past=True,
    )


_LENGTHS = {"topic": 255, "key": 1_024, "from": 64, "to": 64, "cursor": LONGEST}


@require_safe
def timers(request: HttpRequest) -> HttpResponse:
    """Show the wheel, unrolled at a zoom, with the forecast and lateness."""
    zoom = request.GET.get("zoom", "")
    chosen = zoom if zoom in ZOOMS else DEFAULT
    asked = asked_of(request)
    if asked.text:
        moment, data = timers_at(asked.at_ms, chosen) if asked.at_ms is not None else (None, None)
        past = past_of(request, asked, moment, "zoom")
        around = {"data": data, "here": "timers", "past": past, "zooms": KEPT_ZOOMS}
        return render(request, "timers/past.html", around, status=status_of(asked))
    at_ms = whole_number(request.GET.get("at"))
    query = f"zoom={chosen}" if at_ms is None else f"zoom={chosen}&at={at_ms}"
    over = _charts(request.GET)
    data = read.timers(chosen, at_ms)
    context = {
        "data": data,
        "send_to": () if data.first.rows else _send_to(request),
        "here": "timers",
        "live": over.live(f"timers?{query}"),
        "number": uuid.uuid4(),
        "past": past_of(request, asked, None, "zoom"),
        "over": over,
    }
    return render(request, "timers/page.html", context)


def _send_to(request: HttpRequest) -> tuple[str, ...]:
    """Return the topics that somebody who sees some only may send to, at most two: one is led to, among several is
    chosen."""
    seen = current_topics()
    if seen.is_all or not request.user.has_perm("console.send_messages"):
        return ()
    mine = Topic.objects.filter(seen.among("name"), is_system=False).order_by("name")
    return tuple(mine.values_list("name", flat=True).distinct()[:2])


def _charts(given: Mapping[str, str]) -> OverTime:
    lines = [Wanted(FigureSubject.Kind.TIMERS, "", measure, "timers") for measure in MEASURES]
    return over_time(given, lines, kinds=("timers.",), keep=("zoom", "at"))


@require_safe
def timer_list(request: HttpRequest) -> Answer:
    """Show pending timers by topic, key and range, page by page; rows or all that match can be acted on."""
    given = {name: request.GET.get(name, "").strip()[:length] for name, length in _LENGTHS.items()}
    errors: dict[str, str] = {}
    bounds = {name: bound_ms(given[name], name, errors) for name in ("from", "to")}
    wanted = TimerFilter(given["topic"], given["key"], bounds["from"], bounds["to"])

    def page(place: str | None) -> TimerList:
        return read.timer_list(wanted, place, size.count)

    size = size_of(request, PAGE_COUNT)
    data = page(given["cursor"] or None)
    chosen = {name: text for name, text in given.items() if text and name != "cursor"}
    shown = size.shown(chosen)
    context = {
        "data": data,
        "here": "timers",
        "given": {**given, **{name: shown_moment(given[name]) for name in bounds}},
        "errors": errors,
        "away": away_at(data.evidence.stale_of, None if current_topics().is_all else current_scope().topic),
        "send_to": () if data.rows else _send_to(request),
        "number": uuid.uuid4(),
        "size": size,
        "sizes": size.offered(chosen),
        "first_page": "?" + urlencode(shown),
        "next_page": "?" + urlencode({**shown, "cursor": data.cursor}) if data.cursor else None,
    }
    return page_or_file(
        request, "timers/list.html", context, TIMERS, page, following=attrgetter("cursor"),
        status=422 if errors else 200,
    )  # fmt: skip


@require_safe
def timer(request: HttpRequest, position: int) -> HttpResponse:
    """Show one timer by the position of its parked record."""
    if position >= 2**63:
        raise Http404(_("There is no such timer."))
    data = read.timer_life(position)
    if data.timer is None and not data.events and not data.evidence.stale:
        raise Http404(_("There is no such timer."))
    data = replace(data, events=_with_place(with_reasons(data.events), data.again_of))
    context = {"data": data, "here": "timers", "line": line_of(data), "number": uuid.uuid4()}
    return render(request, "timers/timer.html", context)


def _with_place(events: Sequence[LifeEvent], again_of: int | None) -> tuple[LifeEvent, ...]:
    """Return the events, that of a timer that took a cancelled one's place with the reason: it was born long before."""
    if again_of is None:
        return tuple(events)
    words = _("in place of a cancelled timer, whose message this is again")
    return tuple(
        replace(event, reason=words) if event.kind is LifeKind.ACCEPTED and not event.reason else event
        for event in events
    )


_KINDS = {LifeKind.CANCELLED: "failed", LifeKind.RESCHEDULED: "moved", LifeKind.ROLLED: "moved"}
#: events drawn; the table has all
_MOST_STEPS = 10


def line_of(data: TimerLife) -> SafeString | None:
    """Draw the life of a timer; return None when there is nothing to draw."""
    stops: list[Stop] = []
    if data.timer is not None and data.timer.born_ms is not None:
        stops.append(Stop(data.timer.born_ms, escape(_("born")), _time(data.timer.born_ms), "done"))
    shown, omitted = drawn_of(data.events, _MOST_STEPS)
    for number, event in enumerate(shown):
        stop = _stop(event, stops[-1].ms if stops else None)
        stops.append(replace(stop, gap=left_out(omitted)) if omitted and number == 1 else stop)
    if data.state == "pending" and data.timer is not None and stops:
        gap = until(data.timer.due_ms, data.now_ms)
        late = is_late(data.timer.due_ms, data.now_ms)
        stops.append(Stop(data.timer.due_ms, escape(_("due")), _time(data.timer.due_ms), "ahead", gap, is_late=late))
    if not stops:
        return None
    label = escape(_("Lifecycle of the timer: %(count)s events") % {"count": len(data.events)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped # nosec B308 B703


def _stop(event: LifeEvent, before_ms: int | None) -> Stop:
    apart = event.ms - before_ms if before_ms is not None else 0
    gap = escape(span(apart)) if apart > FOLD_MS else ""
    return Stop(event.ms, escape(event.kind.label), _time(event.ms), _KINDS.get(event.kind, "done"), gap)


def _time(ms: int) -> str:
    return f"{local_time(ms):%m-%d %H:%M:%S}.{ms % 1000:03d}"


_MOVING = ("timers.reschedule", "timers.take_back")
#: a broker's clock and the console's differ; operations that are asked for one page
_APART, _MOST = timedelta(minutes=5), 32


def with_reasons(events: Sequence[LifeEvent]) -> tuple[LifeEvent, ...]:
    """Return the events, each move with the reason of the operation that wrote its record, if this console did and it
    is seen."""
    moves = {event.position: event for event in events if event.kind is LifeKind.RESCHEDULED and not event.reason}
    found = _reasons(moves)
    return tuple(
        replace(event, reason=found[event.position]) if event in moves.values() and event.position in found else event
        for event in events
    )


def _reasons(moves: dict[int | None, LifeEvent]) -> dict[int | None, str]:
    """Return, by the position of the record that a move wrote, its reason."""
    if not moves:
        return {}
    during = Q()
    for event in moves.values():
        at = datetime.fromtimestamp(event.ms / 1000, UTC)
        during |= Q(started_at__lte=at + _APART) & (Q(finished_at=None) | Q(finished_at__gte=at - _APART))
    seen = current_scope()
    rows = {row.pk: row for row in Operation.objects.filter(during, kind__in=_MOVING)[:_MOST] if is_seen(row, seen)}
    items = OperationItem.objects.filter(operation__in=rows).annotate(
        wrote=Cast(KT("result__new_position"), BigIntegerField())
    )
    return {item.wrote: rows[item.operation_id].reason for item in items.filter(wrote__in=list(moves))}


LIVE = {
    "timers": LiveKind(
        lambda _, query: read.timers(query.get("zoom", ""), whole_number(query.get("at"))),
        frozenset({"queues"}),
        frozenset({"zoom", "at", "over"}),
        mark=read.timers_mark,
        charts=lambda _, given: _charts(given),
    )
}
