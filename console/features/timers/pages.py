"""Timers: the wheel with what fires next, the list that can be acted on, and the life of one timer."""

from __future__ import annotations

import uuid
from dataclasses import replace
from operator import attrgetter

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console import queries
from console.features.timers.life_line import line_of
from console.features.timers.move_reasons import with_reasons
from console.features.timers.shapes import TimerFilter, TimerList
from console.features.timers.zoom import DEFAULT, ZOOMS
from console.operations.typed_moments import bound_ms
from console.ui.export import Answer, page_or_file
from console.ui.live import number
from console.ui.snapshots.as_of import asked_of, past_of, status_of
from console.ui.snapshots.taker import KEPT_ZOOMS

_LENGTHS = {"topic": 255, "key": 1_024, "from": 64, "to": 64, "cursor": 512}


@require_safe
@login_required
def timers(request: HttpRequest) -> HttpResponse:
    """The wheel, unrolled at a zoom, the forecast, lateness."""
    zoom = request.GET.get("zoom", "")
    chosen = zoom if zoom in ZOOMS else DEFAULT
    asked = asked_of(request)
    if asked.text:
        moment, data = queries.timers_at(asked.at_ms, chosen) if asked.at_ms is not None else (None, None)
        past = past_of(request, asked, moment, "zoom")
        around = {"data": data, "here": "timers", "past": past, "zooms": KEPT_ZOOMS}
        return render(request, "timers/past.html", around, status=status_of(asked))
    at_ms = number(request.GET.get("at"))
    query = f"zoom={chosen}" if at_ms is None else f"zoom={chosen}&at={at_ms}"
    context = {
        "data": queries.timers(chosen, at_ms),
        "here": "timers",
        "live": f"timers?{query}",
        "number": uuid.uuid4(),
        "past": past_of(request, asked, None, "zoom"),
    }
    return render(request, "timers/page.html", context)


@require_safe
@login_required
def timer_list(request: HttpRequest) -> Answer:
    """Pending timers by topic, key and range, page by page; rows or all that match can be acted on."""
    given = {name: request.GET.get(name, "").strip()[:length] for name, length in _LENGTHS.items()}
    errors: dict[str, str] = {}
    bounds = {name: bound_ms(given[name], name, errors) for name in ("from", "to")}
    wanted = TimerFilter(given["topic"], given["key"], bounds["from"], bounds["to"])

    def read(place: str | None) -> TimerList:
        return queries.timer_list(wanted, place)

    data = read(given["cursor"] or None)
    shown = {name: text for name, text in given.items() if text and name != "cursor"}
    context = {
        "data": data,
        "here": "timers",
        "given": given,
        "errors": errors,
        "number": uuid.uuid4(),
        "first_page": "?" + urlencode(shown),
        "next_page": "?" + urlencode({**shown, "cursor": data.cursor}) if data.cursor else None,
    }
    return page_or_file(
        request, "timers/list.html", context, "timers", read, following=attrgetter("cursor"),
        status=422 if errors else 200,
    )  # fmt: skip


@require_safe
@login_required
def timer(request: HttpRequest, position: int) -> HttpResponse:
    """One timer by the position of its parked record."""
    if position >= 2**63:
        raise Http404(_("There is no such timer."))
    data = queries.timer_life(position)
    if data.timer is None and not data.events and not data.evidence.stale:
        raise Http404(_("There is no such timer."))
    data = replace(data, events=with_reasons(data.events))
    context = {"data": data, "here": "timers", "line": line_of(data), "number": uuid.uuid4()}
    return render(request, "timers/timer.html", context)
