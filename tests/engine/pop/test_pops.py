"""Popped messages: nobody else's for a while, given out again unless acknowledged, and never after that."""

from __future__ import annotations

import pytest

from broker.engine.pop import take
from broker.engine.pop.revive import COPIED_BYTES
from tests.engine.pop.popping import (
    DLQ,
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


def test_what_is_out_is_nobody_elses() -> None:
    driver = popping(messages=5)
    assert bodies(pop(driver, most_messages=3)) == [b"m0", b"m1", b"m2"]
    assert bodies(pop(driver)) == [b"m3", b"m4"]
    assert pop(driver) == []
    driver.advance(INVISIBLE_MS - 1)
    assert pop(driver) == []


def test_another_group_has_messages_of_its_own() -> None:
    driver = popping(messages=2)
    driver.engine.groups.ensure("shippers")
    assert bodies(pop(driver)) == bodies(pop(driver, group="shippers")) == [b"m0", b"m1"]


def test_what_is_acknowledged_is_never_given_out_again() -> None:
    driver = popping(messages=3)
    first, *rest = pop(driver)
    assert ack(driver, first)
    driver.advance(INVISIBLE_MS)
    again = pop(driver)
    assert sorted(bodies(again)) == [b"m1", b"m2"]
    assert ack(driver, *again)
    driver.advance(20 * INVISIBLE_MS)
    assert pop(driver) == []
    assert len(rest) == 2


def test_what_was_not_acknowledged_comes_as_another_try() -> None:
    driver = popping()
    driver.send(TOPIC, b"pay", UNIQ_KEY="U7", KEYS="k1", TAGS="eu", color="red", ESC_NOTE="kept")
    pop_ms = driver.clock.now_ms
    (first,) = pop(driver)
    assert (first.message.topic, first.message.reconsume_times) == (TOPIC, 0)
    driver.advance(INVISIBLE_MS)
    (again,) = pop(driver)
    message = again.message
    assert (message.topic, message.queue_id, message.body, message.reconsume_times) == (RETRY, 0, b"pay", 1)
    assert message.born_ms == first.message.born_ms
    assert message.properties == {
        "UNIQ_KEY": "U7", "KEYS": "k1", "TAGS": "eu", "color": "red", "ESC_NOTE": "kept", "1ST_POP_TIME": str(pop_ms),
        "ORIGIN_GROUP": GROUP, "ORIGIN_MESSAGE_ID": first.message.offset_message_id, "WAIT": "false",
        "ESC_POPPED": f"{GROUP}@{TOPIC}@0@0@0@{pop_ms}",
    }  # fmt: skip
    driver.advance(INVISIBLE_MS)
    (third,) = pop(driver)
    assert third.message.reconsume_times == 2
    assert third.message.properties["1ST_POP_TIME"] == str(pop_ms)
    assert third.message.properties["ORIGIN_MESSAGE_ID"] == first.message.offset_message_id
    assert ack(driver, third)
    assert driver.engine.find(RETRY, "U7", begin_ms=0, end_ms=1 << 60, max_count=9, now_ms=0), "found by its id"


def test_it_comes_at_the_millisecond_and_not_before() -> None:
    driver = popping(messages=1)
    pop(driver, invisible_ms=1_500)
    driver.advance(1_499)
    assert pop(driver) == []
    driver.advance(1)
    assert bodies(pop(driver)) == [b"m0"]


def test_after_the_last_try_it_is_a_dead_letter_once() -> None:
    driver = popping(messages=1)
    group = driver.engine.groups.ensure(GROUP)
    driver.engine.groups.put(type(group)(GROUP, retry_max_times=2))
    origin = ""
    for _ in range(3):
        (held,) = pop(driver)
        origin = origin or held.message.offset_message_id
        driver.advance(INVISIBLE_MS)
    assert pop(driver) == []
    driver.advance(10 * INVISIBLE_MS)
    (dead,) = driver.readable(DLQ).values()
    assert (dead.body, dead.reconsume_times) == (b"m0", 3)
    properties = dead.properties
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == (TOPIC, origin)
    assert (properties["RETRY_TOPIC"], properties["DELAY"]) == (TOPIC, "0")
    assert driver.engine.pops.reviver.dead_total == 1


def test_an_acknowledgement_that_comes_too_late_is_refused() -> None:
    driver = popping(messages=2)
    first, second = pop(driver)
    driver.advance(INVISIBLE_MS)
    assert not ack(driver, first)
    assert sorted(bodies(pop(driver))) == [b"m0", b"m1"], "it was given out again, as it was said"
    assert change(driver, second, SECOND_MS) is None


def test_an_acknowledgement_in_time_counts_though_the_tick_is_late() -> None:
    driver = popping(messages=1)
    (held,) = pop(driver)
    driver.clock.advance(INVISIBLE_MS + 50)
    assert ack(driver, held)
    driver.tick()
    assert pop(driver) == []


def test_the_same_acknowledgement_once_more_is_fine_while_its_time_lasts() -> None:
    driver = popping(messages=2)
    first, _ = pop(driver)
    assert ack(driver, first)
    assert ack(driver, first)
    driver.advance(INVISIBLE_MS)
    assert not ack(driver, first)


def test_what_nobody_holds_cannot_be_acknowledged() -> None:
    driver = popping(messages=3)
    (held,) = pop(driver, most_messages=1)
    key = held.handle.key
    wrong = [
        held._replace(offset=2),  # not handed out
        held._replace(handle=held.handle._replace(pop_ms=held.handle.pop_ms + 1, invisible_ms=0)),
        held._replace(handle=held.handle._replace(key=("strangers", *key[1:]))),
        held._replace(handle=held.handle._replace(key=(GROUP, TOPIC, 9))),
    ]
    assert [ack(driver, each) for each in wrong] == [False] * 4
    driver.advance(INVISIBLE_MS)
    assert sorted(bodies(pop(driver))) == [b"m0", b"m1", b"m2"]


def test_more_time_makes_a_new_handle() -> None:
    driver = popping(messages=2)
    first, second = pop(driver)
    longer = change(driver, first, 2 * INVISIBLE_MS)
    assert longer is not None
    assert (longer.handle.start, longer.handle.invisible_ms) == (first.offset, 2 * INVISIBLE_MS)
    assert not ack(driver, first), "the older handle counts no more"
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver)) == [second.body]
    assert ack(driver, longer)
    driver.advance(3 * INVISIBLE_MS)
    assert sorted(bodies(pop(driver))) == [second.body]


def test_a_message_given_back_comes_when_it_was_asked_for() -> None:
    driver = popping(messages=2)
    first, second = pop(driver)
    assert change(driver, first, 0) is not None
    driver.tick()
    assert bodies(pop(driver)) == [first.body]
    assert change(driver, second, 5_000) is not None
    driver.advance(4_999)
    assert pop(driver) == []
    driver.advance(1)
    assert bodies(pop(driver)) == [second.body]


def test_a_time_changed_twice_in_one_millisecond_has_two_handles() -> None:
    driver = popping(messages=1)
    (held,) = pop(driver)
    once = change(driver, held, INVISIBLE_MS)
    assert once is not None
    twice = change(driver, once, INVISIBLE_MS)
    assert twice is not None
    assert len({each.handle.pop_ms for each in (held, once, twice)}) == 3
    assert not ack(driver, once)
    assert ack(driver, twice)


def test_a_filter_hands_out_what_matches_and_passes_the_rest() -> None:
    driver = popping()
    for number in range(6):
        driver.append(TOPIC, b"m%d" % number, TAGS="a" if number in (1, 4) else "b")
    driver.settle()
    wanted = frozenset({ord("a")})
    first, second = pop(driver, tags_codes=wanted)
    assert [each.offset for each in (first, second)] == [1, 4]
    assert offset_of(driver) == 1, "what did not match is over"
    assert ack(driver, second)
    assert offset_of(driver) == 1
    assert ack(driver, first)
    driver.settle()
    assert offset_of(driver) == 6
    driver.advance(INVISIBLE_MS)
    assert pop(driver, tags_codes=wanted) == []


def test_a_filter_that_finds_nothing_says_that_there_is_more_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.queues.reader._SCAN_ENTRIES", 2)
    monkeypatch.setattr(take, "_MOST_SCANS", 2)
    driver = popping()
    for number in range(7):
        driver.append(TOPIC, b"m%d" % number, TAGS="a" if number == 6 else "b")
    driver.settle()
    wanted = frozenset({ord("a")})
    popped = ask(driver, tags_codes=wanted)
    assert (popped.messages, popped.again_ms, popped.rest) == (0, driver.clock.now_ms, 3)
    assert bodies(pop(driver, tags_codes=wanted)) == [b"m6"]


def test_large_messages_are_given_out_again_a_few_at_a_time() -> None:
    """Who sends meanwhile waits for the sync that they are in."""
    driver = popping(segment_size_bytes=16 << 20, max_body_bytes=1 << 20)
    for number in range(32):
        driver.append(TOPIC, bytes(100 << 10), UNIQ_KEY=f"U{number}")
    driver.settle()
    assert len(pop(driver, most_messages=32, most_bytes=8 << 20)) == 32
    driver.clock.now_ms += INVISIBLE_MS
    driver.engine.tick(driver.clock.now_ms)
    assert driver.engine.pops.reviver.revived_total == 1 + COPIED_BYTES // (101 << 10)
    driver.advance(SECOND_MS)
    assert len({held.message.unique_key for held in pop(driver, most_messages=64, most_bytes=8 << 20)}) == 32


def test_what_others_send_keeps_nothing_from_being_given_out_again() -> None:
    driver = popping(segment_size_bytes=16 << 20, max_body_bytes=1 << 20)
    for number in range(32):
        driver.append(TOPIC, bytes(1 << 10), UNIQ_KEY=f"U{number}")
    driver.settle()
    assert len(pop(driver, most_bytes=8 << 20)) == 32
    driver.append(TOPIC, bytes(2 * COPIED_BYTES), UNIQ_KEY="large")
    driver.clock.now_ms += INVISIBLE_MS
    driver.engine.tick(driver.clock.now_ms)
    assert driver.engine.pops.reviver.revived_total == 32
