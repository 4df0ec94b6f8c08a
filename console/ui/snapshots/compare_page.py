"""Two moments side by side."""

from __future__ import annotations

from django.http import HttpRequest
from django.views.decorators.http import require_safe

from console.site.clock import now_ms
from console.ui.export import Answer, page_or_file
from console.ui.snapshots.as_of import Asked, asked_of, status_of
from console.ui.snapshots.compare import compared
from console.ui.snapshots.page_shapes import Comparison
from console.ui.table import Table, file_columns

#: lines of one table on the page; the file has all
SHOWN = 200
_HOUR_MS = 3_600_000
COMPARE = Table("compare", file_columns("part name topic figure before after difference"))


@require_safe
def compare(request: HttpRequest) -> Answer:
    """Lanes, timers, groups and transactions at two moments; without moments an hour ago and now."""
    before, after = asked_of(request, "from"), asked_of(request, "to")
    if not (before.text or after.text):
        before = Asked("-1h", now_ms() - _HOUR_MS)
    is_wrong = bool(before.error or after.error)
    data = None if is_wrong else compared(before.at_ms, after.at_ms)
    context = {"data": data, "here": "compare", "before": before, "after": after, "shown": SHOWN}

    def read(_: None) -> Comparison:
        return data or compared(before.at_ms, after.at_ms)

    return page_or_file(request, "snapshots/compare.html", context, COMPARE, read, status=status_of(before, after))
