"""The pictures in docs/screens show the console as it is: what they were drawn from has not changed since."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.ui.navigation import SECTIONS
from tests.console import drawn

MOST_BYTES = 150_000
#: pages of others: Django's own, and the reference of REST
OTHERS = {"admin:index", "/api/docs"}


def test_every_picture_is_of_the_pages_as_they_are() -> None:
    kept = drawn.manifest()["parts"]
    now = {part: drawn.fingerprint(drawn.ROOT / part) for part in kept if (drawn.ROOT / part).exists()}
    missing = set(drawn.of_every_page()) - set(kept)
    changed = sorted({part for part in kept if now.get(part) != kept[part]} | missing)
    why = f"docs/screens shows the console as it was before these changed: {', '.join(changed)}"
    assert not changed, f"{why}. Run `{drawn.COMMAND}` and commit docs/screens."


def test_every_picture_is_there_as_it_was_taken_and_small() -> None:
    pictures = drawn.manifest()["pictures"]
    there = {path.name: path for path in drawn.SCREENS.glob("*.png")}
    assert set(there) == set(pictures), f"run `{drawn.COMMAND}`"
    assert {name for name, path in there.items() if drawn.digest(path) != pictures[name]["sha256"]} == set()
    assert {name for name, path in there.items() if path.stat().st_size > MOST_BYTES} == set()


def test_every_page_of_the_rail_has_a_picture() -> None:
    shown = {each["place"] for each in drawn.manifest()["pictures"].values()}
    assert {place.name for section in SECTIONS for place in section.places} - OTHERS - shown == set()


@pytest.mark.parametrize(
    ("name", "before", "after", "is_same"),
    [
        ("a.html", '<b class="x">{% translate "One" %}</b>', '<b class="x">{% translate "Two" %}</b>', True),
        (
            "a.html",
            "{% blocktranslate %}One {{ n }}{% endblocktranslate %}",
            "{% blocktranslate %}Two{% endblocktranslate %}",
            True,
        ),
        ("a.html", '<b class="x">1</b>', '<b class="y">1</b>', False),
        ("a.html", "{% if a %}<b></b>{% endif %}", "{% if b %}<b></b>{% endif %}", False),
        ("a.css", "a { color: red } /* why */", "a {\n  color: red }", True),
        ("a.css", "a { color: red }", "a { color: blue }", False),
        ("a.py", '"""One."""\nx = 1', '"""Two,\nand more."""\n# why\nx = 1', True),
        ("a.py", "x = 1", "x = 2", False),
    ],
)
def test_a_fingerprint_sees_what_a_picture_shows(
    tmp_path: Path, name: str, before: str, after: str, *, is_same: bool
) -> None:
    path = tmp_path / name
    path.write_text(before)
    first = drawn.fingerprint(path)
    path.write_text(after)
    assert (drawn.fingerprint(path) == first) is is_same
