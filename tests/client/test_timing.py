"""What a sender says about when: the properties that are sent, and what is refused before anything is."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client import InvalidArgument, TimerTarget, prepare
from broker.client.names import MAX_SCHEDULE_KEY_CHARACTERS

LATEST = 2**63 - 1
EVERYTHING = (
    "TIMER_DELAY_MS\x017\x02ESC_SCHEDULE_KEY\x01order 4711/\u7ea2\x02ESC_ON_CONFLICT\x01replace\x02"
    "ESC_REJECT_PAST\x01true\x02"
)


@pytest.mark.parametrize(
    ("timing", "properties"),
    [
        ({"deliver_at_ms": 978_307_200_000}, "TIMER_DELIVER_MS\x01978307200000\x02"),
        ({"deliver_at_ms": LATEST}, f"TIMER_DELIVER_MS\x01{LATEST}\x02"),
        ({"delay_ms": 0}, "TIMER_DELAY_MS\x010\x02"),
        (
            {"delay_ms": 7, "schedule_key": "order 4711/\u7ea2", "on_conflict": "replace", "reject_past": True},
            EVERYTHING,
        ),
        ({"deliver_at_ms": None, "delay_ms": None, "schedule_key": None, "on_conflict": None}, ""),
        ({"reject_past": False}, ""),
    ],
)
def test_options_become_properties(timing: Any, properties: str) -> None:
    assert prepare("x", **timing).properties.endswith("WAIT\x01true\x02" + properties)


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        ({"deliver_at_ms": -1}, "deliver_at_ms"),
        ({"deliver_at_ms": LATEST + 1}, "deliver_at_ms"),
        ({"deliver_at_ms": float("nan")}, "deliver_at_ms"),
        ({"deliver_at_ms": 5.0}, "deliver_at_ms"),
        ({"deliver_at_ms": True}, "deliver_at_ms"),
        ({"deliver_at_ms": "5"}, "deliver_at_ms"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": float("inf")}, "delay_ms"),
        ({"deliver_at_ms": 5, "delay_ms": 5}, "delay_ms"),
        ({"deliver_at_ms": 5, "delay_level": 3}, "deliver_at_ms"),
        ({"schedule_key": "k"}, "schedule_key"),
        ({"schedule_key": "", "delay_ms": 5}, "schedule_key"),
        ({"schedule_key": "x" * (MAX_SCHEDULE_KEY_CHARACTERS + 1), "delay_ms": 5}, "schedule_key"),
        ({"schedule_key": "a\x02b", "delay_ms": 5}, "schedule_key"),
        ({"schedule_key": "a\nb", "delay_ms": 5}, "schedule_key"),
        ({"schedule_key": "\ud800", "delay_ms": 5}, "schedule_key"),
        ({"schedule_key": 4711, "delay_ms": 5}, "schedule_key"),
        ({"on_conflict": "keep", "delay_ms": 5}, "on_conflict"),
        ({"on_conflict": "merge", "schedule_key": "k", "delay_ms": 5}, "on_conflict"),
        ({"reject_past": True}, "reject_past"),
        ({"reject_past": True, "delay_level": 3}, "reject_past"),
        ({"reject_past": "false", "delay_ms": 5}, "reject_past"),
        ({"deliver_at_ms": 10**5000}, "deliver_at_ms"),
        ({"delay_ms": -(10**5000)}, "delay_ms"),
        ({"delay_ms": "x" * 10_000}, "delay_ms"),
    ],
)
def test_what_makes_no_sense_is_refused(timing: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        prepare("x", **timing)
    assert caught.value.field == field
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["deliver_at", "delay_s", "scheduleKey"])
def test_an_option_that_there_is_not_sends_nothing_at_once(name: str) -> None:
    with pytest.raises(TypeError, match=f"'{name}'.*deliver_at_ms"):
        prepare("x", **{name: 5})


@pytest.mark.parametrize(
    "fields",
    [{}, {"topic": "t"}, {"scheduleKey": "k"}, {"uniqueKey": "u"}, {"position": 1, "handle": "h"}, {"position": "1"},
     {"topic": "", "scheduleKey": "k"}, {"position": 1, "unknown": 2}, {"dueMs": 5}],
)  # fmt: skip
def test_targets_that_name_no_timer_or_two_are_refused(fields: Any) -> None:
    with pytest.raises(InvalidArgument):
        TimerTarget.of(fields)


def test_targets_are_the_same_as_their_fields() -> None:
    named = TimerTarget(topic="t", schedule_key="k", due_ms=5)
    assert TimerTarget.of({"topic": "t", "scheduleKey": "k", "dueMs": 5}) == TimerTarget.of(named) == named
