"""Unique ids say when they were made, as RocketMQ's tools read them (MessageClientIDSetter.getNearlyTimeFromID)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from broker.client import prepare
from broker.rocketmq.ids import UniqueIds

ADDRESS = b"\x7f\x00\x00\x01"


def month_begin_ms(moment_ms: int) -> int:
    year, month = time.localtime(moment_ms / 1000)[:2]
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1)) * 1000)


def since_month_began_ms(unique_id: str) -> int:
    return int(unique_id[20:28], 16)


@pytest.mark.parametrize(
    "next_id",
    [lambda: prepare("").message_id, UniqueIds().next_id, UniqueIds(ADDRESS).next_id],
    ids=["client", "random", "broker"],
)
def test_an_id_says_how_long_ago_the_month_began(next_id: Callable[[], str]) -> None:
    before_ms = int(time.time() * 1000)
    said_ms = month_begin_ms(before_ms) + since_month_began_ms(next_id())
    assert before_ms - 1_000 <= said_ms <= int(time.time() * 1000) + 1_000


def test_each_month_is_counted_by_itself() -> None:
    begin_ms = month_begin_ms(1_796_000_000_000)
    moment_ms = begin_ms - 1
    ids = UniqueIds(ADDRESS, lambda: moment_ms)
    last = since_month_began_ms(ids.next_id())
    moment_ms = begin_ms + 5
    assert (last, since_month_began_ms(ids.next_id())) == (begin_ms - 1 - month_begin_ms(begin_ms - 1), 5)


def test_a_broker_s_ids_begin_with_its_address() -> None:
    ids = UniqueIds(ADDRESS)
    assert {ids.next_id()[:8] for _ in range(3)} == {"7F000001"}
    assert ids.next_id()[:20] == ids.next_id()[:20] != UniqueIds(ADDRESS).next_id()[:20]
