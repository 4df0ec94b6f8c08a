"""Consumer groups with their lag, and one group; now, and as a snapshot kept them at an earlier moment."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.groups import read
from console.features.groups.kept import GroupsKept, GroupTopic, seen_of, together
from console.features.groups.operations import moved_back
from console.features.groups.read import GROUPS, MAX_COUNT, Groups
from console.kept_figures import FigureSubject
from console.operations.setting_fields import group_form, new_group_form
from console.over_time import Measure, OverTime, Wanted, over_time
from console.past import Asked, Moment, asked_of, evidence_of, parts_at, past_of, status_of
from console.security.topic_scope import TopicScope, authorised, current_scope, current_topics
from console.site.parsing import whole_number
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.live import LiveKind
from console.ui.ordering import asked_order


@dataclass(frozen=True, slots=True)
class PastGroups(Groups):
    """A page of the groups of a snapshot."""

    #: of the groups on this page
    topics: tuple[GroupTopic, ...] = ()
    #: groups that were too many for the snapshot
    left_out: int = 0


@authorised
def groups_at(
    scope: TopicScope, asked_ms: int, search: str = "", offset: int = 0, count: int = 100
) -> tuple[Moment, PastGroups | None]:
    """Return consumer groups that then read a topic that is seen now."""
    moment, parts = parts_at(asked_ms, "groups", GroupsKept)
    if not parts or moment.at_ms is None:
        return moment, None
    kept = together(parts) if moment.has_several else parts[0][1]
    found = seen_of(kept, scope)
    count, offset = min(max(count, 1), MAX_COUNT), max(offset, 0)
    rows = [row for row in found.rows if search.lower() in row.name.lower()]
    page = rows[offset : offset + count]
    names = {row.name for row in page}
    lines = tuple(line for line in found.topics if line.group in names)
    return moment, PastGroups(
        evidence_of(moment),
        moment.at_ms,
        tuple(page),
        len(rows),
        offset,
        count,
        search,
        has_several=moment.has_several,
        topics=lines,
        left_out=kept.left_out,
    )


@require_safe
def groups(request: HttpRequest) -> Answer:
    """Show the list of groups, those that are behind first."""
    offset = whole_number(request.GET.get("offset")) or 0
    asked = asked_of(request)
    if asked.text:
        return _past_groups(request, asked, offset)

    def page(place: int | None) -> Groups:
        return _groups(request.GET, place or 0)

    data = page(offset)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "groups",
        "live": f"groups?{query}" if query else "groups",
        # a group that is not there yet reads nothing by which it would be seen
        "form": new_group_form() if current_topics().is_all else None,
        "number": uuid.uuid4(),
        "past": past_of(request, asked, None, "search"),
        **_neighbours(data),
    }
    return page_or_file(request, "groups/page.html", context, GROUPS, page, following=next_offset)


def _groups(query: Mapping[str, str], offset: int) -> Groups:
    """Return the page of the list that an address asks for."""
    order = asked_order(query.get("order", ""), GROUPS.orders, read.FURTHEST)
    return read.groups(search=query.get("search", "")[:255], order=order, offset=offset)


def _past_groups(request: HttpRequest, asked: Asked, offset: int) -> Answer:
    """Show the list as a snapshot has it."""
    search = request.GET.get("search", "")[:255]
    moment, data = groups_at(asked.at_ms, search, offset) if asked.at_ms is not None else (None, None)
    context: dict[str, Any] = {"data": data, "here": "groups", "past": past_of(request, asked, moment, "search")}
    if data is None or moment is None or moment.at_ms is None:
        return render(request, "groups/past.html", context, status=status_of(asked))
    at_ms = moment.at_ms

    def page(place: int | None) -> PastGroups:
        return groups_at(at_ms, search, place or 0)[1] or data

    context |= _neighbours(data)
    return page_or_file(request, "groups/past.html", context, GROUPS, page, following=next_offset)


def _neighbours(data: Groups | PastGroups) -> dict[str, int | None]:
    end = data.offset + data.count
    previous = max(0, data.offset - data.count) if data.offset else None
    return {"previous": previous, "following": end if end < data.total else None}


@require_safe
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Show one group: its queues, members and subscriptions."""
    data = read.group(name)
    if data.group is None and not data.evidence.stale:
        raise Http404(_("There is no such consumer group."))
    over = _charts(name, request.GET)
    context = {
        "data": data, "here": "groups", "live": over.live(f"group/{name}"), "number": uuid.uuid4(),
        "setting_number": uuid.uuid4(), "form": group_form(name) if data.group and not data.reads_others else None,
        "over": over,
    }  # fmt: skip
    return render(request, "groups/group.html", context)


def _charts(name: str, given: Mapping[str, str]) -> OverTime:
    if not current_scope().whole_group(name):
        # what is kept is of all that it reads
        return over_time(given, [], about=("group", name))
    lines = [Wanted(FigureSubject.Kind.GROUP, name, measure) for measure in (Measure.PASSED, Measure.LAG)]
    return over_time(given, lines, about=("group", name), moved=partial(moved_back, name))


LIVE = {
    "groups": LiveKind(
        lambda _, query: _groups(query, whole_number(query.get("offset")) or 0),
        frozenset({"groups", "queues", "offsets", "histories"}),
        frozenset({"search", "order", "offset"}),
    ),
    "group": LiveKind(
        lambda name, _: read.group(name),
        frozenset({"groups", "queues", "offsets"}),
        frozenset({"over"}),
        takes_argument=True,
        charts=_charts,
    ),
}
