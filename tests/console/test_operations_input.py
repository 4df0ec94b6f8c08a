"""What people type and programs send: moments, spans, and which timers are meant."""

from __future__ import annotations

from typing import Any

import pytest

from console.operations.errors import InvalidParameter
from console.operations.moments import moment_ms, shift_ms
from console.operations.selection import checked_selection


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T15:00:00+08:00", 1_795_244_400_000),
        ("2026-11-21T07:00:00.250Z", 1_795_244_400_250),
        ("1795244400000", 1_795_244_400_000),
    ],
)
def test_moments_as_people_type_them(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-11-21T15:00:00", "NaN", "-1", "0", "9" * 30, "2026-02-30T00:00:00Z"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"), [("+90 min", 5_400_000), ("-1 h", -3_600_000), ("+1.5s", 1_500), ("-2d", -172_800_000)]
)
def test_spans_as_people_type_them(text: str, ms: int) -> None:
    assert shift_ms(text) == ms


@pytest.mark.parametrize("text", ["90 min", "+", "+1", "+1 fortnight", "+1e9 s", "+-1 s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        shift_ms(text)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"targets": []},
        {"targets": [{}]},
        {"targets": [{"position": "1"}]},
        {"targets": [{"position": True}]},
        {"targets": [{"position": -1}]},
        {"targets": [{"scheduleKey": "a"}]},
        {"targets": [{"position": 1, "handle": "x"}]},
        {"targets": [{"handle": ""}]},
        {"targets": [{"position": n} for n in range(1_001)]},
        {"filter": {}},
        {"filter": {"topic": 7}},
        {"filter": {"topic": "a", "from_ms": "now"}},
    ],
)
def test_a_selection_that_says_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        checked_selection(given)


def test_a_selection_has_one_form() -> None:
    assert checked_selection({"targets": [{"position": 1}, {"position": 1}]}) == {"targets": [{"position": 1}]}
    assert checked_selection({"filter": {}, "is_all": True})["is_all"]
