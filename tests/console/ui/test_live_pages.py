"""Which pages live, and how a rendered template becomes parts."""

from __future__ import annotations

import pytest

from console.ui.live import page_of, parts_of


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("overview", "", ("overview", "", ())),
        ("topics", "search=a%20b&order=-rate&evil=1", ("topics", "", (("order", "-rate"), ("search", "a b")))),
        ("topic/%RETRY%orders", "", ("topic", "%RETRY%orders", ())),
        ("topic/a/b", "", ("topic", "a/b", ())),
        ("lane/3", "offset=40", ("lane", "3", (("offset", "40"),))),
        ("/schedule/", "offset=1", ("schedule", "", ())),
    ],
)
def test_known_pages(path: str, query: str, expected: tuple[str, str, tuple[tuple[str, str], ...]]) -> None:
    page = page_of(path, query)
    assert page is not None
    assert (page.name, page.argument, page.query) == expected


@pytest.mark.parametrize(
    "path", ["", "nothing", "topic", "overview/x", "lane/x", "lane/٣", "lane/-1", "topic/" + "x" * 256]
)
def test_unknown_pages(path: str) -> None:
    assert page_of(path) is None


def test_too_many_parameters() -> None:
    assert page_of("topics", "&".join("a=1" for _ in range(100))) is None


def test_parts_are_found_by_target() -> None:
    one = '<hx-partial hx-target="#a" hx-swap="x"><p>\n1</p></hx-partial>'
    two = '<hx-partial hx-target="#b"></hx-partial>'
    assert parts_of(f"\n{one} between {two}") == {"#a": one, "#b": two}
