"""What people type and programs send: moments, spans, and which timers are meant."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from console.features.timers.selection import checked_selection
from console.features.timers.shapes import TimerFilter
from console.operations.errors import InvalidParameter
from console.operations.selection import window_words
from console.operations.typed_moments import bound_ms, delay_ms, moment_ms, shift_ms, shown_moment, time_ms
from console.rest.query import moment_ms as rest_moment_ms
from console.rest.query import written_moment
from console.site.clock import now_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T15:00:00+08:00", 1_795_244_400_000),
        ("2026-11-21T07:00:00.250Z", 1_795_244_400_250),
        ("1795244400000", 1_795_244_400_000),
        ("2026-11-21T15:00+08:00", 1_795_244_400_000),
        ("2026-11-21 15:00+0800", 1_795_244_400_000),
        ("2026-11-21T15:00:00+08", 1_795_244_400_000),
        # never early: what is finer than a millisecond is rounded up
        ("2026-11-21T07:00:00.2501Z", 1_795_244_400_251),
        ("2026-11-21T07:00:00.250000001Z", 1_795_244_400_251),
        ("2026-11-21T07:00:00.2500000Z", 1_795_244_400_250),
        ("2026-11-21T07:00:00.000000000000000001Z", 1_795_244_400_001),
    ],
)
def test_moments_as_people_type_them(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


@pytest.mark.parametrize("ms", [1, 1_795_244_400_000, 1_795_244_400_250, 2**46])
def test_a_field_shows_milliseconds_as_a_time_that_means_the_same(ms: int) -> None:
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        shown = shown_moment(str(ms))
    assert re.match(r"\d{4}-\d\d-\d\dT.*\+08:00$", shown)
    assert moment_ms(shown) == ms


@pytest.mark.parametrize("ms", [0, 2**52, 2**53 - 1, 2**63 - 1])
def test_a_window_has_words_however_far_away_it_is(ms: int) -> None:
    assert window_words(None, ms).startswith("before ")
    assert TimerFilter(from_ms=ms).words.startswith("due from ")


@pytest.mark.parametrize("text", ["", "-1h", "02:30", "soon", "9" * 30, str(2**53), "2026-11-21T15:00:00+08:00"])
def test_a_field_shows_other_texts_as_they_were_typed(text: str) -> None:
    assert shown_moment(text) == text


@pytest.mark.parametrize(
    "text", ["", "soon", "2026-11-21T15:00:00", "NaN", "-1", "0", "9" * 30, "2026-02-30T00:00:00Z"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"), [("+90 min", 5_400_000), ("-1 h", -3_600_000), ("+1.5s", 1_500), ("-2d", -172_800_000),
     ("+0.1 ms", 1), ("+0.0001s", 1), ("+1.0004 s", 1_001), ("-1.0004 s", -1_000), ("+0.3s", 300), ("+0.000000001d", 1),
     ("+999999999999.001 ms", 1_000_000_000_000)],
)  # fmt: skip
def test_spans_as_people_type_them(text: str, ms: int) -> None:
    assert shift_ms(text) == ms


@given(st.integers(1, 2**43), st.integers(0, 999_999))
def test_pages_and_rest_read_the_same_moment_and_it_is_never_early(ms: int, finer_ns: int) -> None:
    text = f"{written_moment(ms)[:-1]}{finer_ns:06d}Z"
    assert moment_ms(text) == rest_moment_ms(text, "deliver_at") == ms + bool(finer_ns)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("1h", "+1h"), ("1 hour", "+1h"), ("90 minutes", "+90min"), ("2.5 Days", "+2.5d"), ("5 s", "+5s")],
)
def test_a_span_without_a_sign_is_told_how_it_is_written(text: str, meant: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(meant)):
        moment_ms(text)
    assert shift_ms(meant) > 0


@pytest.mark.parametrize("text", ["10 min", "10 minutes", "10min"])
def test_a_span_without_a_sign_is_told_the_sign_that_it_needs(text: str) -> None:
    """Where a time that is past was wanted the advice was "+10min"."""
    with pytest.raises(InvalidParameter, match=r": so long ago is written -10min\.$"):
        time_ms(text, unsigned="back")
    with pytest.raises(InvalidParameter, match=r"\+10min is later by so much, -10min is earlier"):
        moment_ms(text, unsigned="later")
    errors: dict[str, str] = {}
    assert bound_ms(text, "to", errors, "back") is None
    assert "-10min" in errors["to"]
    with pytest.raises(InvalidParameter, match=r"2026-11-21T15:00:00\+08:00.* -1h"):
        time_ms("soon", unsigned="back")


@pytest.mark.parametrize("text", ["10 min", "10 minutes", "+10 min", "10m", "600s"])
def test_a_delay_needs_no_sign(text: str) -> None:
    assert delay_ms(text) == 600_000
    before = now_ms()
    assert before <= time_ms(text, unsigned="from_now") - 600_000 <= now_ms()


@pytest.mark.parametrize("text", ["soon", "", "10", "-1", "10 fortnights"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="is not a duration"):
        delay_ms(text)


@pytest.mark.parametrize("text", ["", "  ", "soon", "2026-11-21"])
def test_what_is_nothing_is_told_both_forms(text: str) -> None:
    with pytest.raises(InvalidParameter, match=r"2026-11-21T15:00:00\+08:00.*\+1h"):
        moment_ms(text)


@pytest.mark.parametrize("text", ["90 min", "+", "+1", "+1 fortnight", "+1e9 s", "+-1 s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        shift_ms(text)


@pytest.mark.parametrize(
    "asked",
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
def test_a_selection_that_says_nothing_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        checked_selection(asked)


def test_a_selection_has_one_form() -> None:
    assert checked_selection({"targets": [{"position": 1}, {"position": 1}]}) == {"targets": [{"position": 1}]}
    assert checked_selection({"filter": {}, "is_all": True})["is_all"]
