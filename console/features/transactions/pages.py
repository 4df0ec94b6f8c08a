"""Transactions: both queues side by side, what is undecided, parked and decided, and the life of one."""

from __future__ import annotations

import uuid
from operator import attrgetter
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.transactions import read
from console.features.transactions.shapes import TRANSACTIONS, TransactionFilter, TransactionList
from console.operations.typed_moments import bound_ms
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind

FAMILY = "transactions"
STATES = ("open", "parked", "decided")
_LENGTHS = {"state": 16, "group": 255, "topic": 255, "before": 64}


@require_safe
def transactions(request: HttpRequest) -> HttpResponse:
    """The board, and the first of each list."""
    context = {"data": read.transactions(), "here": FAMILY, "live": FAMILY, "number": uuid.uuid4()}
    return render(request, "transactions/page.html", context)


@require_safe
def transaction_list(request: HttpRequest) -> Answer:
    """Transactions of one state, page by page; rows, or all that match, can be acted on."""
    given = {name: request.GET.get(name, "").strip()[:length] for name, length in _LENGTHS.items()}
    if given["state"] not in STATES:
        given["state"] = STATES[0]
    errors: dict[str, str] = {}
    before_ms = bound_ms(given["before"], "before", errors)
    wanted = TransactionFilter(given["state"], given["group"], given["topic"], before_ms)

    def page(place: int | None) -> TransactionList:
        return read.transaction_list(wanted, place)

    data = page(whole_number(request.GET.get("after")))
    shown: dict[str, str] = {name: text for name, text in given.items() if text}
    context: dict[str, Any] = {
        "data": data,
        "here": FAMILY,
        "given": given,
        "errors": errors,
        "states": STATES,
        "number": uuid.uuid4(),
        "first_page": "?" + urlencode(shown),
        "next_page": None if data.following is None else "?" + urlencode({**shown, "after": str(data.following)}),
    }
    return page_or_file(
        request,
        "transactions/list.html",
        context,
        TRANSACTIONS[given["state"]],
        page,
        following=attrgetter("following"),
        status=422 if errors else 200,
    )


@require_safe
def transaction(request: HttpRequest, position: int) -> HttpResponse:
    """One transaction by the position of its half."""
    if position >= 2**63:
        raise Http404(_("There is no such transaction."))
    data = read.transaction_life(position)
    if data.row is None and not data.evidence.stale:
        raise Http404(_("There is no such transaction."))
    return render(request, "transactions/transaction.html", {"data": data, "here": FAMILY, "number": uuid.uuid4()})


LIVE = {
    "transactions": LiveKind(
        lambda _, __: read.transactions(), frozenset({"queues", "transactions"}), mark=read.transactions_mark
    ),
}
