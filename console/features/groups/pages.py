"""Consumer groups with their lag, one group, and moving it to other offsets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.groups import read
from console.features.groups.columns import GROUPS
from console.features.groups.operations import ResetOffsets, undo_parameters
from console.features.groups.shapes import Groups
from console.features.topics.setting_forms import group_form, new_group_form
from console.operations.forms import Form, draft, operation_of
from console.operations.reading import number_of
from console.operations.typed_moments import is_shift, moment_ms, shift_ms
from console.site.clock import now_ms
from console.ui.export import Answer, next_offset, page_or_file
from console.ui.form_addresses import form_of
from console.ui.live import LiveKind, number
from console.ui.snapshots.as_of import Asked, asked_of, past_of, status_of
from console.ui.snapshots.page_shapes import PastGroups
from console.ui.snapshots.read import groups_at


@require_safe
def groups(request: HttpRequest) -> Answer:
    """The list, those that are behind first."""
    offset = number(request.GET.get("offset")) or 0
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
    """The list as a snapshot has it."""
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
    """One group: its queues, members and subscriptions."""
    data = read.group(name)
    if data.group is None and not data.evidence.stale:
        raise Http404(_("There is no such consumer group."))
    context = {
        "data": data, "here": "groups", "live": f"group/{name}", "number": uuid.uuid4(),
        "setting_number": uuid.uuid4(), "form": group_form(name) if data.group else None,
    }  # fmt: skip
    return render(request, "groups/group.html", context)


@form_of("group", "name")
def move(request: HttpRequest, name: str) -> HttpResponse:
    """Preview where the group would go on in one topic; nothing is done yet."""
    operation = number_of(request.POST.get("operation", ""))

    def again(_given: QueryDict, _faults: Mapping[str, str]) -> Form:
        return Form("groups/move.html", {"data": read.group(name)})

    return draft(request, "groups", ResetOffsets.name, lambda: _parameters(name, request.POST), operation, again)


@form_of("operation", "operation_id")
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview going back to where the group was before an operation."""
    row = operation_of(operation_id, (ResetOffsets.name,))
    labels = list(row.items.exclude(outcome="").values_list("label", flat=True))
    return draft(request, "groups", ResetOffsets.name, lambda: undo_parameters(row.parameters, labels))


def _parameters(group: str, given: Mapping[str, str]) -> dict[str, Any]:
    """From the form; raises InvalidParameter for a moment that is none."""
    parameters: dict[str, Any] = {"group": group, "topic": given.get("topic", ""), "to": given.get("to", "")}
    if parameters["to"] == "time":
        text = given.get("moment", "").strip()
        parameters["at_ms"] = now_ms() + shift_ms(text) if is_shift(text) else moment_ms(text)
    return parameters


LIVE = {
    "groups": LiveKind(
        lambda _, query: read.groups(search=query.get("search", ""), offset=number(query.get("offset")) or 0),
        frozenset({"groups", "queues", "offsets", "histories"}),
        frozenset({"search", "offset"}),
    ),
    "group": LiveKind(
        lambda name, _: read.group(name), frozenset({"groups", "queues", "offsets"}), takes_argument=True
    ),
}
