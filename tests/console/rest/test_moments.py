"""Moments: RFC 3339 with a zone or epoch ms, never a local time, never early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.rest.errors import InvalidMoment, ZoneMissing
from console.rest.query import moment_ms, parameter_ms, written_moment


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2027-01-31T08:00:00+01:00", 1_801_378_800_000),
        ("2027-01-31t07:00:00z", 1_801_378_800_000),
        ("2027-01-31 07:00:00Z", 1_801_378_800_000),
        ("2027-01-31T07:00:00-00:00", 1_801_378_800_000),
        ("2027-01-30T23:30:00-07:30", 1_801_378_800_000),
        ("2027-01-31T07:00:00.5Z", 1_801_378_800_500),
        ("2027-01-31T07:00:00.123Z", 1_801_378_800_123),
        ("2027-01-31T07:00:00.1230000Z", 1_801_378_800_123),
        ("2027-01-31T07:00:00.1230001Z", 1_801_378_800_124),
        ("2027-01-31T07:00:00.9999Z", 1_801_378_801_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_moments_with_a_zone_are_read(text: str, ms: int) -> None:
    assert moment_ms(text, "deliver_at") == ms
    assert parameter_ms(text.replace("+", " "), "from") == ms


@pytest.mark.parametrize("text", ["2027-01-31T08:00:00", "2027-01-31 08:00:00.5", "2027-01-31t08:00:00"])
def test_local_times_are_refused_and_named(text: str) -> None:
    with pytest.raises(ZoneMissing, match="has no zone") as caught:
        moment_ms(text, "deliver_at")
    assert caught.value.field == "deliver_at"


@pytest.mark.parametrize(
    "text",
    [
        "", "tomorrow", "NaN", "1e3", "1801378800000", "2027-01-31", "2027-01-31T08:00Z", "20270131T080000Z",
        "2027-W05-7T08:00:00Z", "2027-02-29T08:00:00Z", "2027-01-31T24:00:00Z", "2027-01-31T08:00:60Z",
        "2027-01-31T08:00:00+24:00", "2027-01-31T08:00:00+01:60", "2027-01-31T08:00:00+0100", "2027-01-31T08:00:00 Z",
        "2027-01-31T08:00:00Z ", "\n2027-01-31T08:00:00Z", "12027-01-31T08:00:00Z", "0000-01-31T08:00:00Z",
        "1969-12-31T23:59:59Z", "1970-01-01T00:30:00+01:00", "2027-01-31T08:00:00,5Z",
        "\u0662027-01-31T08:00:00Z", "2027-01-31T08:00:00." + "1" * 19 + "Z",
    ],
)  # fmt: skip
def test_other_text_is_no_moment(text: str) -> None:
    with pytest.raises(InvalidMoment):
        moment_ms(text, "deliver_at")


@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
def test_numbers_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(InvalidMoment):
        moment_ms(number, "deliver_at")


def test_digits_are_epoch_ms_in_an_address_only() -> None:
    assert parameter_ms("1801378800000", "from") == moment_ms(1_801_378_800_000, "from") == 1_801_378_800_000
    with pytest.raises(InvalidMoment, match="without quotes"):
        moment_ms("1801378800000", "deliver_at")


@given(st.integers(0, 253_402_300_799_999))
def test_what_is_written_is_read_again(ms: int) -> None:
    assert moment_ms(written_moment(ms), "x") == ms
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) == datetime.fromisoformat(written_moment(ms))


def test_moments_beyond_the_calendar_are_written_as_numbers() -> None:
    assert written_moment(2**62) == f"{2**62} ms"
