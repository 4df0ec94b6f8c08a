"""From a form of the console to an operation that is previewed: the same way for every kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from broker.client import ClientError
from broker.redisson import RedissonError
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, OperationError, OutOfReach
from console.operations.kind import Form
from console.operations.models import Operation
from console.operations.reading import number_of
from console.operations.registry import KINDS
from console.ui.refusals import words

_REFUSALS = (OperationError, ClientError, RedissonError)

#: from what was sent and what is wrong (by field) to the form; None: it has nothing that was typed
Again = Callable[[QueryDict, Mapping[str, str]], Form | None]


def draft_of_form(request: HttpRequest) -> HttpResponse:
    """Preview what a form asks for whose field `kind` names the kind; 404 for one that there is not."""
    kind = KINDS.get(request.POST.get("kind", ""))
    if kind is None:
        raise Http404(_("There is no such operation."))
    number = number_of(request.POST.get("operation", ""))
    return draft(request, kind.name, lambda: kind.from_form(request.POST), number, kind.form_again)


def undo_of_form(request: HttpRequest, text: str) -> HttpResponse:
    """Preview what takes an operation back; 404 for one that there is not, or that nothing takes back."""
    found = number_of(text)
    row = Operation.objects.filter(pk=found).first() if found else None
    kind = KINDS.get(row.kind) if row is not None else None
    if row is None or kind is None or not kind.undone_by:
        raise Http404(_("There is no such operation."))
    number = number_of(request.POST.get("operation", ""))
    return draft(request, kind.undone_by, lambda: kind.undo_parameters(row, request.POST), number)


def draft(
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


def see_operation(number: uuid.UUID) -> HttpResponse:
    """Answer 303 (see other) with the operation's page, so that a reload sends nothing twice."""
    answer = redirect("operation", str(number))
    answer.status_code = 303
    return answer
