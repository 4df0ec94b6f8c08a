"""Columns of the lists, each declared once: its head and its cells on a page, and its place in a file of the rows.

A feature declares its tables beside their rows; the shape of the list names the table, the tag `table` draws it on a
page and in a live part, and `page_or_file` writes it as CSV or JSON. A new column is one more `Column` there. How a
cell looks is a template below `templates/ui/cells/`, or one of the feature's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache
from typing import Any
from urllib.parse import quote

from django.urls import get_script_prefix, reverse
from django.utils.functional import Promise
from django.utils.http import RFC3986_SUBDELIMS
from django.utils.translation import gettext_lazy as _

from console.templatetags.escapement import age, ago, due, figure, length, moment, rate, size
from console.templatetags.visible import truncatechars
from console.ui.addresses import Name

#: what stands for a name or a number while the rest of an address is looked up
_SAMPLE = 7_777_777_777
#: what `reverse` leaves as it is
_PLAIN = RFC3986_SUBDELIMS + "/~:@"
#: stands for the column's own field
VALUE = ""


@dataclass(slots=True)
class Place:
    """The place of a cell: its column and row, and what is the same in the whole list."""

    column: Column
    row: Any
    #: the page of the list
    data: Any
    now_ms: int
    #: of the moments that are shown
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of cell: the template of its `<td>`, and how often it is rendered, as a page has thousands of cells.

    With `text`, the template is given `text`, and if its column has a page, `address` (where the cell leads, empty:
    nowhere) and `whole` (the value, to be copied). It is rendered once for all rows that have all of them, and so on:
    it may ask whether there is one, never what it is. Without, it is given `row`, `value`, `address`, `column`, `data`
    and `now_ms`, and is rendered once for all rows with the same values in the fields that `by` names (VALUE: that of
    the column); for each row if it names none.
    """

    template: str
    #: figures are aligned at their end
    is_figure: bool = False
    text: Callable[[Any, Place], str] | None = None
    by: tuple[str, ...] = ()


def _short(value: str | None, place: Place) -> str:
    if not value:
        return ""
    return truncatechars(value, place.column.length) if place.column.length else value


TEXT = Cell("ui/cells/text.html", text=_short)
#: the name of what the row is about, which leads to its page
NAME = Cell("ui/cells/name.html", text=_short)
#: a key or an id, which leads to a page
KEY = Cell("ui/cells/key.html", text=_short)
CHIP = Cell("ui/cells/chip.html", text=_short)
#: a choice of the model, by its label
LABEL = Cell("ui/cells/label.html", by=(VALUE,))
#: figures that matter only where there are any
LOUD = Cell("ui/cells/loud.html", is_figure=True, by=(VALUE,))
FIGURE = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, _place: figure(value))
RATE = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, _place: rate(value))
SIZE = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, _place: size(value))
#: a span of time
SPAN = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, _place: length(value))
#: how old something is, how long ago a moment was, and how far ahead it is: all counted on by the browser
AGE = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, place: age(value, place.now_ms, place.zone))
AGO = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, place: ago(value, place.now_ms, place.zone))
LEFT = Cell("ui/cells/figure.html", is_figure=True, text=lambda value, place: due(value, place.now_ms, place.zone))
#: a moment with its day, and without
MOMENT = Cell("ui/cells/moment.html", text=lambda value, place: moment(value, zone=place.zone))
TIME = Cell("ui/cells/moment.html", text=lambda value, place: moment(value, "time", place.zone))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: on the page if it has a label, in the file unless `in_file` is False."""

    #: the field of a row, which may lead into a part of it with a dot; also what the column is called in the file
    name: str
    label: str | Promise = ""
    cell: Cell = TEXT
    #: the field that the cell shows, where that is another than the name says
    field: str = ""
    in_file: bool = True
    #: written small behind the label, such as "/s"
    unit: str = ""
    #: what `order` is in the address of the list sorted by it; empty: the list cannot be
    sort: str = ""
    #: the page that the cell leads to, and the field whose value stands in its address
    page: str = ""
    page_field: str = ""
    #: the field with the broker whose page that is, where the list has rows of several; empty: of all of them
    page_broker: str = ""
    #: True: on the page only where the list has rows of several brokers (`has_several` of the list)
    of_several: bool = False
    #: characters of a text at most; 0: the whole text
    length: int = 0

    @property
    def falls(self) -> bool:
        """Tell whether the list is sorted by it with the largest first, before it is turned round."""
        return self.cell.is_figure

    @property
    def own_field(self) -> str:
        """The field of a row that the cell shows."""
        return self.field or self.name


@dataclass(frozen=True, slots=True)
class Choice:
    """A box before each row, for forms: the name that it is sent under, and the fields with its value and its label."""

    name: str
    field: str
    label: str = "name"
    #: the label of a box whose row has no name: words with the row's number, `n`
    numbered: str | Promise = ""


@dataclass(frozen=True, slots=True)
class Across:
    """A cell across the columns behind the first, for a row that has nothing to show in them."""

    #: columns before that cell
    after: int
    #: the field that is None in such a row, and the one whose text the cell shows
    missing: str
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The columns of a list. `name` is that of its file."""

    name: str
    columns: tuple[Column, ...]
    choice: Choice | None = None
    across: Across | None = None
    #: the id of a row is this, and the value of the field after it; without a field the row's number in the table
    row_id: str = ""
    row_id_field: str = ""
    #: the file's columns, separated by blanks, where their order is not that of the page: programs may count on it.
    #: Those that are not named here stand behind these.
    file_order: str = ""

    def on_page(self, *, has_several: bool = False) -> tuple[Column, ...]:
        """The columns of the page, in order; `has_several`: its rows are of several brokers."""
        return tuple(column for column in self.columns if column.label and (has_several or not column.of_several))

    @property
    def orders(self) -> tuple[str, ...]:
        """What the list can be sorted by."""
        return tuple(column.sort for column in self.columns if column.sort)

    @property
    def in_file(self) -> tuple[str, ...]:
        """The names of the file's columns, in order."""
        declared = [column.name for column in self.columns if column.in_file]
        ordered = dict.fromkeys([*self.file_order.split(), *declared])
        return tuple(name for name in ordered if name != "broker") + (("broker",) if "broker" in ordered else ())


#: whose a row is: the last one of the file
BROKER = Column("broker", _("Broker"), of_several=True, length=60)


def file_columns(names: str) -> tuple[Column, ...]:
    """Return columns that are in the file only; their names are separated by blanks."""
    return tuple(map(Column, names.split()))


def addresses(page: str, prefix: str | None = None) -> Callable[[object], str]:
    """Return a function that gives the address of a page with one name or number in it, as `reverse` does.

    `reverse` for each row costs more than the rest of the row, so what stands around the name is looked up once.
    `prefix`: of a broker whose page it is to be, where that is not what this page is about.
    """
    own = get_script_prefix()
    before, after = _around(page, own)
    if prefix is not None and prefix != own:
        before = prefix + before.removeprefix(own)
    hidden = Name().to_url
    return lambda name: f"{before}{quote(hidden(str(name)), safe=_PLAIN)}{after}"


@cache
def _around(page: str, prefix: str) -> tuple[str, str]:
    """Return what stands before and after the name; `prefix` is what all addresses begin with, part of what is kept."""
    before, _, after = reverse(page, args=[_SAMPLE]).partition(str(_SAMPLE))
    return before, after
