"""Consumer groups with their lag, and one group."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console import queries
from console.live import number


@require_safe
@login_required
def groups(request: HttpRequest) -> HttpResponse:
    """The list, those that are behind first."""
    offset = number(request.GET.get("offset")) or 0
    data = queries.groups(search=request.GET.get("search", "")[:255], offset=offset)
    query = request.GET.urlencode()
    context = {
        "data": data,
        "here": "groups",
        "live": f"groups?{query}" if query else "groups",
        "previous": max(0, offset - data.count) if offset else None,
        "following": offset + data.count if offset + data.count < data.total else None,
    }
    return render(request, "groups/page.html", context)


@require_safe
@login_required
def group(request: HttpRequest, name: str) -> HttpResponse:
    """One group: its queues, members and subscriptions."""
    data = queries.group(name)
    if data.group is None and not data.evidence.stale:
        raise Http404(_("There is no such consumer group."))
    return render(request, "groups/group.html", {"data": data, "here": "groups", "live": f"group/{name}"})
