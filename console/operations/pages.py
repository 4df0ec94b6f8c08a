"""Operations: what was previewed, confirmed and run, one page each; every step is a form with the operation's id."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import ClientError
from console.features.timers.undo_operations import TAKEN_BACK, TakeBack
from console.operations import second_person, workflow
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, NotPossible, OperationError, PreviewStale
from console.operations.forms import draft as drafted
from console.operations.forms import draft_of_form, operation_of, see_operation
from console.operations.kind import TYPED_ABOVE
from console.operations.models import Operation
from console.operations.reading import number_of, operation_list, operation_page
from console.operations.typed_moments import is_shift, moment_ms, shift_ms
from console.operations.workflow import REASON_LENGTH
from console.ui.export import Answer, page_or_file
from console.ui.form_addresses import form_of
from console.ui.live import number
from console.ui.refusals import words
from console.ui.table import Table, file_columns

OPERATIONS = Table(
    "operations",
    file_columns("id created_at finished_at kind state done total results actor reason error"),
)


@require_safe
@login_required
def operations(request: HttpRequest) -> Answer:
    """All that were confirmed, the newest first."""
    offset = number(request.GET.get("offset")) or 0
    second_person.forget_old()
    data = operation_list(offset)
    context = {
        "rows": data.rows,
        "data": data,
        "here": "operations",
        "previous": data.previous,
        "following": data.following,
    }
    return page_or_file(
        request, "operations/list.html", context, OPERATIONS, lambda place: operation_list(place or 0),
        following=attrgetter("following"),
    )  # fmt: skip


@require_safe
@login_required
def operation(request: HttpRequest, operation_id: str) -> HttpResponse:
    """One operation: preview and form, or progress and results."""
    return _page(request, operation_id)


@login_required
@form_of("timer_list")
def draft(request: HttpRequest) -> HttpResponse:
    """Preview of an operation on timers; nothing is done yet."""
    return draft_of_form(request, "timers", _parameters)


@login_required
@form_of("operation", "operation_id")
def look_again(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Count again, or for another moment."""

    def change(found: uuid.UUID, actor: Actor) -> Operation:
        row = Operation.objects.filter(pk=found).first()
        if row is None:
            raise Http404(_("There is no such operation."))
        text = request.POST.get("moment", "").strip()
        return workflow.look_again(row, actor, _moved(text) if text else None)

    return _step(request, operation_id, change)


@login_required
@form_of("operation", "operation_id")
def confirm(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Run it, once, however often this is sent."""
    reason, typed, pending = (request.POST.get(name, "") for name in ("reason", "typed", "pending"))

    def run(found: uuid.UUID, actor: Actor) -> Operation:
        if pending:
            workflow.choose(found, actor, {"pending": pending})
        return workflow.confirm(found, actor, reason=reason, typed=typed)

    return _step(request, operation_id, run)


@login_required
@form_of("operation", "operation_id")
def abort(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Stop after the batch that is under way."""
    return _step(request, operation_id, workflow.abort)


@login_required
@form_of("operation", "operation_id")
def go_on(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Touch what was left."""
    return _step(request, operation_id, workflow.go_on)


@login_required
@form_of("operation", "operation_id")
def approve(request: HttpRequest, operation_id: str) -> HttpResponse:
    """The second person's yes."""
    reason = request.POST.get("reason", "")
    return _step(request, operation_id, lambda found, actor: workflow.approve(found, actor, reason=reason))


@login_required
@form_of("operation", "operation_id")
def decline(request: HttpRequest, operation_id: str) -> HttpResponse:
    """The second person's no."""
    reason = request.POST.get("reason", "")
    return _step(request, operation_id, lambda found, actor: workflow.decline(found, actor, reason=reason))


@login_required
@form_of("operation", "operation_id")
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview taking back what it did to timers: all of it, or one item."""
    row = operation_of(operation_id, TAKEN_BACK)
    wanted: dict[str, Any] = {"operation": str(row.pk)}
    item = number(request.POST.get("item"))
    if item is not None:
        wanted["items"] = [item]
    return drafted(request, "timers", TakeBack.name, lambda: wanted, number_of(request.POST.get("operation", "")))


def _step(request: HttpRequest, text: str, step: Callable[[uuid.UUID, Actor], Operation]) -> HttpResponse:
    """303 to its page when it went well; else the page with what was wrong."""
    found = number_of(text)
    if found is None:
        raise Http404(_("There is no such operation."))
    actor = Actor.of(request.user)
    try:
        step(found, actor)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    except PreviewStale as error:
        workflow.look_again(Operation.objects.get(pk=found), actor)
        return _page(request, text, error, status=409)
    except (OperationError, ClientError) as error:
        return _page(request, text, error, status=409 if isinstance(error, NotPossible) else 422)
    return see_operation(found)


def _page(request: HttpRequest, text: str, error: Exception | None = None, status: int = 200) -> HttpResponse:
    second_person.forget_old()
    data = operation_page(text, request.GET.get("outcome", "")[:32], number(request.GET.get("after")) or 0)
    if data is None:
        raise Http404(_("There is no such operation."))
    context: dict[str, Any] = {
        "data": data,
        "here": "operations",
        "may": request.user.has_perm(data.permission),
        "typed_above": TYPED_ABOVE,
        "error": words(error) if error else "",
        "error_field": getattr(error, "field", None) or "",
        "number": uuid.uuid4(),
        "needs_second": second_person.is_needed(data.row.kind, data.row.preview),
        "is_own": data.row.created_by_id == request.user.pk or data.row.actor == request.user.get_username(),
        "given": _given(request, data.preview.count),
    }
    if data.row.is_under_way and not data.outcome:
        context["live"] = f"operation/{data.row.pk}"
    return render(request, "operations/operation.html", context, status=status)


def _given(request: HttpRequest, count: int | None) -> dict[str, str]:
    """What stands in the form: what was sent, or what a command of the palette said; a number only if it is theirs."""
    if request.method == "POST":
        return {name: request.POST.get(name, "") for name in ("reason", "typed", "moment", "pending")}
    typed = request.GET.get("typed", "")
    reason = request.GET.get("reason", "")[:REASON_LENGTH]
    return {"reason": reason, "typed": typed if typed == str(count) else "", "moment": ""}


def _parameters(given: QueryDict) -> dict[str, Any]:
    """Rows that were selected, or the filter that they were found by."""
    if given.get("scope") == "matching":
        bounds = {name: number(given.get(name)) for name in ("from_ms", "to_ms")}
        wanted = {"topic": given.get("topic", ""), "key": given.get("key", ""), **bounds}
        return {"filter": wanted, "is_all": given.get("is_all") == "1"}
    positions = [number(text) for text in given.getlist("position")]
    return {"targets": [{"position": position} for position in positions if position is not None]}


def _moved(text: str) -> dict[str, Any]:
    """A moment for all, or a span for each; the other one goes."""
    if is_shift(text):
        return {"shift_ms": shift_ms(text), "due_ms": None}
    return {"due_ms": moment_ms(text), "shift_ms": None}
