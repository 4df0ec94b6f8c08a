"""Popping in order: one pop of a queue at a time, and what it left comes first."""

from __future__ import annotations

import pytest

from tests.engine.pop.popping import (
    GROUP,
    INVISIBLE_MS,
    RETRY,
    SECOND_MS,
    TOPIC,
    ack,
    ask,
    bodies,
    change,
    offset_of,
    pop,
    popping,
)


def test_a_queue_is_blocked_until_all_of_a_pop_is_done() -> None:
    driver = popping(messages=4)
    first, second = pop(driver, in_order=True, most_messages=2)
    blocked = ask(driver, in_order=True)
    assert (blocked.messages, blocked.again_ms) == (0, driver.clock.now_ms + INVISIBLE_MS)
    assert ack(driver, first)
    assert pop(driver, in_order=True) == []
    assert ack(driver, second)
    assert bodies(pop(driver, in_order=True)) == [b"m2", b"m3"]


def test_queues_do_not_block_each_other() -> None:
    driver = popping(queues=2)
    driver.send(TOPIC, b"zero", queue_id=0)
    assert bodies(pop(driver, in_order=True)) == [b"zero"]
    driver.send(TOPIC, b"one", queue_id=1)
    driver.send(TOPIC, b"later", queue_id=0)
    assert bodies(pop(driver, in_order=True)) == [b"one"]


def test_the_next_pop_begins_at_the_first_that_is_not_done() -> None:
    driver = popping(messages=4)
    first, second, third = pop(driver, in_order=True, most_messages=3)
    assert ack(driver, first)
    assert change(driver, second, 3 * SECOND_MS) is not None
    assert ack(driver, third)
    assert offset_of(driver) == 1
    blocked = ask(driver, in_order=True)
    assert (blocked.messages, blocked.again_ms) == (0, driver.clock.now_ms + 3 * SECOND_MS)
    driver.advance(3 * SECOND_MS)
    again = pop(driver, in_order=True, most_messages=3)
    assert [(each.body, each.count) for each in again] == [(b"m1", 1), (b"m2", 1), (b"m3", 0)]
    assert driver.engine.topics.get(RETRY) is None, "no copies are made"
    driver.advance(INVISIBLE_MS)
    assert [each.count for each in pop(driver, in_order=True)] == [2, 2, 1]


def test_what_was_done_behind_an_open_message_is_done_again_by_the_new_handle() -> None:
    driver = popping(messages=3)
    _, second, third = pop(driver, in_order=True)
    assert ack(driver, second, third)
    driver.advance(INVISIBLE_MS)
    again = pop(driver, in_order=True)
    assert bodies(again) == [b"m0", b"m1", b"m2"]
    assert not ack(driver, third), "a handle of an older pop ends nothing"
    assert ack(driver, again[0])
    assert offset_of(driver) == 1
    assert pop(driver, in_order=True) == []
    assert ack(driver, again[2], again[1])
    assert offset_of(driver) == 3


def test_all_of_a_pop_may_be_done_in_any_order() -> None:
    driver = popping(messages=5)
    held = pop(driver, in_order=True, most_messages=4)
    for each in (held[3], held[1], held[0]):
        assert ack(driver, each)
        assert pop(driver, in_order=True) == []
    assert offset_of(driver) == 2
    assert ack(driver, held[2])
    assert offset_of(driver) == 4
    assert bodies(pop(driver, in_order=True)) == [b"m4"]


def test_many_acknowledged_together_with_a_gap() -> None:
    driver = popping(messages=5)
    held = pop(driver, in_order=True, most_messages=4)
    handle, now_ms = held[0].handle, driver.clock.now_ms
    acked = driver.engine.pops.ack(handle, held[0].bit | held[2].bit | held[3].bit, now_ms)
    assert (acked.taken, acked.refused) == (0b1101, 0)
    driver.settle()
    assert offset_of(driver) == 1
    driver.advance(INVISIBLE_MS)
    again = pop(driver, in_order=True)
    assert [(each.body, each.count) for each in again] == [(b"m1", 1), (b"m2", 1), (b"m3", 1), (b"m4", 0)]
    assert driver.engine.pops.ack(handle, held[1].bit, driver.clock.now_ms).refused
    driver.settle()
    assert offset_of(driver) == 1


def test_a_pop_that_ends_in_the_moment_of_the_next_one_has_other_handles() -> None:
    driver = popping(messages=2)
    first, second = pop(driver, in_order=True)
    assert change(driver, first, 0) is not None
    assert change(driver, second, 0) is not None
    again = pop(driver, in_order=True)
    assert bodies(again) == [b"m0", b"m1"]
    assert not ack(driver, first)
    assert not ack(driver, second)
    assert offset_of(driver) == 0
    assert ack(driver, *again)
    assert offset_of(driver) == 2


@pytest.mark.parametrize("offset", [0, 1, None])
def test_an_acknowledgement_from_before_a_reset_ends_nothing(offset: int | None) -> None:
    driver = popping(messages=3)
    held = pop(driver, in_order=True)
    if offset is None:
        driver.engine.offsets.remove(GROUP, TOPIC)
    else:
        driver.engine.offsets.reset(GROUP, TOPIC, 0, offset)
    again = pop(driver, in_order=True)
    begin = offset or 0
    assert [each.offset for each in again] == list(range(begin, 3))
    assert [each.count for each in again] == [0] * len(again)
    for each in held:
        driver.engine.pops.ack(each.handle, each.bit, driver.clock.now_ms)
    driver.settle()
    assert offset_of(driver) == begin
    assert pop(driver, in_order=True) == []
    assert ack(driver, *again)
    assert offset_of(driver) == 3


def test_what_was_not_done_keeps_its_place_if_less_is_asked_for() -> None:
    driver = popping(messages=4)
    pop(driver, in_order=True, most_messages=3)
    driver.advance(INVISIBLE_MS)
    (first,) = pop(driver, in_order=True, most_messages=1)
    assert (first.body, first.count) == (b"m0", 1)
    assert pop(driver, in_order=True) == []
    assert ack(driver, first)
    again = pop(driver, in_order=True)
    assert [(each.body, each.count) for each in again] == [(b"m1", 1), (b"m2", 1), (b"m3", 0)]


def test_the_same_attempt_gets_the_same_messages_again() -> None:
    driver = popping(messages=3)
    first = pop(driver, in_order=True, attempt="a1", most_messages=2)
    assert pop(driver, in_order=True, attempt="a2") == []
    driver.clock.advance(10)
    again = pop(driver, in_order=True, attempt="a1", most_messages=2)
    assert bodies(again) == bodies(first)
    assert [each.count for each in again] == [0, 0]
    assert not ack(driver, *first[:1]), "the newer handle counts"
    assert ack(driver, *again[1:])
    driver.clock.advance(10)
    third = pop(driver, in_order=True, attempt="a1", most_messages=2)
    assert [(each.body, each.count) for each in third] == [(b"m0", 0), (b"m1", 0)]
    assert ack(driver, third[0])
    fourth = pop(driver, in_order=True, attempt="a1", most_messages=2)
    assert [(each.body, each.count) for each in fourth] == [(b"m1", 0), (b"m2", 0)], "as from the first not done"
    assert ack(driver, *fourth)
    driver.send(TOPIC, b"m3")
    assert bodies(pop(driver, in_order=True, attempt="a3")) == [b"m3"]


def test_more_time_and_less_time_for_one_message() -> None:
    driver = popping(messages=3)
    first, second = pop(driver, in_order=True, most_messages=2)
    longer = change(driver, first, 2 * INVISIBLE_MS)
    assert longer is not None
    assert longer.handle.pop_ms == first.handle.pop_ms
    assert longer.handle.invisible_ms == 2 * INVISIBLE_MS
    driver.advance(INVISIBLE_MS)
    assert pop(driver, in_order=True) == [], "one of them is not visible yet"
    assert ack(driver, longer)
    assert bodies(pop(driver, in_order=True, most_messages=1)) == [second.body]
    driver.advance(INVISIBLE_MS)
    (again,) = pop(driver, in_order=True, most_messages=1)
    assert change(driver, again, SECOND_MS) is not None
    driver.advance(SECOND_MS)
    assert bodies(pop(driver, in_order=True, most_messages=1)) == [second.body]


def test_the_table_of_offsets_shows_how_far_all_is_over() -> None:
    driver = popping(messages=4)
    first, second, third = pop(driver, in_order=True, most_messages=3)
    ack(driver, third)
    driver.settle()
    assert offset_of(driver) == 0
    ack(driver, first)
    pop(driver, in_order=True)
    assert offset_of(driver) == 1
    ack(driver, second)
    driver.settle()
    pop(driver, in_order=True)
    assert offset_of(driver) == 3


def test_what_a_filter_passes_is_over() -> None:
    driver = popping()
    for number in range(4):
        driver.append(TOPIC, b"m%d" % number, TAGS="a" if number % 2 else "b")
    driver.settle()
    wanted = frozenset({ord("a")})
    held = pop(driver, in_order=True, tags_codes=wanted)
    assert bodies(held) == [b"m1", b"m3"]
    assert ack(driver, *held)
    driver.advance(INVISIBLE_MS)
    assert pop(driver, in_order=True) == []


def test_a_group_that_pops_in_no_order_any_more_gets_what_was_left() -> None:
    driver = popping(messages=3)
    first, _ = pop(driver, in_order=True, most_messages=2)
    assert ack(driver, first)
    assert pop(driver) == []
    driver.advance(INVISIBLE_MS)
    held = pop(driver)
    assert bodies(held) == [b"m1", b"m2"]
    assert ack(driver, *held)
    driver.send(TOPIC, b"new")
    assert bodies(pop(driver)) == [b"new"]


def test_a_clock_set_back_blocks_nobody_longer() -> None:
    driver = popping(messages=1)
    pop(driver, in_order=True)
    driver.clock.now_ms -= 3_600_000
    driver.tick()
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver, in_order=True)) == [b"m0"]
