"""A list as CSV or JSON, streamed: what a spreadsheet would run as a formula is text there."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.http import StreamingHttpResponse

FORMS = ("csv", "json")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def exported(
    name: str, form: str, columns: Sequence[str], rows: Iterable[Mapping[str, object]]
) -> StreamingHttpResponse:
    """The rows as a download called `name`; `form` is one of FORMS."""
    if form == "csv":
        answer = StreamingHttpResponse(_csv(columns, rows), content_type="text/csv; charset=utf-8")
    else:
        answer = StreamingHttpResponse(_json(rows), content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return answer


class _Echo:
    """A file that gives back what is written: csv writes to it line by line."""

    def write(self, text: str) -> str:
        """Return the line."""
        return text


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_cell(row[name]) for name in columns])


def _cell(value: object) -> object:
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _json(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    separator = "["
    for row in rows:
        yield separator + json.dumps(row, ensure_ascii=False)
        separator = ",\n"
    yield "]" if separator != "[" else "[]"
