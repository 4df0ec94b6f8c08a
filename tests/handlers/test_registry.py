"""What the decorator takes and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from broker.client import InvalidArgument
from broker.handlers import HandlingError, consumer, forget_all, registered


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def bill(message: Any) -> None: ...
def ship(message: Any) -> None: ...


def test_a_handler_is_found_by_group_and_topic() -> None:
    assert consumer("orders", "shipping")(ship) is ship
    assert consumer("orders", "billing", "paid || created", from_where="first", threads=2)(bill) is bill
    seen = [(each.group, each.topic, each.expression, each.handler) for each in registered()]
    assert seen == [("billing", "orders", "paid || created", bill), ("shipping", "orders", "*", ship)]


def test_importing_a_module_twice_is_no_contradiction() -> None:
    for _ in range(2):
        consumer("orders", "billing")(bill)
    assert len(registered()) == 1


def test_two_handlers_of_a_topic_in_one_group_are_refused_by_name() -> None:
    consumer("orders", "billing")(bill)
    with pytest.raises(HandlingError, match=r"test_registry\.ship and .*test_registry\.bill both handle orders"):
        consumer("orders", "billing")(ship)
    assert [each.handler for each in registered()] == [bill]


@pytest.mark.parametrize("other", [{"from_where": "first"}, {"threads": 3}, {"orderly": True}])
def test_what_belongs_to_the_group_is_the_same_for_all_its_handlers(other: dict[str, Any]) -> None:
    consumer("orders", "billing")(bill)
    with pytest.raises(HandlingError, match=f"differ about group billing: {next(iter(other))} belongs"):
        consumer("refunds", "billing", **other)(ship)


@pytest.mark.parametrize(
    "arguments", [("a topic", "billing"), ("orders", "a group"), ("orders", "billing", "paid ||"), ("", "billing")]
)
def test_names_that_no_broker_takes_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        consumer(*arguments)


@pytest.mark.parametrize(
    ("wrong", "bounds"),
    [
        ({"threads": 0}, "at least 1"),
        ({"max_reconsume_times": -1}, "at least 0"),
        ({"suspend_ms": 9}, "10 to 30000"),
        ({"suspend_ms": 30_001}, "10 to 30000"),
    ],
)
def test_numbers_that_no_consumer_takes_are_refused(wrong: dict[str, Any], bounds: str) -> None:
    with pytest.raises(HandlingError, match=f"of group billing is not valid: {bounds}"):
        consumer("orders", "billing", **wrong)


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="No handlers: write functions"):
        call_command("consume")
    consumer("orders", "billing")(bill)
    with pytest.raises(CommandError, match="No handlers for group other; there are some for billing"):
        call_command("consume", "--group", "other")
    call_command("consume", "--list")
    assert capsys.readouterr().out.startswith("billing: orders [*] ")


def test_a_time_to_drain_that_is_none_is_refused_by_the_command() -> None:
    consumer("orders", "billing")(bill)
    with pytest.raises(CommandError, match="drain_timeout_s is -1"):
        call_command("consume", "--drain-timeout", "-1", stdout=StringIO())
