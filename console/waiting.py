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
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter
from console.features.transactions.operations import halves_named
from console.site.broker import at
from console.site.mirrored import cluster
from console.ui.export import Answer

#: timers that are shown; their own list has all
SHOWN = 16


@require_safe
def search(request: HttpRequest) -> Answer:
    """Search for messages, and for what waits to become one."""
    return messages_pages.search(request, waiting_under)


def waiting_under(key: str, topic: str) -> WaitingUnder:
    """Return what waits with this key or message id, of one topic or ("") of all that are seen."""
    found = timers_read.timer_list(TimerFilter(topic=topic, key=key), count=SHOWN)
    timers = tuple(
        WaitingRow(
            WaitingFor.TIMER, row.name, row.topic, row.due_ms, address_at(row.broker, "timer", row.position), row.broker
        )
        for row in found.rows
    )
    halves = tuple(
        WaitingRow(
            WaitingFor.DECISION, row.name, row.topic, None, address_at(row.broker, "transaction", row.position),
            row.broker,
        )
        for row in halves_named(key)
        if row.is_undecided and row.position is not None and topic in ("", row.topic)
    )  # fmt: skip
    more = {"key": key, **({"topic": topic} if topic else {})}
    return WaitingUnder((*timers, *halves), f"{reverse('timer_list')}?{urlencode(more)}" if found.cursor else "")


def address_at(broker: str, page: str, *position: object) -> str:
    """Return the address of a page of one broker, about what stands at a position there."""
    with at(broker if cluster().has_several else ""):
        return reverse(page, args=position)
