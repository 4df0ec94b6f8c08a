"""A group's own retry policy: what it says, and what becomes of messages that are given back."""

from __future__ import annotations

from typing import Any

import pytest

from broker.engine.tables.groups import Group, is_dead_letter, retry_delay_ms
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles, open_engine
from broker.rocketmq.message import Message, decode

GROUP, RETRY = "billing", "%RETRY%billing"
CUSTOM = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 700, 5_000, 1_500]}}
DOUBLING = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 300, "max": 1_000, "multiplier": 2}}


def group(policy: object) -> Group:
    return Group(GROUP, extra={"groupRetryPolicy": policy})


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (CUSTOM, [700, 5_000, 1_500, 1_500]),
        # mqadmin's help shows such a short one
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1_000, 5_000]}}, [5_000, 5_000]),
        (DOUBLING, [300, 600, 1_000, 1_000]),
        ({"type": "EXPONENTIAL"}, [5_000, 10_000, 20_000]),
        ({"type": "CUSTOMIZED"}, [None, None]),
        ({}, [None]),
        (None, [None]),
        ("EXPONENTIAL", [None]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": "5s"}}, [None]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"multiplier": 0}}, [None]),
        ({"customizedRetryPolicy": {"next": []}}, [None]),
        ({"customizedRetryPolicy": {"next": [True]}}, [None]),
        ({"customizedRetryPolicy": {"next": {"2": 5}}}, [None]),
    ],
)
def test_the_delay_of_each_try(policy: object, delays: list[int | None]) -> None:
    assert [retry_delay_ms(group(policy), times) for times in range(len(delays))] == delays


def test_a_doubling_delay_does_not_grow_without_end() -> None:
    assert retry_delay_ms(group({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"max": 1 << 60}}), 10**9) == (
        5_000 << 32
    )
    assert retry_delay_ms(None, 0) is None


def opened(policy: dict[str, Any]) -> tuple[SimulatedFiles, Driver]:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.engine.groups.put(group(policy))
    return files, driver


def next_try(driver: Driver, after_ms: int, number: int) -> Message:
    """The n-th record of the retry topic: not there a ms before `after_ms`, there then."""
    driver.settle()
    driver.advance(after_ms - 1)
    driver.settle()
    assert not driver.engine.topics.get(RETRY) or driver.engine.queue_bounds(RETRY, 0)[1] == number
    driver.advance(1)
    driver.settle()
    return decode(driver.engine.pull(RETRY, 0, number, 1, 1 << 20).records[0])


def test_a_message_given_back_rests_as_long_as_its_group_says() -> None:
    _, driver = opened(CUSTOM)
    ticket = driver.append("orders", b"poison", UNIQ_KEY="U1", colour="red")
    driver.settle()
    position = ticket.position
    for number, delay_ms in enumerate((700, 5_000, 1_500)):
        driver.engine.send_back(position, GROUP, 0, 16, driver.clock.now_ms)
        found = next_try(driver, delay_ms, number)
        assert (found.reconsume_times, found.body, found.unique_key) == (number + 1, b"poison", "U1")
        assert (found.properties["RETRY_TOPIC"], found.properties["colour"]) == ("orders", "red")
        position = found.position


def test_a_delay_that_the_consumer_chooses_counts() -> None:
    _, driver = opened(CUSTOM)
    ticket = driver.append("orders", b"poison", UNIQ_KEY="U1")
    driver.settle()
    driver.engine.send_back(ticket.position, GROUP, 1, 16, driver.clock.now_ms)
    assert next_try(driver, 1_000, 0).body == b"poison"


def test_after_the_last_try_it_is_a_dead_letter_whatever_the_policy() -> None:
    _, driver = opened(DOUBLING)
    ticket = driver.append("orders", b"poison", UNIQ_KEY="U1")
    driver.settle()
    driver.engine.send_back(ticket.position, GROUP, 0, 0, driver.clock.now_ms)
    driver.settle()
    assert driver.engine.queue_bounds("%DLQ%billing", 0)[1] == 1


def test_a_message_that_rests_survives_a_power_loss() -> None:
    files, driver = opened(DOUBLING)
    ticket = driver.append("orders", b"poison", UNIQ_KEY="U1")
    driver.settle()
    driver.engine.send_back(ticket.position, GROUP, 0, 16, driver.clock.now_ms)
    driver.settle()
    again = open_engine(files.crash(PowerLoss("kill")))
    again.advance(driver.clock.now_ms + 300 - again.clock.now_ms)
    assert again.bodies(RETRY) == [b"poison"]


@pytest.mark.parametrize(
    ("tries", "of_group", "of_consumer", "is_dead"),
    [
        (15, None, None, False),
        (16, None, None, True),
        (2, 3, None, False),
        (3, 3, None, True),
        (3, 3, 5, False),
        (5, 16, 5, True),
        (0, 0, None, True),
        (0, -1, None, True),
    ],
)
def test_a_message_is_dead_after_the_tries_that_its_consumer_or_its_group_allows(
    tries: int, of_group: int | None, of_consumer: int | None, is_dead: bool
) -> None:
    known = None if of_group is None else Group(GROUP, retry_max_times=of_group)
    assert is_dead_letter(known, tries, most_tries=of_consumer) == is_dead
    assert is_dead_letter(known, tries, most_tries=of_consumer, gives_up=True)
