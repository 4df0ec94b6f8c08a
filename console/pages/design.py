"""Every component of the console on one page, from the templates that the pages use; for those who build it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.design import drawings, lists
from console.operations.kind import TYPED_ABOVE
from console.pages.life import life_of
from console.queries.clock import now_ms
from console.queries.shapes.groups import GroupState
from console.queries.shapes.transactions import TransactionState

MARKS = ("ok", "look", "broken", "wait", "idle")


@login_required
@require_safe
def design(request: HttpRequest) -> HttpResponse:
    """Samples only; what moves counts from now."""
    if not request.user.is_staff:
        raise PermissionDenied("staff")
    now = now_ms()
    message = drawings.message(now)
    context = {
        "here": "design",
        "now_ms": now,
        "marks": MARKS,
        "heat": range(6),
        "group_states": list(GroupState),
        "transaction_states": [{"state": state} for state in TransactionState],
        "long_name": lists.LONG_NAME,
        "wide_name": lists.WIDE_NAME,
        "overview": lists.overview(now),
        "lanes": {"lanes": lists.lanes(now), "now_ms": now},
        "topics": lists.topics(now),
        "groups": lists.no_groups(now),
        "clients": lists.unknown_clients(now),
        "stale": lists.stale(now),
        "never": lists.never(),
        "looked": {"looked": 20_000},
        "timers": drawings.timers(now),
        "board": drawings.board(now),
        "message": message,
        "life": life_of(message),
        "shown_told": 3,
        "operation": drawings.operation(now),
        "typed_above": TYPED_ABOVE,
        "given": {"reason": "", "typed": ""},
        "may": True,
        "name_length": 60,
        "may_share": True,
    }
    return render(request, "design/page.html", context)
