"""Tables are drawn from their columns: heads, cells, addresses, and what goes into a file."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils.html import escape
from django.utils.translation import override

from console.ui.ordering import Sorting
from console.ui.table import CHIP, FIGURE, KEY, NAME, RATE, Choice, Column, Table, addresses, file_columns
from tests.console.markup import tight
from tests.console.stage import HOSTILE

NAMES = (
    *HOSTILE,
    "",
    ".",
    "..",
    "a/b",
    "~",
    "%RETRY%billing",
    "Zoë & Söhne",
    "e\u0301" * 70,
    "x" * 60,
    "x" * 61,
    "词" * 80,
)
THINGS = Table(
    "things",
    (
        Column("name", "Name", NAME, page="topic", sort="name"),
        Column("key", "Key", KEY, in_file=False, page="timer", page_field="position", length=60),
        Column("position"),
        Column("rate", "Stored", RATE, unit="/s"),
        *file_columns("size words"),
        Column("tag", "Tag", CHIP),
        Column("count", "Count", FIGURE, field="size", sort="count"),
    ),
    choice=Choice("thing", "position", "key"),
    row_id="thing",
    file_order="position name",
)


@dataclass
class Thing:
    name: str
    key: str = "k"
    position: int | None = 7
    rate: float | None = 1.5
    size: int = 1_234
    words: str | None = ""
    tag: str | None = ""


@dataclass
class Things:
    rows: list[Thing]
    now_ms: int = 0


def drawn(*rows: Thing, table: Table = THINGS) -> str:
    """The table without the blanks between its elements, and without the names of columns before its cells."""
    return re.sub(' data-name="[^"]*"', "", named(*rows, table=table))


def named(*rows: Thing, table: Table = THINGS) -> str:
    """The table without the blanks between its elements."""
    source = Template('{% load tables %}{% table table data "Things" table_id="all" sorting=sorting %}')
    html = source.render(Context({"table": table, "data": Things(list(rows)), "sorting": Sorting("-count", "&a=b")}))
    return ">".join(part.strip() for part in "<".join(part.strip() for part in html.split("<")).split(">"))


@pytest.mark.parametrize("name", NAMES)
def test_an_address_is_that_of_the_page(name: str) -> None:
    assert addresses("topic")(name) == reverse("topic", args=[name])


def test_an_address_with_a_number_is_that_of_the_page() -> None:
    assert addresses("timer")(2**62) == reverse("timer", args=[2**62])


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("name", NAMES)
def test_names_and_keys_are_escaped_and_cut_as_everywhere(name: str, language: str) -> None:
    with override(language):
        html = drawn(Thing(name, key=name))
        assert f'<a href="{escape(reverse("topic", args=[name]))}"><b>{escape(name).strip()}</b></a>' in html
        short = Template("{{ name|truncatechars:60 }}").render(Context({"name": name}))
        assert f'<a class="link mono" href="/timers/7/">{short.strip()}</a>' in html


def test_the_head_has_the_columns_of_the_page_in_order_and_leads_to_the_list_sorted() -> None:
    head = " ".join(drawn(Thing("a")).partition("<thead>")[2].partition("</thead>")[0].split())
    assert "".join(part.partition(">")[2] for part in head.split("<")) == "All rows of this pageNameKeyStored/sTagCount"
    assert '<th scope="col"><a href="?order=name&amp;a=b">Name</a></th>' in head
    assert '<th scope="col" class="number" aria-sort="descending"><a href="?order=count&amp;a=b">Count</a></th>' in head
    assert '<th scope="col" class="number">Stored<span class="unit">/s</span></th>' in head


def test_a_cell_shows_what_its_kind_says() -> None:
    html = drawn(Thing("a", tag="t"), Thing("b", position=None, rate=None))
    assert '<tr id="thing-1">' in html and '<tr id="thing-2">' in html
    assert '<td class="number">1.5</td><td><span class="chip">t</span></td><td class="number">1,234</td>' in html
    assert '<span class="mono">k</span>' in html, "a key that leads nowhere is no link"
    assert tight(html).count('<input type="checkbox" name="thing" value="7" aria-label="k">') == 1


def test_a_cell_has_the_name_of_its_column_where_rows_become_lines() -> None:
    table = Table("things", (Column("tag", 'Tag "<b>', CHIP), Column("rate", "Rate", RATE, unit="/s")))
    html = named(Thing("a", tag="t"), table=table)
    assert '<td data-name="Tag &quot;&lt;b&gt;"><span class="chip">t</span></td>' in html
    assert '<td data-name="Rate/s" class="number">1.5</td>' in html


def test_a_table_without_a_choice_and_without_rows_is_its_head() -> None:
    html = drawn(table=Table("none", (Column("name", "Name"),)))
    assert "checkbox" not in html
    assert html.endswith("<tbody></tbody></table>")


def test_a_file_has_the_columns_that_are_named_first_and_then_the_others() -> None:
    assert THINGS.in_file == ("position", "name", "rate", "size", "words", "tag", "count")


def test_a_text_that_is_not_there_is_a_dash_and_not_the_name_of_nothing() -> None:
    table = Table("things", (Column("tag", "Tag", CHIP, length=30), Column("words", "Words", length=20)))
    html = drawn(Thing("a", tag=None, words=None), table=table)
    assert '<tr><td><span class="faint">\u2013</span></td><td class="short"></td></tr>' in html
