"""The page of one transaction: what became of its half, and what the half holds, as the page of a message shows it."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.messages import read as messages_read
from console.features.messages.decoders import Decoder
from console.features.messages.pages import body_answer, decoders_of, shown_unmasked
from console.features.transactions.pages import FAMILY, read_transaction_life
from console.operations.workflow import REASON_LENGTH
from console.security.masking import UNMASK
from console.ui.addresses import form_of


@require_safe
def transaction(request: HttpRequest, position: int) -> HttpResponse:
    """Show one transaction by the position of its half."""
    return _page(request, position)


@form_of("transaction", "position")
def unmask(request: HttpRequest, position: int) -> HttpResponse:
    """Show once, to a user who may see it and gives a reason, what a rule masks of the half."""
    half = messages_read.half(position) if position < 2**63 else None
    if half is None:
        raise Http404(_("There is no such transaction."))
    return shown_unmasked(
        request,
        (half.message_id, half.topic or ""),
        lambda reason, error: _page(request, position, reason, error, 422 if error else 200),
        lambda: body_answer(half.message_id),
    )


def _page(
    request: HttpRequest, position: int, unmasked_for: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    if position >= 2**63:
        raise Http404(_("There is no such transaction."))
    data = read_transaction_life(position)
    if data.row is None and not data.evidence.stale:
        raise Http404(_("There is no such transaction."))
    asked = request.GET.get("decode", "")
    half = messages_read.half(position, asked if asked in Decoder.values else Decoder.AUTOMATIC) if data.row else None
    context = {
        "data": data, "here": FAMILY, "number": uuid.uuid4(), "half": half, "error": error,
        "decoders": decoders_of(half) if half else (), "topic_of_id": "",
        "body_url": reverse("message_body", args=[half.message_id]) if half else "",
        "unmask_url": reverse("transaction_unmask", args=[position]),
        "may_unmask": request.user.has_perm(UNMASK), "unmasked_for": unmasked_for, "reason_length": REASON_LENGTH,
    }  # fmt: skip
    return render(request, "transactions/transaction.html", context, status=status)
