"""Every component of the console on one page, from the templates that the pages use; for those who build it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.features.groups.read import GroupState
from console.features.messages.shapes import life_of
from console.features.transactions.shapes import TransactionState
from console.operations.kind import TYPED_ABOVE
from console.site.clock import now_ms
from console.ui import design_drawings, design_lists

MARKS = ("ok", "look", "broken", "wait", "idle")


@require_safe
def design(request: HttpRequest) -> HttpResponse:
    """Samples only; what moves counts from now."""
    now = now_ms()
    message = design_drawings.message(now)
    context = {
        "here": "design",
        "now_ms": now,
        "marks": MARKS,
        "heat": range(6),
        "group_states": list(GroupState),
        "transaction_states": [{"state": state} for state in TransactionState],
        "long_name": design_lists.LONG_NAME,
        "wide_name": design_lists.WIDE_NAME,
        "overview": design_lists.overview(now),
        "lanes": {"lanes": design_lists.lanes(now), "now_ms": now},
        "topics": design_lists.topics(now),
        "groups": design_lists.no_groups(now),
        "clients": design_lists.unknown_clients(now),
        "stale": design_lists.stale(now),
        "never": design_lists.never(),
        "looked": {"looked": 20_000},
        "timers": design_drawings.timers(now),
        "board": design_drawings.board(now),
        "message": message,
        "life": life_of(message),
        "shown_told": 3,
        "operation": design_drawings.operation(now),
        "typed_above": TYPED_ABOVE,
        "given": {"reason": "", "typed": ""},
        "may": True,
        "name_length": 60,
        "may_share": True,
    }
    return render(request, "design/page.html", context)
