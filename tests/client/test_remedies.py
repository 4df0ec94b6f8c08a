"""Errors that name the argument, say what was wrong with it, and what to give instead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from broker.client import InvalidArgument, Producer, ScheduleKeyTaken, Sql, prepare, subscription
from broker.client.names import MAX_DELAY_LEVEL, allow_delay_levels
from broker.rocketmq.properties import TIMER_DELAY_MS, TIMER_DELIVER_MS
from broker.testing import BrokerThread

HOUR_MS = 3_600_000
NOW_S = 1_795_000_000


def refusal(**options: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refused:
        prepare("x", **options)
    return refused.value


@pytest.fixture
def usual_levels() -> Iterator[None]:
    yield
    allow_delay_levels(MAX_DELAY_LEVEL)


@pytest.mark.parametrize(
    ("options", "field", "words"),
    [
        ({"keys": [4711]}, "keys", "key 4711 is an int; keys are text: give '4711'"),
        ({"keys": "4711"}, "keys", "not one string: ['4711']"),
        ({"tag": 5}, "tag", "tag 5 is an int; a tag is text: give '5'"),
        ({"properties": {"amount": 12.5}}, "properties", "12.5, a float; properties map text to text: give '12.5'"),
        ({"properties": {7: "x"}}, "properties", "7, an int"),
        ({"delay_level": 19}, "delay_level", "delay=timedelta"),
        ({"deliver_at_ms": NOW_S}, "deliver_at_ms", f"January 1970; it looks like seconds: give {NOW_S * 1000}"),
        ({"deliver_at_ms": 5}, "deliver_at_ms", "January 1970"),
        ({"at": datetime(1999, 1, 1, tzinfo=UTC)}, "at", "January 1999"),
        ({"at": datetime(2030, 1, 1)}, "at", "no time zone"),  # noqa: DTZ001 - that is what is refused
        ({"at": NOW_S}, "at", "deliver_at_ms"),
        ({"delay": 30}, "delay", "timedelta(seconds=...)"),
        ({"delay": timedelta(seconds=-1)}, "delay", "negative"),
        ({"delay": timedelta(1), "delay_ms": 5}, "delay_ms", "delay and delay_ms, not both"),
        ({"delay": timedelta(1), "delay_level": 5}, "delay", "delay_level and delay"),
        ({"schedule_key": "k"}, "schedule_key", "at, delay"),
    ],
)  # fmt: skip
def test_the_error_names_what_is_wrong_and_what_to_give(options: dict[str, Any], field: str, words: str) -> None:
    error = refusal(**options)
    assert error.field == field
    assert words in str(error)


def test_times_as_people_have_them_become_ms_never_too_early() -> None:
    berlin = datetime(2030, 7, 1, 12, 0, 0, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    noon_ms = int(datetime(2030, 7, 1, 10, tzinfo=UTC).timestamp() * 1000)
    assert f"{TIMER_DELIVER_MS}\x01{noon_ms + 1}\x02" in prepare("x", at=berlin).properties
    assert f"{TIMER_DELIVER_MS}\x01{noon_ms}\x02" in prepare("x", at=berlin.replace(microsecond=0)).properties
    assert f"{TIMER_DELAY_MS}\x011801\x02" in prepare("x", delay=timedelta(seconds=1.8, microseconds=1)).properties
    assert f"{TIMER_DELAY_MS}\x010\x02" in prepare("x", delay=timedelta()).properties


@pytest.mark.usefixtures("usual_levels")
def test_brokers_with_more_levels_are_said_to_have_them() -> None:
    allow_delay_levels(20)
    assert "\x0120\x02" in prepare("x", delay_level=20).properties
    assert "above 20" in str(refusal(delay_level=21))


def test_a_key_that_is_taken_is_answered_with_the_arguments_name(broker: BrokerThread) -> None:
    with Producer("shop", broker.namesrv) as producer:
        producer.send("orders", "x", delay=timedelta(hours=1), schedule_key="order-1")
        with pytest.raises(ScheduleKeyTaken) as taken:
            producer.send("orders", "y", delay_ms=HOUR_MS, schedule_key="order-1")
    assert "'order-1'" in str(taken.value)
    assert "on_conflict='replace'" in str(taken.value)
    assert "ESC_" not in str(taken.value)


def test_a_batch_takes_no_delay_in_any_form(broker: BrokerThread) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    with Producer("shop", broker.namesrv) as producer:
        for message in (prepare("x", delay=timedelta(hours=1)), prepare("x", at=at)):
            with pytest.raises(InvalidArgument, match="cannot be delayed"):
                producer.send_batch("orders", [message])


def test_a_filter_that_cannot_be_read_is_refused_where_it_is_subscribed() -> None:
    with pytest.raises(InvalidArgument, match="character 9") as refused:
        subscription("orders", Sql("amount >"))
    assert refused.value.field == "expression"
