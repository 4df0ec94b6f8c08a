"""The audit: who did what, why, and what came of it; filtered, and as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.access.masking import masks
from console.access.topics import eyes
from console.live import number
from console.operations.masked import masked_result
from console.operations.moments import bound_ms
from console.operations.reading import seen_operations
from console.operations.registry import KINDS
from console.operations.rows import AuditEntry
from console.pages.exporting import FORMS, exported

VIEW = "console.view_auditentry"
LISTED = 100
COLUMNS = ("at", "actor", "what", "kind", "operation", "reason", "result")
_LENGTHS = {"actor": 150, "what": 16, "kind": 64, "text": 200, "from": 64, "to": 64}


@require_safe
@login_required
@permission_required(VIEW, raise_exception=True)
def audit(request: HttpRequest) -> HttpResponse:
    """The newest first; `before` is the number of the last entry of the page before."""
    given, errors, rows = _asked(request)
    before = number(request.GET.get("before"))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    listed = list(rows[: LISTED + 1])
    shown = {name: text for name, text in given.items() if text}
    following = {**shown, "before": str(listed[LISTED - 1].pk)} if len(listed) > LISTED else None
    context = {
        "here": "audit",
        "rows": listed[:LISTED],
        "given": given,
        "errors": errors,
        "whats": AuditEntry.What.choices,
        "kinds": sorted(KINDS),
        "query": urlencode(shown),
        "following": "?" + urlencode(following) if following else None,
    }
    return render(request, "operations/all_audit.html", context, status=422 if errors else 200)


@require_safe
@login_required
@permission_required(VIEW, raise_exception=True)
def data(request: HttpRequest, form: str) -> HttpResponse | StreamingHttpResponse:
    """All entries that match."""
    _, errors, rows = _asked(request)
    if form not in FORMS:
        raise Http404
    if errors:
        return HttpResponse("\n".join(errors.values()), status=422, content_type="text/plain; charset=utf-8")
    return exported("audit", form, COLUMNS, _rows(rows))


def _rows(entries: QuerySet[AuditEntry]) -> Iterator[Mapping[str, object]]:
    rules = masks()
    for entry in entries.iterator(2_000):
        yield {
            "at": entry.at.isoformat(), "actor": entry.actor, "what": entry.what, "kind": entry.kind,
            "operation": str(entry.operation or ""), "reason": entry.reason,
            "result": masked_result(entry.kind, entry.result, rules),
        }  # fmt: skip


def _asked(request: HttpRequest) -> tuple[dict[str, str], dict[str, str], QuerySet[AuditEntry]]:
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[:most] for name, most in _LENGTHS.items()}
    errors: dict[str, str] = {}
    rows = AuditEntry.objects.order_by("-pk")
    if not eyes().see_all:
        # parameters and outcomes name what was touched: what was about no operation that is seen is left out
        rows = rows.filter(operation__in=[row.pk for row in seen_operations()])
    for name, lookup in (("actor", "actor"), ("what", "what"), ("kind", "kind"), ("text", "reason__icontains")):
        if given[name]:
            rows = rows.filter(**{lookup: given[name]})
    for name, lookup in (("from", "at__gte"), ("to", "at__lt")):
        at_ms = bound_ms(given[name], name, errors)
        if at_ms is not None:
            rows = rows.filter(**{lookup: datetime.fromtimestamp(at_ms / 1000, UTC)})
    return given, errors, rows
