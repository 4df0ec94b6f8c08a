"""Rate histories: whole slots, gaps that are gaps, silence that is 0."""

from __future__ import annotations

import pytest

from broker.mirror.models import SLOT_MS, SLOTS
from broker.mirror.watch import Rates, aligned

KEY = ("topic", "orders")


def test_a_slot_is_told_when_it_is_whole() -> None:
    rates = Rates.begin(0, {})
    rates.roll(SLOT_MS)
    rates.add(*KEY, 3)
    rates.add(*KEY, 4)
    assert rates.roll(2 * SLOT_MS - 1) == []
    assert rates.roll(2 * SLOT_MS) == [KEY]
    assert rates.row("b", KEY).counts == [7]
    assert rates.row("b", KEY).slot == 1


def test_the_slot_in_which_watching_began_is_not_told() -> None:
    rates = Rates.begin(SLOT_MS // 2, {})
    rates.add(*KEY, 3)
    assert rates.roll(SLOT_MS) == []


def test_silence_while_watched_is_zero_and_before_it_unknown() -> None:
    rates = Rates.begin(10 * SLOT_MS, {KEY: (5, [1, 2])})
    rates.roll(13 * SLOT_MS)
    rates.add(*KEY, 9)
    rates.roll(14 * SLOT_MS)
    assert rates.row("b", KEY).counts == [1, 2, None, None, None, None, None, 0, 0, 9]


def test_a_history_has_at_most_its_slots() -> None:
    rates = Rates.begin(0, {})
    for slot in range(1, SLOTS + 20):
        rates.roll(slot * SLOT_MS)
        rates.add(*KEY, slot)
    rates.roll((SLOTS + 20) * SLOT_MS)
    assert rates.row("b", KEY).counts == list(range(20, SLOTS + 20))


@pytest.mark.parametrize(
    ("slot", "counts", "until", "since", "expected"),
    [
        (10, [7], 14, 12, [7, None, 0, 0]),
        (10, [7], 11, 0, [7]),
        (10, [7], 10 + SLOTS + 5, 0, [0] * SLOTS),
        (10, [7], 10 + SLOTS + 5, 10**9, [None] * SLOTS),
    ],
)
def test_aligned(slot: int, counts: list[int], until: int, since: int, expected: list[int | None]) -> None:
    assert aligned(slot, counts, until=until, since=since) == expected
