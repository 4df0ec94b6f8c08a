"""Lists: their tables, drawn from their columns, and the saved views beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from html import escape
from itertools import count
from operator import attrgetter
from typing import Any

from django import template
from django.template import Context, Template
from django.template.loader import get_template
from django.utils.safestring import mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import get_language

from console.site.chosen import choice_of
from console.templatetags.visible import truncatechars
from console.ui.ordering import Sorting
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
#: the element that a cell is, as far as its name
_CELL = re.compile(r"\s*.td\b")


@register.inclusion_tag("ui/table.html")
def table(
    drawn: Table,
    data: Any,
    caption: str,
    *,
    rows: Iterable[Any] | None = None,
    table_id: str = "",
    now_ms: int | None = None,
    sorting: Sorting | None = None,
) -> dict[str, Any]:
    """Draw the rows of a page of a list; its heads lead to other orders of it where `sorting` is given.

    `rows` are those of the page, where it has another name for them; `now_ms` is the moment from which ages count,
    where it is not that of the list.
    """
    shown = data.rows if rows is None else rows
    written = "".join(_rows(drawn, data, shown, data.now_ms if now_ms is None else now_ms))
    head = _head(_template("ui/table_head.html"), drawn, _has_several(data), sorting, get_language())
    return {"head": head, "rows": written, "caption": caption, "table_id": table_id}


@lru_cache(maxsize=512)
def _head(template: Template, drawn: Table, has_several: bool, sorting: Sorting | None, _language: str | None) -> str:
    columns = drawn.on_page(has_several=has_several)
    heads = [(column, _sorted_by(sorting, column.sort, column.falls)) for column in columns]
    return template.render(Context({"table": drawn, "heads": heads}))


def _sorted_by(sorting: Sorting | None, name: str, falls: bool) -> dict[str, str]:
    """Return where the head of a column leads, and what it says of the order; nothing where the list has no other."""
    if sorting is None or not name:
        return {}
    address = f"?order={sorting.following(name, falls=falls)}{sorting.query}"
    return {"address": address, "direction": sorting.direction(name)}


@register.inclusion_tag("ui/sorting_head.html")
def sorting_head(label: str, name: str, sorting: Sorting, falls: bool = False) -> dict[str, object]:
    """The head of a column of a table that a page writes itself; `falls`: the largest come first at the first press."""
    return {"label": label, **_sorted_by(sorting, name, falls)}


def _has_several(data: Any) -> bool:
    """Tell whether the rows of the list are of several brokers."""
    return bool(getattr(data, "has_several", False))


#: draws a cell of one row
Draw = Callable[[Any], str]


def _rows(drawn: Table, data: Any, rows: Iterable[Any], now_ms: int) -> Iterator[str]:
    """Yield what the template of a row says of each."""
    cells = [_boxes(drawn.choice)] if drawn.choice else []
    zone = get_current_timezone()
    shown_columns = drawn.on_page(has_several=_has_several(data))
    cells += [_named(_cells(column, Place(column, None, data, now_ms, zone)), column) for column in shown_columns]
    across = drawn.across
    short = [*cells[: across.after], _across(across, len(cells))] if across else cells
    missing_of = attrgetter(across.missing) if across else None
    id_of = attrgetter(drawn.row_id_field) if drawn.row_id_field else None
    filled = _shape("ui/cells/row.html", "id", "cells").filled
    for number, row in enumerate(rows, 1):
        row_id = f"{drawn.row_id}-{id_of(row) if id_of else number}" if drawn.row_id else ""
        shown = short if missing_of is not None and missing_of(row) is None else cells
        written = "".join([draw(row) for draw in shown])
        yield filled(row_id, mark_safe(written))  # noqa: S308 - of templates, which escape # nosec B308 B703


class _Shape:
    """A template that is rendered once with holes in it for its values, and then filled for each row.

    It may ask whether there is a value: it is rendered once for each combination of those that are there.
    """

    def __init__(self, template: Template, names: tuple[str, ...]) -> None:
        self._template, self._names = template, names
        #: what the template says, with "%s" for each hole, and the numbers of the values that belong there
        self._cuts: dict[tuple[bool, ...], tuple[str, list[int]]] = {}

    def filled(self, *values: str) -> str:
        """Return what the template says with these values, which are escaped here."""
        written, holes = self._cut(tuple(map(bool, values)))
        shown = [value if hasattr(value, "__html__") else escape(value) for value in values]
        return written % tuple([shown[number] for number in holes])

    def filler(self) -> Callable[[str], str]:
        """Return what fills the holes of a template with one value, the quickest way, as most cells are such."""
        without, (written, holes) = self.filled(""), self._cut((True,))
        if len(holes) != 1:
            return self.filled

        def filled(value: str) -> str:
            if not value:
                return without
            return written % (value if hasattr(value, "__html__") else escape(value))

        return filled

    def _cut(self, found: tuple[bool, ...]) -> tuple[str, list[int]]:
        if found not in self._cuts:
            self._cuts[found] = self._render(found)
        return self._cuts[found]

    def _render(self, found: tuple[bool, ...]) -> tuple[str, list[int]]:
        marks = [chr(_FIRST_HOLE + number) for number in range(len(found))]
        shown = [mark if is_there else "" for mark, is_there in zip(marks, found, strict=True)]
        written = self._template.render(Context(dict(zip(self._names, shown, strict=True)))).replace("%", "%%")
        any_mark = f"[{''.join(marks)}]"
        return re.sub(any_mark, "%s", written), [marks.index(mark) for mark in re.findall(any_mark, written)]


def _shape(name: str, *names: str) -> _Shape:
    """Return the shape of a template whose values have these names."""
    return _shapes(_template(name), names, get_language())


@lru_cache(maxsize=256)
def _shapes(template: Template, names: tuple[str, ...], _language: str | None) -> _Shape:
    return _Shape(template, names)


def _cells(column: Column, place: Place) -> Draw:
    """Return what draws the cells of a column."""
    cell = column.cell
    if cell.text is None:
        return _rendered_cells(column, place)
    text_of, value_of = cell.text, attrgetter(column.own_field)
    if column.page:
        filled = _shape(cell.template, "text", "address", "whole").filled
        address_of = _address(column, place.data)

        def draw_linked(row: Any) -> str:
            place.row, value = row, value_of(row)
            return filled(text_of(value, place), address_of(row), "" if value is None else str(value))

        return draw_linked
    written = _shape(cell.template, "text").filler()

    def draw(row: Any) -> str:
        place.row = row
        return written(text_of(value_of(row), place))

    return draw


def _named(draw: Draw, column: Column) -> Draw:
    """Return what draws the cells with the name of their column, which stands before each where rows become lines."""
    name = _template("ui/cells/column.html").render(Context({"column": column})).strip()

    def draw_named(row: Any) -> str:
        written = draw(row)
        opened = _CELL.match(written)
        # the name of a row needs no name
        return f"{written[: opened.end()]} {name}{written[opened.end() :]}" if opened else written

    return draw_named


def _rendered_cells(column: Column, place: Place) -> Draw:
    """Return what draws cells by rendering their template, once for all rows that look the same."""
    template, value_of, address_of = (
        _template(column.cell.template),
        attrgetter(column.own_field),
        _address(column, place.data),
    )
    around = {"column": column, "data": place.data, "now_ms": place.now_ms}

    def rendered(row: Any) -> str:
        return template.render(Context({"row": row, "value": value_of(row), "address": address_of(row), **around}))

    if not column.cell.by:
        return rendered
    key_of = attrgetter(*[name or column.own_field for name in column.cell.by])
    drawn: dict[Any, str] = {}

    def draw(row: Any) -> str:
        key = key_of(row)
        if key not in drawn:
            drawn[key] = rendered(row)
        return drawn[key]

    return draw


def _boxes(choice: Choice) -> Draw:
    """Return what draws the box before a row; an empty cell for one that cannot be chosen."""
    value_of, label_of = attrgetter(choice.field), attrgetter(choice.label)
    numbered, numbers = choice.numbered and str(choice.numbered), count(1)
    filled = _shape("ui/cells/choice.html", "name", "value", "label").filled

    def draw(row: Any) -> str:
        n = next(numbers)
        label = numbered % {"n": n} if numbered else truncatechars(label_of(row), 80)
        return filled(choice.name, str(value_of(row)), label)

    return draw


def _across(across: Across, columns: int) -> Draw:
    """Return what draws the cell of a row that has nothing of what most columns show."""
    text_of, width = attrgetter(across.field), str(columns - across.after)
    filled = _shape("ui/cells/across.html", "width", "text").filled
    return lambda row: filled(width, truncatechars(text_of(row), 200))


def _address(column: Column, data: Any) -> Callable[[Any], str]:
    """What gives the address that the cells lead to; empty where they lead nowhere."""
    if not column.page:
        return lambda _row: ""
    named = attrgetter(column.page_field or column.own_field)
    if column.page_broker and _has_several(data):
        return _address_at(column, named)
    address = addresses(column.page)

    def of(row: Any) -> str:
        name = named(row)
        return "" if name is None else address(name)

    return of


def _address_at(column: Column, named: Callable[[Any], Any]) -> Callable[[Any], str]:
    """What gives the address of a page of the row's own broker."""
    broker_of = attrgetter(column.page_broker)
    kept: dict[str, Callable[[object], str]] = {}

    def of(row: Any) -> str:
        name, broker = named(row), broker_of(row)
        if broker not in kept:
            kept[broker] = addresses(column.page, f"{choice_of(broker).prefix}/")
        return "" if name is None else kept[broker](name)

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
