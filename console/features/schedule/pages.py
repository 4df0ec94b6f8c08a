"""SCHEDULE_TOPIC_XXXX: all lanes, one lane opened into its messages, and the delay levels by REST."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from msgspec import Struct
from starlette.responses import Response

from broker.client import AsyncAdmin
from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.features.schedule import read
from console.features.schedule.shapes import LANE, MAX_PAGE_COUNT
from console.kept_figures import FigureSubject
from console.over_time import Measure, OverTime, Wanted, over_time
from console.past import asked_of, past_of, status_of
from console.rest.access import Overview
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.several import Missing, OnlyOf, asked, tell_each
from console.security.tokens import READ
from console.site.merged import LONGEST, Place
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind

#: what is shown of the lanes over time, and how operations begin that put something on them
MEASURES = (Measure.PASSED, Measure.PENDING, Measure.LATENESS)
KINDS_MARKED = ("topics.", "dead_letters.", "messages.", "brokers.")


@require_safe
def schedule(request: HttpRequest) -> HttpResponse:
    """Show every delay level with what waits on it."""
    asked = asked_of(request)
    if not asked.text:
        over = _charts(request.GET)
        around = {"past": past_of(request, asked, None), "live": over.live("schedule"), "over": over}
        return render(request, "schedule/page.html", {"data": read.lanes(), "here": "schedule", **around})
    moment, data = read.lanes_at(asked.at_ms) if asked.at_ms is not None else (None, None)
    context = {"data": data, "here": "schedule", "past": past_of(request, asked, moment)}
    return render(request, "schedule/page.html", context, status=status_of(asked))


@require_safe
def lane(request: HttpRequest, level: int) -> Answer:
    """Show the pending messages of a level in due order, paged by offset; of several brokers by cursor."""
    place = _place(request.GET)
    data = read.lane(level, place)
    if data.lane is None:
        raise Http404(_("There is no such delay level."))
    context = {
        "data": data,
        "here": "schedule",
        "live": _live(level, place),
        "is_further": isinstance(place, str),
        "previous_level": level - 1 or None,
        "next_level": level + 1 if level < read.highest_level() else None,
    }
    return page_or_file(
        request, "schedule/lane.html", context, LANE, lambda place: read.lane(level, place, MAX_PAGE_COUNT),
        rows=attrgetter("messages"), following=attrgetter("following"),
    )  # fmt: skip


def _charts(given: Mapping[str, str]) -> OverTime:
    lines = [Wanted(FigureSubject.Kind.LANES, "", measure) for measure in MEASURES]
    return over_time(given, lines, kinds=KINDS_MARKED)


def _place(given: Mapping[str, str]) -> Place | None:
    """Return the place of a lane that an address names."""
    return given.get("cursor", "")[:LONGEST] or whole_number(given.get("offset"))


def _live(level: int, place: Place | None) -> str | None:
    """Return what changes in place: a lane, from its beginning or from an offset on."""
    if isinstance(place, str):
        return None
    return f"lane/{level}" if place is None else f"lane/{level}?offset={place}"


LIVE = {
    "schedule": LiveKind(
        lambda _, __: read.lanes(),
        frozenset({"levels", "histories"}),
        frozenset({"over"}),
        charts=lambda _, given: _charts(given),
    ),
    "lane": LiveKind(
        lambda level, query: read.lane(whole_number(level) or 0, whole_number(query.get("offset"))),
        frozenset({"levels"}),
        frozenset({"offset"}),
        takes_argument=True,
        is_numbered=True,
    ),
}


class LevelRow(Struct, kw_only=True):
    """A delay level: `backlog` messages wait, `offset` was released last, `max_offset` is the end of its queue."""

    level: int
    delay_ms: int
    offset: int
    max_offset: int
    backlog: int
    broker: str


class LevelList(Struct, kw_only=True):
    """The delay levels of each broker, level 1 first."""

    levels: list[LevelRow]
    brokers_missing: Missing


class LevelsQuery(Struct, kw_only=True):
    """The brokers whose levels are listed."""

    broker: OnlyOf | None = None


@route(
    "GET", "/schedule/levels", "List delay levels", action=READ, on=Overview(), answers=((200, "Levels.", LevelList),)
)
async def levels(call: Call, query: LevelsQuery) -> Response:
    """List the delay levels and what waits on each."""
    found, missing = await tell_each(await asked(call.state, query.broker), _levels)
    return json_answer(LevelList(levels=[row for rows in found.values() for row in rows], brokers_missing=missing))


async def _levels(broker: str, admin: AsyncAdmin) -> list[LevelRow]:
    delays = await admin.delay_levels()
    released = await admin.delay_offsets()
    ends = {each.queue.queue_id: each.max_offset for each in (await admin.topic_stats(SCHEDULE_TOPIC)).queues}
    rows = []
    for level, delay_ms in enumerate(delays, start=1):
        end, offset = ends.get(level - 1, 0), released.get(level, 0)
        rows.append(
            LevelRow(
                level=level,
                delay_ms=delay_ms,
                offset=offset,
                max_offset=end,
                backlog=max(0, end - offset),
                broker=broker,
            )
        )
    return rows
