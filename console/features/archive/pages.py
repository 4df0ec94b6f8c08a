"""Searching the archive: what a broker has deleted with age, by key or message id."""

from __future__ import annotations

import threading
from typing import Any

from django.http import HttpRequest
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.mirror.clock_file import broker_now_ms
from console.features.archive import asking
from console.features.archive.asking import ArchiveUnavailable
from console.features.archive.shapes import RECORDS, Archived, ArchivePage, Extent
from console.operations.typed_moments import bound_ms
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.chosen import chosen
from console.ui.export import Answer, page_or_file

#: Records of one search.
LIMIT = 500
#: A search starts a process that takes some hundred MB: others wait their turn, by trying again.
_searching = threading.BoundedSemaphore(1)
_LENGTHS = {"q": 300, "topic": 255, "from": 64, "to": 64}


@require_safe
def archive(request: HttpRequest) -> Answer:
    """Show what is archived, or the records that have what is sought as a key or an id."""
    errors: dict[str, str] = {}
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[:most] for name, most in _LENGTHS.items()}
    from_ms, to_ms = (bound_ms(given[name], name, errors, "back") for name in ("from", "to"))
    why = asking.missing() or ("" if asking.is_kept() else _not_kept())
    if why or errors:
        data = ArchivePage(broker_now_ms(), error=why)
    elif given["q"]:
        sought = {"name": given["q"], "topic": given["topic"], "from_ms": from_ms, "to_ms": to_ms}
        data = found({**sought, "broker": chosen().name, "count": LIMIT})
    else:
        data = contents()
    context = {"data": data, "given": given, "errors": errors, "here": "messages", "limit": LIMIT}
    status = 422 if errors else 200
    if not given["q"] or data.error or errors:
        return render(request, "archive/page.html", context, status=status)
    return page_or_file(request, "archive/page.html", context, RECORDS, lambda _place: data)


def _not_kept() -> str:
    return _("Nothing is archived here: ESCAPEMENT_ARCHIVE_DAYS says for how many days segments are kept.")


@authorised
def found(scope: TopicScope, sought: dict[str, Any]) -> ArchivePage:
    """Return the records of topics that are seen."""
    now_ms = broker_now_ms()
    if not _searching.acquire(blocking=False):
        return ArchivePage(now_ms, error=_("Somebody else searches the archive. Try again in some seconds."))
    try:
        # topics of groups are looked at here: nobody else knows whose they are
        seen = {} if scope.see_all else {"prefixes": scope.visible.prefixes, "names": sorted(scope.visible.names)}
        answer = asking.found({**sought, **seen})
    except ArchiveUnavailable as error:
        return ArchivePage(now_ms, error=str(error))
    finally:
        _searching.release()
    rows = [row for row in map(Archived.of, answer["records"]) if scope.topic(row.topic)]
    return ArchivePage(
        now_ms,
        masks().rows(rows),
        is_cut=answer["is_cut"],
        unreadable=tuple(answer["unreadable"]),
        has_several=len({row.broker for row in rows}) > 1,
    )


def contents() -> ArchivePage:
    """Return what there is of each broker that is chosen."""
    now_ms = broker_now_ms()
    try:
        extents = tuple(map(Extent.of, asking.listed()))
    except ArchiveUnavailable as error:
        return ArchivePage(now_ms, error=str(error))
    own = tuple(extent for extent in extents if chosen().name in ("", extent.broker))
    return ArchivePage(now_ms, extents=own, unreadable=tuple(file for extent in own for file in extent.unreadable))
