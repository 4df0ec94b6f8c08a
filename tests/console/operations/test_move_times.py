"""Times that are offered for a move: what a press means when it arrives, by the reader's clock."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from console.features.alerts import units
from console.operations.errors import InvalidParameter
from console.operations.move_times import all_at, later, move_of
from console.operations.typed_moments import delay_ms
from console.site.clock import local_time, now_ms

HOUR = 3_600_000


def test_later_is_a_shift_and_all_at_is_a_time() -> None:
    assert [move_of(each.code) for each in later()] == [
        {"shift_ms": ms, "due_ms": None} for ms in (600_000, HOUR, 24 * HOUR)
    ]
    for each in all_at():
        moved = move_of(each.code)
        assert moved["shift_ms"] is None
        assert moved["due_ms"] is not None and now_ms() < moved["due_ms"] < now_ms() + 48 * HOUR


def test_what_was_chosen_is_marked_and_hours_name_their_zone() -> None:
    """Nothing said which of the buttons the preview is of, nor whose clock "tonight 20:00" goes by."""
    assert [each.is_chosen for each in later(HOUR)] == [False, True, False]
    for each in all_at():
        due_ms = move_of(each.code)["due_ms"]
        assert [again.code for again in all_at(due_ms) if again.is_chosen] == [each.code]
    assert not any(each.is_chosen for each in (*later(), *all_at(), *all_at(now_ms() + HOUR - 120_000)))
    with timezone.override(ZoneInfo("Europe/Berlin")):
        assert all(each.words.endswith(("CET", "CEST")) for each in all_at()[1:])


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles", "UTC"])
def test_hours_are_of_the_readers_clock(zone: str) -> None:
    with timezone.override(ZoneInfo(zone)):
        here = local_time(now_ms())
        morning = move_of("tomorrow-9")["due_ms"]
        assert morning is not None
        at = local_time(morning)
        assert (at.hour, at.minute, (at.date() - here.date()).days) == (9, 0, 1)
        assert ("today-20" in [each.code for each in all_at()]) is (here.hour < 20)


@pytest.mark.parametrize(
    "code", ["", "later", "later--5", "later-x", "in-99999999999999", "today-24", "today-0", "never-1"]
)
def test_another_code_and_an_hour_that_has_passed_are_refused(code: str) -> None:
    with pytest.raises(InvalidParameter):
        move_of(code)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1 min", 60_000), ("1 分", 60_000), ("10分钟", 600_000), ("1.5 小时", 5_400_000), ("2 天", 172_800_000),
     ("90 秒", 90_000), ("500 毫秒", 500), ("+5 分", 300_000), ("\uff0b5 分", 300_000)],
)  # fmt: skip
def test_a_duration_is_typed_in_english_and_in_chinese(text: str, ms: int) -> None:
    assert delay_ms(text) == ms


def test_what_a_page_shows_of_a_threshold_can_be_typed_again() -> None:
    with translation.override("zh-hans"):
        assert units.as_text("still", 300) == "5 分"
        assert units.in_words("lateness", 250) == "250 毫秒"
        assert units.read("still", "5 分") == units.read("still", "5 min") == 300
    assert units.as_text("still", 300) == "5 min"
