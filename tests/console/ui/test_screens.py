"""The pictures in docs/screens: there, small, one of every page, and drawn in the styles of today.

Whether a page still looks as on its picture is asked where its broker stands: tests/browser/test_pictures.py.
"""

from __future__ import annotations

import pytest

from console.ui.frame import SECTIONS
from tests.console.ui import drawn

MOST_BYTES = 150_000
#: Django's own page, and the reference of REST, whose pictures would be of its texts
OTHERS = {"admin:index", "reference"}


def test_every_picture_is_there_as_it_was_taken_and_small() -> None:
    pictures = drawn.manifest()["pictures"]
    there = {path.name: path for path in drawn.SCREENS.glob("*.png")}
    assert set(there) == set(pictures), f"run `{drawn.COMMAND}`"
    assert {name for name, path in there.items() if drawn.digest(path) != pictures[name]["sha256"]} == set()
    assert {name for name, path in there.items() if path.stat().st_size > MOST_BYTES} == set()


def test_every_page_of_the_rail_has_a_picture() -> None:
    shown = {each["place"] for each in drawn.manifest()["pictures"].values()}
    assert {place.name for section in SECTIONS for place in section.places} - OTHERS - shown == set()


def test_pictures_are_drawn_in_the_styles_of_today() -> None:
    kept = drawn.manifest()["styles"].split()
    assert not drawn.is_another(kept, drawn.styles_now()), f"run `{drawn.COMMAND}` and commit docs/screens"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ('<b class="x y">One</b>', "<b   class='y x'>\n Two\n</b>", True),
        ("<ul><li>1</li></ul>", "<ul><li>1</li><li>2</li></ul>", True),
        ("<p>1<br>2<input></p>", "<p>1</p>", False),
        ('<svg><path d="M0 0"/></svg><p></p>', '<svg><path d="M1 1"/><g></g></svg><p></p>', True),
        ('<b class="x">1</b>', '<b class="y">1</b>', False),
        ("<p><b>1</b></p>", "<b>1</b><p></p>", False),
        ("<p>1</p></div>", "<p>1</p>", True),
    ],
)
def test_a_page_draws_the_same_or_not(before: str, after: str, *, is_same: bool) -> None:
    assert (drawn.elements(before) == drawn.elements(after)) is is_same


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("a { color: red } /* why */", "a {\n  color: red;\n}", True),
        ("a { color: red }", "a { color: blue }", False),
        ("@media print { a { color: red } }", "@media print {\n a {\n color: red }\n}", True),
    ],
)
def test_styles_say_the_same_or_not(before: str, after: str, *, is_same: bool) -> None:
    assert (drawn.styles([before]) == drawn.styles([after])) is is_same


def test_a_tenth_may_be_another() -> None:
    kept = [str(number) for number in range(20)]
    assert not drawn.is_another(kept, [*kept[1:], "new"])
    assert drawn.is_another(kept, [*kept[1:], "new", "and one more"])
