"""Who is connected, and one client with what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.clients import read
from console.features.clients.read import CLIENTS, ClientRole, Clients
from console.site.evidence import StaleReason
from console.site.parsing import whole_number
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind


@require_safe
def clients(request: HttpRequest) -> Answer:
    """The list, by group."""
    search, role = (request.GET.get(name, "")[:255] for name in ("search", "role"))
    role = role if role in ClientRole.values else ""
    offset = whole_number(request.GET.get("offset")) or 0

    def page(place: int | None) -> Clients:
        return read.clients(search=search, role=role, offset=place or 0)

    data = page(offset)
    query = urlencode({"search": search, "role": role, "offset": offset})
    context = {"data": data, "here": "clients", "live": f"clients?{query}", "roles": ClientRole}
    return page_or_file(request, "clients/page.html", context, CLIENTS, page, following=attrgetter("following"))


@require_safe
def client(request: HttpRequest) -> HttpResponse:
    """One client, by `id`; `group` says for which of its groups it is asked, `stack=1` that its threads are, too."""
    client_id = request.GET.get("id", "")[:255]
    data = read.client(client_id)
    if data.evidence.stale_reason is StaleReason.NOT_THERE:
        raise Http404(_("There is no such client; it may have left."))
    asked = next((row for row in data.consuming if row.group == request.GET.get("group")), None)
    asked = asked or next(iter(data.consuming), None)
    running = read.running(asked.group, client_id, with_stack="stack" in request.GET) if asked else None
    context = {
        "data": data, "running": running, "here": "clients", "live": "client?" + urlencode({"id": client_id}),
        "with_stack": "stack" in request.GET,
    }  # fmt: skip
    return render(request, "clients/client.html", context)


def _clients_live(_: str, query: Mapping[str, str]) -> Clients:
    return read.clients(
        search=query.get("search", ""), role=query.get("role", ""), offset=whole_number(query.get("offset")) or 0
    )


LIVE = {
    "clients": LiveKind(_clients_live, frozenset({"groups"}), frozenset({"search", "role", "offset"})),
    "client": LiveKind(lambda _, query: read.client(query.get("id", "")), frozenset({"groups"}), frozenset({"id"})),
}
