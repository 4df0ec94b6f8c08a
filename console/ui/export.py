"""A list as CSV or JSON, streamed: what a spreadsheet would run as a formula is text there.

Every list's page gives its rows as a file with `as=csv` or `as=json` in its address: the same filters, the same
permissions and masks, page by page as the page itself reads them, up to LIMIT rows. What is missing then, or because
the broker stopped answering, is said in the last row.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import chain
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import get_language, override
from django.utils.translation import gettext as _

from console.security.topic_scope import current_topics, scoped
from console.site.chosen import choosing, chosen
from console.site.evidence import StaleReason
from console.ui.table import Table

#: a page, or a file
Answer = HttpResponse | StreamingHttpResponse

FORMS = ("csv", "json")
#: rows of a list in one file, and rows that are looked through for one of somebody who sees some topics only
LIMIT, LOOKED = 10_000, 100_000
#: what an address says about the page and not about which rows are meant
_PLACES = ("as", "offset", "cursor", "after")
#: also behind a line break, and the wide signs, which spreadsheets in East Asian settings read as the others
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: where the semicolon separates cells, one that holds it is several
_FURTHER_FORMULA = re.compile(r";(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def page_or_file(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    table: Table,
    read: Callable[[Any], Any],
    *,
    rows: Callable[[Any], Sequence[Any]] = attrgetter("rows"),
    following: Callable[[Any], Any] = lambda page: None,
    status: int = 200,
) -> Answer:
    """Return the page, or all its rows as the file that its address asks for.

    `table` has the file's name and columns. `read` gives a page of the list at a place, None: the first; `following`
    the place behind a page, None: it was the last; `rows` gives a page's rows.
    """
    form = request.GET.get("as", "")
    if form not in FORMS or status != 200:
        asked = request.GET.copy()
        for place in _PLACES:
            asked.pop(place, None)
        query = asked.urlencode()
        files = {"file_query": f"{query}&" if query else "", "file_limit": f"{LIMIT:,}"}
        return render(request, template, {**context, **files}, status=status)
    first = read(None)
    if (why := _trouble(first)) and not rows(first):
        return HttpResponse(why, status=503, content_type="text/plain; charset=utf-8")
    pages = _in_sight(chain([first], _pages(first, read, following)))
    found = _bounded(pages, rows, table.in_file, timezone.get_current_timezone())
    return exported(table.name, form, table.in_file, found)


def next_offset(page: Any) -> int | None:
    """Return where a list that is paged by offset and count goes on; None: this was the last page."""
    return page.offset + page.count if page.offset + page.count < page.total else None


def exported(
    name: str,
    form: str,
    columns: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    about: Mapping[str, object] | None = None,
) -> StreamingHttpResponse:
    """Return the rows as a download called `name`; `form` is one of FORMS.

    With `about`, a JSON file is an object of these members and the rows, called points.
    """
    if form == "csv":
        answer = StreamingHttpResponse(_csv(columns, rows), content_type="text/csv; charset=utf-8")
    else:
        answer = StreamingHttpResponse(_json(rows, about), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return answer


class _Echo:
    """A file that gives back what is written: csv writes to it line by line."""

    def write(self, text: str) -> str:
        """Return the line that was written."""
        return text


def _pages(page: Any, read: Callable[[Any], Any], following: Callable[[Any], Any]) -> Iterator[Any]:
    while (place := following(page)) is not None:
        page = read(place)
        yield page


def _in_sight(pages: Iterator[Any]) -> Iterator[Any]:
    """Read pages as the user who asked for them, in their language, of the same brokers: the request is over when the
    answer is sent."""
    visible, language, choice, zone = current_topics(), get_language(), chosen(), timezone.get_current_timezone()

    def read() -> Iterator[Any]:
        while True:
            with scoped(visible), override(language), choosing(choice), timezone.override(zone):
                page = next(pages, None)
            if page is None:
                return
            yield page

    return read()


def _bounded(
    pages: Iterator[Any], rows: Callable[[Any], Sequence[Any]], columns: Sequence[str], zone: tzinfo
) -> Iterator[Mapping[str, object]]:
    sent, looked, why = 0, 0, ""
    for page in pages:
        why = why or _trouble(page)
        for row in rows(page):
            if sent == LIMIT:
                yield _note(columns, _("There are more than %(limit)s: narrow the filter.") % {"limit": f"{LIMIT:,}"})
                return
            yield {column: _plain(row, column, zone) for column in columns}
            sent += 1
        looked += getattr(page, "looked", 0)
        if looked >= LOOKED:
            yield _note(columns, _("Only the first %(looked)s were searched.") % {"looked": f"{looked:,}"})
            return
    if why:
        yield _note(columns, _("Truncated here: %(why)s.") % {"why": why})


def _trouble(page: Any) -> str:
    """Return why a page may lack rows, empty if it does not: one that is old has all of them."""
    evidence = getattr(page, "evidence", None)
    if evidence is None or evidence.stale_reason in (None, StaleReason.MIRROR_BEHIND):
        return ""
    return str(evidence.stale_reason.label)


def _note(columns: Sequence[str], text: str) -> Mapping[str, object]:
    return {**dict.fromkeys(columns), columns[0]: f"# {text}"}


def _plain(row: Any, column: str, zone: tzinfo) -> object:
    value = row
    for part in column.split("."):
        value = getattr(value, part, None)
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat()
    if isinstance(value, tuple | frozenset):
        return list(value)
    # choices of rows are texts with a label
    return str(value) if isinstance(value, str | UUID) else value


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield _encodable(writer.writerow([_cell(row[name]) for name in columns]))


def _cell(value: object) -> object:
    if isinstance(value, list) and all(isinstance(each, str | int) for each in value):
        value = " ".join(map(str, value))
    elif isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return value
    value = _FURTHER_FORMULA.sub(";'", value)
    return f"'{value}" if value.startswith(_FORMULA) else value


def _json(rows: Iterable[Mapping[str, object]], about: Mapping[str, object] | None) -> Iterator[str]:
    begin, end = ("[", "]") if about is None else (json.dumps(about)[:-1] + ', "points": [', "]}")
    yield begin
    separator = ""
    for row in rows:
        yield _encodable(separator + json.dumps(row, ensure_ascii=False))
        separator = ",\n"
    yield end


def _encodable(text: str) -> str:
    """Return text that can be encoded: half a surrogate pair becomes a question mark instead of ending the file."""
    return text.encode("utf-8", "replace").decode("utf-8")
