"""The search for messages, with what waits under the same key: timers that are pending, and undecided halves.

What waits on a lane is found as messages are; timers and halves stand on topics of the broker's own, where nobody
looks for a message by its key.
"""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.features.messages import pages as messages_pages
from console.features.messages.shapes import WaitingFor, WaitingRow, WaitingUnder
from console.site.broker import address_at, if_several
from console.ui.export import Answer
from console.under_key import halves_under, timers_under


@require_safe
def search(request: HttpRequest) -> Answer:
    """Search for messages, and for what waits to become one."""
    return messages_pages.search(request, waiting_under)


def waiting_under(key: str, topic: str) -> WaitingUnder:
    """Return what waits with this key or message id, of one topic or ("") of all that are seen."""
    found, is_cut = timers_under(key, topic)
    timers = tuple(
        WaitingRow(
            WaitingFor.TIMER, row.name, row.topic, row.due_ms,
            address_at(if_several(row.broker), "timer", row.position), row.broker,
        )
        for row in found
    )  # fmt: skip
    halves = tuple(
        WaitingRow(
            WaitingFor.DECISION, row.name, row.topic, None,
            address_at(if_several(row.broker), "transaction", row.position), row.broker,
        )
        for row in halves_under(key, topic)
    )  # fmt: skip
    more = {"key": key, **({"topic": topic} if topic else {})}
    return WaitingUnder((*timers, *halves), f"{reverse('timer_list')}?{urlencode(more)}" if is_cut else "")
