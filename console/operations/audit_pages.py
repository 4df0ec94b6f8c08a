"""The audit: who did what, why, and what came of it; filtered, and as a file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.operations.models import AuditEntry, Operation
from console.operations.reading import is_seen, masked_result
from console.operations.registry import ACTS
from console.operations.typed_moments import bound_ms
from console.security.masking import masks
from console.security.topic_scope import TopicScope, current_scope
from console.site.parsing import whole_number
from console.ui.export import FORMS, exported

VIEW = "console.view_auditentry"
LISTED = 100
#: entries that are looked through for one page of somebody who does not see all, and for how long
LOOKED_THROUGH, PATIENCE_S = 20_000, 1.5
#: entries whose operations are read at once
CHUNK = 500
COLUMNS = ("at", "actor", "what", "kind", "operation", "reason", "result")
_LENGTHS = {"actor": 150, "what": 16, "kind": 64, "text": 200, "from": 64, "to": 64}


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """Show the entries, newest first; `before` is the number of the last entry of the page before."""
    given, errors, rows = _asked(request)
    before = whole_number(request.GET.get("before"))
    if before is not None:
        rows = rows.filter(pk__lt=before)
    listed = _page(rows, current_scope())
    shown = {name: text for name, text in given.items() if text}
    following = None if listed.before is None else {**shown, "before": str(listed.before)}
    context = {
        "here": "audit",
        "data": listed,
        "rows": listed.rows,
        "given": given,
        "errors": errors,
        "whats": AuditEntry.What.choices,
        "kinds": sorted(ACTS),
        "query": urlencode(shown),
        "following": "?" + urlencode(following) if following else None,
    }
    return render(request, "operations/all_audit.html", context, status=422 if errors else 200)


@require_safe
def data(request: HttpRequest, form: str) -> HttpResponse | StreamingHttpResponse:
    """Send all entries that match as a file."""
    _, errors, rows = _asked(request)
    if form not in FORMS:
        raise Http404
    if errors:
        return HttpResponse("\n".join(errors.values()), status=422, content_type="text/plain; charset=utf-8")
    return exported("audit", form, COLUMNS, _rows(rows, current_scope()))


@dataclass(frozen=True, slots=True)
class _Page:
    """Entries, and the number that the next page is before; `looked`: how many were looked through, if time ran out."""

    rows: list[AuditEntry]
    before: int | None = None
    looked: int = 0


def _page(entries: QuerySet[AuditEntry], seen: TopicScope) -> _Page:
    """Return the first page of those that are seen."""
    if seen.see_all:
        first = list(entries[: LISTED + 1])
        return _Page(first[:LISTED], first[LISTED - 1].pk if len(first) > LISTED else None)
    until_s = time.monotonic() + PATIENCE_S
    found: list[AuditEntry] = []
    last = 0
    for looked, (entry, is_named) in enumerate(_judged(entries, seen)):
        if looked >= LOOKED_THROUGH or time.monotonic() > until_s:
            return _Page(found, last, looked)
        if is_named and len(found) == LISTED:
            return _Page(found, found[-1].pk)
        if is_named:
            found.append(entry)
        last = entry.pk
    return _Page(found)


def _judged(entries: QuerySet[AuditEntry], seen: TopicScope) -> Iterator[tuple[AuditEntry, bool]]:
    """Yield each, and whether it is seen: it names what was touched, so it is seen if its operation is."""
    if seen.see_all:
        yield from ((entry, True) for entry in entries.iterator(2_000))
        return
    named = entries.exclude(operation=None).iterator(CHUNK)
    while part := list(islice(named, CHUNK)):
        rows = Operation.objects.filter(pk__in={entry.operation for entry in part}).exclude(state=Operation.State.DRAFT)
        mine = {row.pk for row in rows if is_seen(row, seen)}
        yield from ((entry, entry.operation in mine) for entry in part)


def _rows(entries: QuerySet[AuditEntry], seen: TopicScope) -> Iterator[Mapping[str, object]]:
    rules = masks()
    for entry in (entry for entry, is_named in _judged(entries, seen) if is_named):
        yield {
            "at": entry.at.isoformat(),
            "actor": entry.actor,
            "what": entry.what,
            "kind": entry.kind,
            "operation": str(entry.operation or ""),
            "reason": entry.reason,
            "result": masked_result(entry.kind, entry.result, rules),
        }


def _asked(request: HttpRequest) -> tuple[dict[str, str], dict[str, str], QuerySet[AuditEntry]]:
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[:most] for name, most in _LENGTHS.items()}
    errors: dict[str, str] = {}
    rows = AuditEntry.objects.order_by("-pk")
    for name, lookup in (("actor", "actor"), ("what", "what"), ("kind", "kind"), ("text", "reason__icontains")):
        if given[name]:
            rows = rows.filter(**{lookup: given[name]})
    for name, lookup in (("from", "at__gte"), ("to", "at__lt")):
        at_ms = bound_ms(given[name], name, errors, "back")
        if at_ms is not None:
            rows = rows.filter(**{lookup: datetime.fromtimestamp(at_ms / 1000, UTC)})
    return given, errors, rows
