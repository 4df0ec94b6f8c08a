"""The first page: what is wrong, what happens next, how much flows."""

from __future__ import annotations

from operator import attrgetter

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest
from django.views.decorators.http import require_safe

from console import queries
from console.ui.export import Answer, page_or_file


@require_safe
@login_required
def overview(request: HttpRequest) -> Answer:
    """Findings, figures, flow, processes, the next minute."""
    data = queries.overview()
    context = {"data": data, "here": "overview", "live": "overview"}
    return page_or_file(
        request, "overview/page.html", context, "brokers", lambda _place: data, rows=attrgetter("brokers")
    )
