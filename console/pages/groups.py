"""Consumer groups with their lag, one group, and moving it to other offsets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from broker.client import ClientError
from console import queries
from console.live import number
from console.operations import desk
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, OperationError
from console.operations.moments import is_shift, moment_ms, shift_ms
from console.operations.reading import number_of
from console.operations.resetting import ResetOffsets, undo_parameters
from console.operations.rows import Operation
from console.pages.operations import words
from console.queries.clock import now_ms


@require_safe
@login_required
def groups(request: HttpRequest) -> HttpResponse:
    """The list, those that are behind first."""
    offset = number(request.GET.get("offset")) or 0
    data = queries.groups(search=request.GET.get("search", "")[:255], offset=offset)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "groups",
        "live": f"groups?{query}" if query else "groups",
        "previous": max(0, offset - data.count) if offset else None,
        "following": offset + data.count if offset + data.count < data.total else None,
    }
    return render(request, "groups/page.html", context)


@require_safe
@login_required
def group(request: HttpRequest, name: str) -> HttpResponse:
    """One group: its queues, members and subscriptions."""
    data = queries.group(name)
    if data.group is None and not data.evidence.stale:
        raise Http404(_("There is no such consumer group."))
    return render(
        request, "groups/group.html", {"data": data, "here": "groups", "live": f"group/{name}", "number": uuid.uuid4()}
    )


@login_required
@require_POST
def move(request: HttpRequest, name: str) -> HttpResponse:
    """Preview where the group would go on in one topic; nothing is done yet."""
    return _draft(request, lambda: _parameters(name, request.POST), number_of(request.POST.get("operation", "")))


@login_required
@require_POST
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview going back to where the group was before an operation."""
    found = number_of(operation_id)
    row = Operation.objects.filter(pk=found, kind=ResetOffsets.name).first() if found else None
    if row is None:
        raise Http404(_("There is no such operation."))
    labels = list(row.items.exclude(outcome="").values_list("label", flat=True))
    return _draft(request, lambda: undo_parameters(row.parameters, labels))


def _parameters(group: str, given: Mapping[str, str]) -> dict[str, Any]:
    """From the form; raises InvalidParameter for a moment that is none."""
    parameters: dict[str, Any] = {"group": group, "topic": given.get("topic", ""), "to": given.get("to", "")}
    if parameters["to"] == "time":
        text = given.get("moment", "").strip()
        parameters["at_ms"] = now_ms() + shift_ms(text) if is_shift(text) else moment_ms(text)
    return parameters


def _draft(
    request: HttpRequest, parameters: Callable[[], dict[str, Any]], operation: uuid.UUID | None = None
) -> HttpResponse:
    try:
        row = desk.draft(ResetOffsets.name, parameters(), Actor.of(request.user), number=operation)
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from None
    except (OperationError, ClientError) as error:
        context = {"here": "groups", "error": words(error), "family": "groups"}
        return render(request, "operations/refused.html", context, status=422)
    answer = redirect("operation", str(row.pk))
    answer.status_code = 303
    return answer
