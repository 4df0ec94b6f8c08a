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
from console.site.mirrored import cluster
from console.ui.export import Answer
from console.under_key import Thing, halves_under, thing_of_half, thing_of_timer, timers_under


@require_safe
def search(request: HttpRequest) -> Answer:
    """Search for messages, and for what waits to become one."""
    return messages_pages.search(request, waiting_under)


def waiting_under(key: str, topic: str) -> WaitingUnder:
    """Return what waits with this key or message id, of one topic or ("") of all that are seen."""
    of = cluster()
    found, is_cut = timers_under(key, topic)
    timers = [_waiting(WaitingFor.TIMER, thing_of_timer(row, of)) for row in found]
    halves = [_waiting(WaitingFor.DECISION, thing_of_half(row, of)) for row in halves_under(key, topic)]
    more = {"key": key, **({"topic": topic} if topic else {})}
    return WaitingUnder((*timers, *halves), f"{reverse('timer_list')}?{urlencode(more)}" if is_cut else "")


def _waiting(kind: WaitingFor, thing: Thing) -> WaitingRow:
    return WaitingRow(kind, thing.name, thing.topic, thing.due_ms, thing.address, thing.broker)
