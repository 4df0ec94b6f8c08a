"""From the form of a page to an operation that is previewed: the same way for every family of pages."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from broker.client import ClientError
from broker.redisson import RedissonError
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import NotAllowed, OperationError, OutOfReach
from console.operations.models import Operation
from console.operations.reading import number_of
from console.operations.registry import KINDS
from console.ui.refusals import words

#: the page from which each family's operations are begun
LISTS = {
    "timers": "timer_list",
    "transactions": "transaction_list",
    "groups": "groups",
    "settings": "topics",
    "dead_letters": "dead_letters",
    "messages": "messages",
    "delayed_queues": "delayed_queues",
    "alerts": "alerts",
}
_REFUSALS = (OperationError, ClientError, RedissonError)


@dataclass(frozen=True, slots=True)
class Form:
    """A form as it was sent, to be drawn again; `context` is what its template needs besides `given` and `faults`."""

    template: str
    context: Mapping[str, Any]


#: from what was sent and what is wrong (by field) to the form; None: it has nothing that was typed
Again = Callable[[QueryDict, Mapping[str, str]], Form | None]


def draft_of_form(
    request: HttpRequest,
    family: str,
    parameters_of: Callable[[QueryDict], dict[str, Any]],
    again: Again | None = None,
) -> HttpResponse:
    """Preview what a form of this family asks for; 404 for a kind that it does not have."""
    kind = request.POST.get("kind", "")
    if kind not in KINDS or KINDS[kind].page != family:
        raise Http404(_("There is no such operation."))
    number = number_of(request.POST.get("operation", ""))
    return draft(request, family, kind, lambda: parameters_of(request.POST), number, again)


def draft(
    request: HttpRequest,
    family: str,
    kind: str,
    parameters: Callable[[], dict[str, Any]],
    number: uuid.UUID | None = None,
    again: Again | None = None,
) -> HttpResponse:
    """Preview, and see the operation's page; if there is nothing to preview, a page that says what was wrong and has
    the form as it was sent."""
    try:
        row = workflow.draft(kind, parameters(), Actor.of(request.user), number=number)
    except OutOfReach as error:
        context = {"here": family, "error": words(error), "list_page": reverse(LISTS[family])}
        return render(request, "operations/refused.html", context, status=403)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    except _REFUSALS as error:
        faults = {getattr(error, "field", None) or "": words(error)}
        form = again(request.POST, faults) if again else None
        shown: dict[str, Any] = {
            "here": family, "error": words(error), "list_page": reverse(LISTS[family]), "given": request.POST,
            "faults": faults, "number": number or uuid.uuid4(), "again": form.template if form else "",
            **(form.context if form else {}),
        }  # fmt: skip
        return render(request, "operations/refused.html", shown, status=422)
    return see_operation(row.pk)


def operation_of(text: str, kinds: Collection[str]) -> Operation:
    """The operation that is to be undone, by its id in an address; 404 for one that is not of these kinds."""
    number = number_of(text)
    row = Operation.objects.filter(pk=number, kind__in=kinds).first() if number else None
    if row is None:
        raise Http404(_("There is no such operation."))
    return row


def see_operation(number: uuid.UUID) -> HttpResponse:
    """See other: a reload of the page sends nothing twice."""
    answer = redirect("operation", str(number))
    answer.status_code = 303
    return answer
