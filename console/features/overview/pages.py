"""The first page: what is wrong, what happens next, how much flows."""

from __future__ import annotations

from operator import attrgetter

from django.http import HttpRequest
from django.views.decorators.http import require_safe

from console.features.overview import read
from console.ui.export import Answer, page_or_file
from console.ui.table import Table, file_columns

BROKERS = Table(
    "brokers",
    file_columns(
        "name cluster address version state reasons started_ms log_min_position log_end_position disk_used_ratio"
        " rss_bytes as_of_ms"
    ),
)


@require_safe
def overview(request: HttpRequest) -> Answer:
    """Findings, figures, flow, processes, the next minute."""
    data = read.overview()
    context = {"data": data, "here": "overview", "live": "overview"}
    return page_or_file(
        request, "overview/page.html", context, BROKERS, lambda _place: data, rows=attrgetter("brokers")
    )
