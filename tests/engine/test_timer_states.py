"""One table says whether a timer waits, is claimed, or is over: nothing claims twice, and nothing leads back."""

from __future__ import annotations

from array import array

import pytest

from broker.engine.timer.state import End, Timer, TimerStates


def timer(offset: int, topic: str = "orders") -> Timer:
    return Timer(offset, 1_000 + offset * 100, 100, 5_000, topic)


def table(count: int) -> TimerStates:
    states = TimerStates()
    timers = [timer(offset) for offset in range(count)]
    for each in timers:
        states.appended(each)
    states.accept(timers)
    return states


def test_a_timer_waits_before_it_is_visible_and_after() -> None:
    states = TimerStates()
    states.appended(timer(0))
    states.appended(timer(1))
    assert (states.waits(0), states.pending, states.end_offset) == (True, 0, 0)
    assert states.unseen_at(1_100) == timer(1)
    states.accept([timer(0)])
    assert (states.waits(0), states.pending, states.end_offset) == (True, 1, 1)
    assert (states.unseen_at(1_000), states.unseen_at(1_100)) == (None, timer(1))


@pytest.mark.parametrize("end", ["delivered", "cancelled", "rescheduled"])
def test_what_is_claimed_waits_no_more_and_counts_until_it_is_over(end: End) -> None:
    states = table(3)
    states.claim(1, end)
    assert [states.waits(offset) for offset in range(3)] == [True, False, True]
    assert (states.claimed_as(1), states.pending) == (end, 3)
    assert states.end(1, "orders")
    assert (states.claimed_as(1), states.pending, states.by_topic) == (None, 2, {"orders": 2})
    assert not states.end(1, "orders")
    assert list(states.not_over(0, 3)) == [0, 2]


def test_nothing_claims_a_timer_that_is_claimed_or_over() -> None:
    states = table(2)
    states.claim(0, "cancelled")
    states.end(1, "orders")
    for offset in (0, 1):
        with pytest.raises(AssertionError):
            states.claim(offset, "delivered")
    assert states.claimed_as(0) == "cancelled"


def test_what_is_claimed_before_it_is_visible_stays_so() -> None:
    states = TimerStates()
    states.appended(timer(0))
    states.claim(0, "cancelled")
    states.accept([timer(0)])
    assert not states.waits(0)
    assert states.end(0, "orders")
    assert (states.pending, states.by_topic) == (0, {})


def test_a_portion_is_claimed_and_over_as_one() -> None:
    states = table(5)
    first, second = array("q", [0, 1]), array("q", [2, 4])
    states.claim_portion(first, 5_000)
    states.claim_portion(second, 6_000)
    assert (states.releasing_ms(), states.all_wait([3]), states.all_wait([3, 4])) == ([5_000, 6_000], True, False)
    states.end_portion(first, {"orders": 2})
    assert (states.releasing_ms(), states.pending, states.totals.released) == ([6_000], 3, 2)
    states.end_portion(second, {"orders": 2})
    assert (states.releasing_ms(), states.by_topic, states.lowest()) == ([], {"orders": 1}, 3)


def test_what_a_checkpoint_kept_is_taken_over() -> None:
    states = table(4)
    states.end(0, "orders")
    states.claim(1, "cancelled")
    other = TimerStates()
    other.restore(states.end_offset, states.chunks(), states.by_topic)
    assert [other.waits(offset) for offset in range(5)] == [False, True, True, True, True]
    assert (other.pending, other.end_offset) == (3, 4)
