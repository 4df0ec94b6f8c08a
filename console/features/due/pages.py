"""The Due page: everything that falls due in the next minutes, hour or day, and whether the brokers cope with it."""

from __future__ import annotations

from django.http import HttpRequest
from django.views.decorators.http import require_safe

from console.features.due.read import read_due
from console.features.due.shapes import DUE, WINDOWS
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind


@require_safe
def due(request: HttpRequest) -> Answer:
    """Show what falls due, stacked by kind, with the answer to "will we cope" first."""
    data = read_due(request.GET.get("window", ""))
    live = f"due?window={data.window.name}"
    context = {"data": data, "here": "due", "live": live, "windows": WINDOWS}
    return page_or_file(request, "due/page.html", context, DUE, lambda _place: data)


LIVE = {
    "due": LiveKind(
        lambda _, query: read_due(query.get("window", "")),
        frozenset({"levels", "transactions", "histories"}),
        frozenset({"window"}),
    )
}
