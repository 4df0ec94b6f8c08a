"""Operations: what was previewed, confirmed and run, one page each; every step is a form with the operation's id.

From a form of the console to an operation that is previewed the way is the same for every kind.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import ClientError
from broker.redisson import RedissonError
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, NotPossible, OperationError, OutOfReach, PreviewStale, words
from console.operations.kind import TYPED_ABOVE, Form
from console.operations.models import Operation
from console.operations.move_times import move_of
from console.operations.reading import OperationPage, number_of, operation_list, operation_page
from console.operations.registry import KINDS
from console.operations.shown_once import shown_once
from console.operations.typed_moments import is_shift, moment_ms, shift_ms
from console.operations.workflow import REASON_LENGTH
from console.security import presence
from console.site.chosen import choice_of, choosing
from console.site.parsing import whole_number
from console.ui.addresses import form_of
from console.ui.export import Answer, page_or_file
from console.ui.table import Table, file_columns

OPERATIONS = Table(
    "operations",
    file_columns("id created_at finished_at kind broker state done total results actor reason error"),
)

_REFUSALS = (OperationError, ClientError, RedissonError)

#: what people type into the forms of an operation's page
_TYPED = ("reason", "typed", "moment")

#: from what was sent and what is wrong (by field) to the form; None: it has nothing that was typed
Again = Callable[[QueryDict, Mapping[str, str]], Form | None]


@require_safe
def operations(request: HttpRequest) -> Answer:
    """List operations that were confirmed, the newest first."""
    offset = whole_number(request.GET.get("offset")) or 0
    workflow.forget_unapproved()
    data = operation_list(offset)
    context = {
        "rows": data.rows,
        "data": data,
        "here": "operations",
        "previous": data.previous,
        "following": data.following,
    }
    return page_or_file(
        request,
        "operations/list.html",
        context,
        OPERATIONS,
        lambda place: operation_list(place or 0),
        following=attrgetter("following"),
    )


@require_safe
def operation(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Show one operation: preview and form, or progress and results."""
    return _page(request, operation_id)


@form_of("operations")
def draft(request: HttpRequest) -> HttpResponse:
    """Preview what a form asks for whose field `kind` names the kind; 404 for one that there is not."""
    kind = KINDS.get(request.POST.get("kind", ""))
    if kind is None:
        raise Http404(_("There is no such operation."))
    number = number_of(request.POST.get("operation", ""))
    return drafted(request, kind.name, lambda: kind.from_form(request.POST), number, kind.form_again)


@form_of("operation", "operation_id")
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview what takes an operation back: all of it, or the one item that the form names.

    404 for one that there is not, or that nothing takes back.
    """
    found = number_of(operation_id)
    row = Operation.objects.filter(pk=found).first() if found else None
    kind = KINDS.get(row.kind) if row is not None else None
    if row is None or kind is None or not kind.undone_by:
        raise Http404(_("There is no such operation."))
    number = number_of(request.POST.get("operation", ""))
    with choosing(choice_of(row.broker)):
        return drafted(request, kind.undone_by, lambda: kind.undo_parameters(row, request.POST), number)


@form_of("operation", "operation_id")
def look_again(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Count again, or for another moment."""

    def change(found: uuid.UUID, actor: Actor) -> Operation:
        row = Operation.objects.filter(pk=found).first()
        if row is None:
            raise Http404(_("There is no such operation."))
        text, offered = request.POST.get("moment", "").strip(), request.POST.get("offered", "")
        moved = move_of(offered) if offered else _moved(text) if text else None
        return workflow.look_again(row, actor, moved)

    return _step(request, operation_id, change)


@form_of("operation", "operation_id")
def confirm(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Run it, once, however often this is sent."""
    if (asked := _proof(request, operation_id)) is not None:
        return asked
    reason, typed = (request.POST.get(name, "") for name in ("reason", "typed"))

    def run(found: uuid.UUID, actor: Actor) -> Operation:
        workflow.choose(found, actor, request.POST)
        return workflow.confirm(found, actor, reason=reason, typed=typed)

    return _step(request, operation_id, run)


@form_of("operation", "operation_id")
def abort(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Stop after the batch that is under way."""
    return _step(request, operation_id, workflow.abort)


@form_of("operation", "operation_id")
def go_on(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Go on with what was left."""
    return _step(request, operation_id, workflow.go_on)


@form_of("operation", "operation_id")
def approve(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Approve it as the second person."""
    if (asked := _proof(request, operation_id)) is not None:
        return asked
    reason = request.POST.get("reason", "")
    return _step(request, operation_id, lambda found, actor: workflow.approve(found, actor, reason=reason))


@form_of("operation", "operation_id")
def decline(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Decline it as the second person."""
    reason = request.POST.get("reason", "")
    return _step(request, operation_id, lambda found, actor: workflow.decline(found, actor, reason=reason))


def drafted(
    request: HttpRequest,
    name: str,
    parameters: Callable[[], dict[str, Any]],
    number: uuid.UUID | None = None,
    again: Again | None = None,
) -> HttpResponse:
    """Preview an operation of the kind with this name, and go to its page.

    If there is nothing to preview, a page says what was wrong and has the form as it was sent.
    """
    kind, actor = KINDS[name], Actor.of(request.user)
    shown: dict[str, Any] = {"here": kind.page, "list_page": kind.list_address()}
    try:
        actor.require(kind.permission, name)
        row = workflow.draft(name, parameters(), actor, number=number)
    except OutOfReach as error:
        return render(request, "operations/refused.html", {**shown, "error": words(error)}, status=403)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    except _REFUSALS as error:
        faults = {getattr(error, "field", None) or "": words(error)}
        form = again(request.POST, faults) if again else None
        shown |= {"error": words(error), "given": request.POST, "faults": faults, "number": number or uuid.uuid4()}
        shown |= {"again": form.template, **form.context} if form else {"again": ""}
        return render(request, "operations/refused.html", shown, status=422)
    return see_operation(row.pk)


def _proof(request: HttpRequest, text: str) -> HttpResponse | None:
    """Return the way to the page that asks for the password, if what is about to be done destroys; else None."""
    if presence.is_proved(request):
        return None
    number = number_of(text)
    row = Operation.objects.filter(pk=number).first() if number else None
    kind = KINDS.get(row.kind) if row is not None else None
    if kind is None or not kind.destroys:
        return None
    typed = {name: request.POST[name] for name in (*_TYPED, *kind.choices) if request.POST.get(name)}
    return presence.ask(request, reverse("operation", args=[text]), typed)


def see_operation(number: uuid.UUID) -> HttpResponse:
    """Answer 303 (see other) with the operation's page, so that a reload sends nothing twice."""
    answer = redirect("operation", str(number))
    answer.status_code = 303
    return answer


def _step(request: HttpRequest, text: str, step: Callable[[uuid.UUID, Actor], Operation]) -> HttpResponse:
    """Do one step: 303 to the operation's page when it went well, else the page with what was wrong."""
    found = number_of(text)
    if found is None:
        raise Http404(_("There is no such operation."))
    actor = Actor.of(request.user)
    try:
        with shown_once() as secrets:
            step(found, actor)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    except PreviewStale as error:
        workflow.look_again(Operation.objects.get(pk=found), actor)
        return _page(request, text, error, status=409)
    except (OperationError, ClientError) as error:
        return _page(request, text, error, status=409 if isinstance(error, NotPossible) else 422)
    if secrets:
        # once: to load it again is to confirm what was confirmed, which shows nothing
        answer = _page(request, text, secrets=secrets)
        add_never_cache_headers(answer)
        return answer
    return see_operation(found)


def _page(
    request: HttpRequest,
    text: str,
    error: Exception | None = None,
    status: int = 200,
    secrets: Mapping[str, str] | None = None,
) -> HttpResponse:
    workflow.forget_unapproved()
    data = operation_page(text, request.GET.get("outcome", "")[:32], whole_number(request.GET.get("after")) or 0)
    if data is None:
        raise Http404(_("There is no such operation."))
    context: dict[str, Any] = {
        "data": data,
        "here": "operations",
        "may": request.user.has_perm(data.permission),
        "may_repeat": workflow.may_repeat(data.row),
        "typed_above": TYPED_ABOVE,
        "error": words(error) if error else "",
        "error_field": getattr(error, "field", None) or "",
        "number": uuid.uuid4(),
        "needs_second": workflow.needs_second_person(data.row.kind, data.row.preview),
        "is_own": data.row.created_by_id == request.user.pk or data.row.actor == request.user.get_username(),
        "given": _given(request, data),
        "secrets": secrets or {},
    }
    if data.is_moving and not data.outcome:
        after = whole_number(request.GET.get("after"))
        context["live"] = f"operation/{data.row.pk}" + (f"?after={after}" if after else "")
    # what it names is the broker's, and so is where one goes on from it
    with choosing(choice_of(data.row.broker)):
        return render(request, "operations/operation.html", context, status=status)


def _given(request: HttpRequest, data: OperationPage) -> dict[str, str]:
    """Return what stands in the form: what was sent, also before the password was asked for, or what a command of the
    palette said; a number only if it is the one that was counted."""
    sent = request.POST if request.method == "POST" else presence.take_typed(request)
    if sent or request.method == "POST":
        return {name: sent.get(name, "") for name in (*_TYPED, *data.kind.choices)}
    typed = request.GET.get("typed", "")
    reason = request.GET.get("reason", "")[:REASON_LENGTH]
    return {"reason": reason, "typed": typed if typed == str(data.preview.count) else "", "moment": ""}


def _moved(text: str) -> dict[str, Any]:
    """Return the parameters for a moment of all, or for a span of each; the other one is unset."""
    if is_shift(text):
        return {"shift_ms": shift_ms(text), "due_ms": None}
    return {"due_ms": moment_ms(text, unsigned="later"), "shift_ms": None}
