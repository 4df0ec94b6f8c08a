"""Consumer groups with their lag, and one group; now, and as a snapshot kept them at an earlier moment."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.groups import read
from console.features.groups.read import GROUPS, MAX_COUNT, GroupRow, Groups, group_rows, unwatched
from console.operations.setting_fields import group_form, new_group_form
from console.past import Asked, Moment, asked_of, evidence_of, part_at, past_of, status_of
from console.security.topic_scope import EVERYTHING, TopicScope, authorised
from console.site.mirrored import Here
from console.site.parsing import whole_number
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.live import LiveKind

#: a snapshot is bounded: groups furthest behind first, and as many lines of a group and a topic
MOST_GROUPS = 5_000
MOST_TOPICS = 20_000

_BY_TOPIC = """
    SELECT o."group", o.topic, count(*),
           CASE WHEN bool_and(q.max_offset IS NOT NULL) THEN sum(greatest(q.max_offset - o."offset", 0)) END,
           sum(o."offset"),
           CASE WHEN bool_and(q.max_offset IS NOT NULL) THEN sum(q.max_offset) END
      FROM broker_consumeroffset o
      LEFT JOIN broker_queue q ON q.broker_id = o.broker_id AND q.topic = o.topic AND q.queue_id = o.queue_id
     WHERE o.broker_id = ANY(%(brokers)s) AND o."group" = ANY(%(groups)s)
     GROUP BY o."group", o.topic
     ORDER BY o."group", o.topic
     LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """The progress of one group through one topic, in sums over its queues."""

    group: str
    topic: str
    queues: int
    #: None: the end of some queue was not known
    lag: int | None
    offset_sum: int
    end_sum: int | None


@dataclass(frozen=True, slots=True)
class GroupsKept:
    """Consumer groups, those furthest behind first; `left_out`: so many more were there."""

    rows: tuple[GroupRow, ...]
    topics: tuple[GroupTopic, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class PastGroups(Groups):
    """A page of the groups of a snapshot."""

    #: of the groups on this page
    topics: tuple[GroupTopic, ...] = ()
    #: groups that were too many for the snapshot
    left_out: int = 0


def kept_groups(here: Here, *, sums_only: bool) -> GroupsKept:
    """Return the groups of now; `sums_only`: not how fast they are."""
    found = group_rows.within(EVERYTHING, here, watched=unwatched if sums_only else None)
    rows = sorted(found, key=lambda row: (-(row.lag or 0), row.name))
    kept = rows[:MOST_GROUPS]
    names = [row.name for row in kept]
    with connection.cursor() as cursor:
        cursor.execute(_BY_TOPIC, {"brokers": here.names, "groups": names, "most": MOST_TOPICS})
        lines = tuple(
            GroupTopic(group, topic, queues, _whole(lag), int(offsets), _whole(ends))
            for group, topic, queues, lag, offsets, ends in cursor.fetchall()
        )
    return GroupsKept(tuple(kept), lines, left_out=len(rows) - len(kept))


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


@authorised
def groups_at(
    scope: TopicScope, asked_ms: int, search: str = "", offset: int = 0, count: int = 100
) -> tuple[Moment, PastGroups | None]:
    """Return consumer groups that are seen now, and that read nothing then that is not seen."""
    moment, kept = part_at(asked_ms, "groups", GroupsKept)
    if kept is None or moment.at_ms is None:
        return moment, None
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
        topics=lines,
        left_out=kept.left_out,
    )


def seen_of(kept: GroupsKept, scope: TopicScope) -> GroupsKept:
    """Return what may be shown: no group that then read what is not seen now, whatever it reads today."""
    if scope.see_all:
        return kept
    hidden = {line.group for line in kept.topics if not scope.topic(line.topic)}
    rows = tuple(row for row in kept.rows if scope.group(row.name) and row.name not in hidden)
    names = {row.name for row in rows}
    return GroupsKept(rows, tuple(line for line in kept.topics if line.group in names), 0)


@require_safe
def groups(request: HttpRequest) -> Answer:
    """Show the list of groups, those that are behind first."""
    offset = whole_number(request.GET.get("offset")) or 0
    asked = asked_of(request)
    if asked.text:
        return _past_groups(request, asked, offset)

    def page(place: int | None) -> Groups:
        return read.groups(search=request.GET.get("search", "")[:255], offset=place or 0)

    data = page(offset)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "groups",
        "live": f"groups?{query}" if query else "groups",
        "form": new_group_form(),
        "number": uuid.uuid4(),
        "past": past_of(request, asked, None, "search"),
        **_neighbours(data),
    }
    return page_or_file(request, "groups/page.html", context, GROUPS, page, following=next_offset)


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
    context = {
        "data": data, "here": "groups", "live": f"group/{name}", "number": uuid.uuid4(),
        "setting_number": uuid.uuid4(), "form": group_form(name) if data.group else None,
    }  # fmt: skip
    return render(request, "groups/group.html", context)


LIVE = {
    "groups": LiveKind(
        lambda _, query: read.groups(search=query.get("search", ""), offset=whole_number(query.get("offset")) or 0),
        frozenset({"groups", "queues", "offsets", "histories"}),
        frozenset({"search", "offset"}),
    ),
    "group": LiveKind(
        lambda name, _: read.group(name), frozenset({"groups", "queues", "offsets"}), takes_argument=True
    ),
}
