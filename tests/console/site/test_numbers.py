"""The one parser of whole numbers from text."""

from __future__ import annotations

import pytest

from console.site.parsing import MOST, whole_number


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("1000", 1000), (str(MOST), MOST), ("0" * 18 + "9", 9)]
)
def test_plain_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " 7",
        "7 ",
        "+7",
        "-7",
        "7.0",
        "1e3",
        "1_000",
        "1,000",
        "\u0661",
        "\u00b2",
        "x",
        str(MOST + 1),
        "9" * 5000,
    ],
)
def test_anything_else_is_none(text: str | None) -> None:
    assert whole_number(text) is None


def test_both_bounds_are_taken() -> None:
    assert [whole_number(str(each), 5, 7) for each in (4, 5, 7, 8)] == [None, 5, 7, None]
