"""Lists: their tables, drawn from their columns, and the saved views beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import count
from operator import attrgetter
from typing import Any

from django import template
from django.template import Context, Template
from django.template.loader import get_template

from console.templatetags.visible import truncatechars
from console.ui.saved_views import (
    ADDRESS_LENGTH,
    NAME_LENGTH,
    PAGES,
    PLAIN,
    SHARE,
    Address,
    SavedView,
    address_here,
    views_for,
)
from console.ui.table import Across, Choice, Column, Place, Table, addresses

register = template.Library()

#: what stands for a value while a template is rendered for many rows: signs for private use, which no template has
_FIRST_HOLE = 0xE000


@register.inclusion_tag("ui/table.html")
def table(
    drawn: Table,
    data: Any,
    caption: str,
    *,
    rows: Iterable[Any] | None = None,
    table_id: str = "",
    now_ms: int | None = None,
    sort_query: str = "",
) -> dict[str, Any]:
    """Draw the rows of a page of a list; `sort_query` is what its address says beside the order.

    `rows` are those of the page, where it has another name for them; `now_ms` is the moment from which ages count,
    where it is not that of the list.
    """
    shown = data.rows if rows is None else rows
    rows = _rows(drawn, data, shown, data.now_ms if now_ms is None else now_ms)
    return {"table": drawn, "rows": rows, "caption": caption, "sort_query": sort_query, "table_id": table_id}


def _rows(drawn: Table, data: Any, rows: Iterable[Any], now_ms: int) -> Iterator[dict[str, str]]:
    """Yield the id and the cells of each row."""
    columns: list[_Boxes | _Cells] = [_Boxes(drawn.choice)] if drawn.choice else []
    columns += [_Cells(column, data, now_ms) for column in drawn.on_page]
    across = _Across(drawn.across, len(columns)) if drawn.across else None
    id_of = attrgetter(drawn.row_id_field) if drawn.row_id_field else None
    for number, row in enumerate(rows, 1):
        row_id = f"{drawn.row_id}-{id_of(row) if id_of else number}" if drawn.row_id else ""
        is_missing = across is not None and across.is_missing(row)
        shown = [*columns[: across.after], across] if across is not None and is_missing else columns
        yield {"id": row_id, "cells": "".join([column.drawn(row) for column in shown])}


class _Shape:
    """A template that is rendered once with holes in it for its values, and then filled for each row.

    It may ask whether there is a value: it is rendered once for each combination of those that are there.
    """

    def __init__(self, name: str, values: tuple[str, ...], **around: Any) -> None:
        self._template, self._values, self._around = _template(name), values, around
        #: what stands between the holes, with gaps for them; and for each gap which value belongs there
        self._cuts: dict[tuple[bool, ...], tuple[list[str], list[tuple[int, int]]]] = {}

    def filled(self, *values: str) -> str:
        """Return what the template says with these values, which are escaped here."""
        found = tuple(map(bool, values))
        if found not in self._cuts:
            self._cuts[found] = self._cut(found)
        parts, gaps = self._cuts[found]
        parts = parts.copy()
        for gap, number in gaps:
            value = values[number]
            parts[gap] = value if hasattr(value, "__html__") else escape(value)
        return "".join(parts)

    def _cut(self, found: tuple[bool, ...]) -> tuple[list[str], list[tuple[int, int]]]:
        holes = [chr(_FIRST_HOLE + number) for number in range(len(found))]
        shown = [hole if is_there else "" for hole, is_there in zip(holes, found, strict=True)]
        context = Context({**self._around, **dict(zip(self._values, shown, strict=True))})
        parts = re.split(f"([{''.join(holes)}])", self._template.render(context))
        return parts, [(place, holes.index(part)) for place, part in enumerate(parts) if part in holes]


class _Cells:
    """The cells of a column in one table."""

    def __init__(self, column: Column, data: Any, now_ms: int) -> None:
        self._cell, self._place = column.cell, Place(column, None, data, now_ms)
        self._value_of, self._address_of = attrgetter(column.own_field), _address(column)
        self._shape = _Shape(column.cell.template, ("text", "address"))
        keys = [name or column.own_field for name in column.cell.by]
        self._key_of = attrgetter(*keys) if keys else None
        self._drawn: dict[Any, str] = {}

    def drawn(self, row: Any) -> str:
        """Return the cell of a row."""
        if self._cell.text is not None:
            self._place.row = row
            text = self._cell.text(self._value_of(row), self._place)
            return self._shape.filled(text, self._address_of(row))
        if self._key_of is None:
            return self._rendered(row)
        key = self._key_of(row)
        if key not in self._drawn:
            self._drawn[key] = self._rendered(row)
        return self._drawn[key]

    def _rendered(self, row: Any) -> str:
        around = {"row": row, "value": self._value_of(row), "address": self._address_of(row)}
        place = self._place
        context = Context({**around, "column": place.column, "data": place.data, "now_ms": place.now_ms})
        return _template(self._cell.template).render(context)


class _Boxes:
    """The boxes before the rows of one table."""

    def __init__(self, choice: Choice) -> None:
        self._value_of, self._label_of = attrgetter(choice.field), attrgetter(choice.label)
        self._numbered, self._numbers = choice.numbered, count(1)
        self._shape = _Shape("ui/cells/choice.html", ("value", "label"), choice=choice)

    def drawn(self, row: Any) -> str:
        """Return the box of a row; an empty cell for one that cannot be chosen."""
        n = next(self._numbers)
        label = str(self._numbered) % {"n": n} if self._numbered else truncatechars(self._label_of(row), 80)
        return self._shape.filled(str(self._value_of(row)), label)


class _Across:
    """The cell of rows that have nothing of what most columns show."""

    def __init__(self, across: Across, columns: int) -> None:
        self.after, self._text_of, self._missing_of = across.after, attrgetter(across.field), attrgetter(across.missing)
        self._shape = _Shape("ui/cells/across.html", ("text",), width=columns - across.after)

    def is_missing(self, row: Any) -> bool:
        """Return whether this row is such a one."""
        return self._missing_of(row) is None

    def drawn(self, row: Any) -> str:
        """Return the cell of such a row."""
        return self._shape.filled(truncatechars(self._text_of(row), 200))


def _address(column: Column) -> Callable[[Any], str]:
    """What gives the address that the cells lead to; empty where they lead nowhere."""
    if not column.page:
        return lambda _row: ""
    named, address = attrgetter(column.page_field or column.own_field), addresses(column.page)

    def of(row: Any) -> str:
        name = named(row)
        return "" if name is None else address(name)

    return of


def _template(name: str) -> Template:
    return get_template(name).template  # type: ignore[attr-defined]  # of Django's own language


#: the others are on the page of all
_SHOWN = 8


@register.inclusion_tag("saved_views/beside.html", takes_context=True)
def views_beside(context: Context) -> dict[str, Any]:
    """What the page's head shows; nothing on pages that cannot be saved."""
    request: Any = context.get("request")
    here = address_here(request) if request is not None else None
    if here is None or not request.user.is_authenticated:
        return {}
    rows = views_for(request.user, here.page)
    return {
        "here": here,
        "plain": f"{here.path}?{PLAIN}",
        "is_plain": not here.query,
        "rows": [(row, view_address(row), _is(row, here), row.owner_id == request.user.pk) for row in rows[:_SHOWN]],
        "more": max(0, len(rows) - _SHOWN),
        "may_share": request.user.has_perm(SHARE),
        "name_length": NAME_LENGTH,
        "address_length": ADDRESS_LENGTH,
    }


@register.filter
def view_address(row: SavedView) -> str:
    """Where a view leads."""
    return Address(row.page, row.path, row.query).text


@register.filter
def view_page(row: SavedView) -> str:
    """How its page is called; a page that is no more has its bare name."""
    return str(PAGES.get(row.page, row.page))


def _is(row: SavedView, here: Address) -> bool:
    return (row.path, row.query) == (here.path, here.query)
