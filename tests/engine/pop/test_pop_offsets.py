"""Where popping groups begin, go on and stop; what is shared out, and what is refused."""

from __future__ import annotations

import pytest

from broker.engine.errors import InvalidTopicName
from broker.engine.pop import take
from broker.engine.pop.service import Handle
from broker.rocketmq.topics import POP_TOPIC
from tests.engine.pop.popping import (
    GROUP,
    INVISIBLE_MS,
    RETRY,
    TOPIC,
    ack,
    ask,
    bodies,
    change,
    held_of,
    offset_of,
    pop,
    popping,
)


def test_all_queues_take_turns_and_none_is_left_out() -> None:
    driver = popping(queues=3)
    for queue_id in range(3):
        for number in range(2):
            driver.append(TOPIC, b"%d-%d" % (queue_id, number), queue_id=queue_id)
    driver.settle()
    firsts = [pop(driver, most_messages=1)[0].handle.key[2] for _ in range(3)]
    assert sorted(firsts) == [0, 1, 2]
    assert sorted(bodies(pop(driver))) == [b"0-1", b"1-1", b"2-1"]


def test_one_queue_can_be_asked_for() -> None:
    driver = popping(queues=2)
    driver.send(TOPIC, b"zero", queue_id=0)
    driver.send(TOPIC, b"one", queue_id=1)
    assert bodies(pop(driver, queue_id=1)) == [b"one"]


def test_an_answer_holds_what_was_asked_for_and_says_how_much_is_left() -> None:
    driver = popping(queues=2)
    for number in range(10):
        driver.append(TOPIC, b"m%d" % number, queue_id=number % 2)
    driver.settle()
    popped = ask(driver, most_messages=4)
    assert (popped.messages, popped.rest) == (4, 6)
    assert len(held_of(ask(driver, most_bytes=1))) == 2, "at least one of each queue, however small the limit"


def test_other_tries_come_first_now_and_then() -> None:
    driver = popping(messages=1)
    pop(driver)
    driver.advance(INVISIBLE_MS)
    for number in range(40):
        driver.append(TOPIC, b"new%d" % number)
    driver.settle()
    order = [bodies(pop(driver, most_messages=1))[0] for _ in range(6)]
    assert b"m0" in order, "a topic that never runs dry does not starve them"


@pytest.mark.parametrize(
    ("from_end", "removed", "expected"), [(False, 0, 0), (True, 0, 0), (True, 2, 4), (False, 2, 2)]
)
def test_where_a_new_group_begins(from_end: bool, removed: int, expected: int) -> None:
    driver = popping(messages=5)
    queue = driver.engine._store.queues.ensure(TOPIC, 0)
    queue.min_offset = removed
    (held, *_) = pop(driver, from_end=from_end)
    assert held.offset == expected


def test_a_group_goes_on_where_it_pulled_to() -> None:
    driver = popping(messages=5)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 3)
    assert bodies(pop(driver)) == [b"m3", b"m4"]


def test_the_table_of_offsets_shows_how_far_all_is_over() -> None:
    driver = popping(messages=4)
    first, second, third, fourth = pop(driver)
    ack(driver, second, fourth)
    driver.settle()
    assert offset_of(driver) == 0
    ack(driver, first)
    pop(driver)
    assert offset_of(driver) == 2
    driver.advance(INVISIBLE_MS)
    driver.settle()
    pop(driver)
    assert offset_of(driver) == 4, "the third waits in the retry topic"
    assert offset_of(driver, topic=RETRY) == 0
    assert third.offset == 2


@pytest.mark.parametrize(("offset", "expected"), [(1, [b"m1", b"m2", b"m3"]), (3, [b"m3"])])
def test_a_group_that_is_reset_begins_there(offset: int, expected: list[bytes]) -> None:
    driver = popping(messages=4)
    held = pop(driver)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, offset)
    again = pop(driver)
    assert bodies(again) == expected
    assert not ack(driver, *held), "handles of before are void"
    assert ack(driver, *again)
    driver.advance(10 * INVISIBLE_MS)
    assert pop(driver) == []


def test_a_topic_deleted_and_made_again_is_new() -> None:
    driver = popping(messages=3)
    held = pop(driver)
    driver.engine.delete_topic(TOPIC)
    driver.settle()
    driver.engine.topics.ensure(TOPIC, 1)
    driver.send(TOPIC, b"new")
    assert bodies(pop(driver)) == [b"new"]
    assert held[0].handle.pop_ms == driver.clock.now_ms, "the handles look alike"
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver)) == [b"new"]


def test_a_name_too_long_for_a_retry_topic_is_refused_before_anything_is_out() -> None:
    driver = popping(messages=1)
    long = "g" * 250
    driver.engine.groups.ensure(long)
    with pytest.raises(InvalidTopicName):
        ask(driver, group=long)


def test_a_clock_set_back_makes_nobody_wait_longer() -> None:
    driver = popping(messages=2)
    first, second = pop(driver)
    longer = change(driver, second, 2 * INVISIBLE_MS)
    assert longer is not None
    driver.clock.now_ms -= 3_600_000
    driver.tick()
    driver.advance(INVISIBLE_MS)
    assert bodies(pop(driver)) == [first.body]
    driver.advance(INVISIBLE_MS)
    assert second.body in bodies(pop(driver))


def test_too_much_that_is_out_stops_the_queue_until_some_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "MOST_IN_FLIGHT", 3)
    driver = popping(messages=6)
    held = pop(driver, most_messages=3)
    popped = ask(driver)
    assert (popped.messages, popped.rest) == (0, 3)
    assert popped.again_ms is not None
    ack(driver, *held)
    assert bodies(pop(driver)) == [b"m3", b"m4", b"m5"]


def test_acknowledgements_of_one_moment_share_a_record() -> None:
    driver = popping(messages=30)
    held = pop(driver)
    before = driver.engine.queue_bounds(POP_TOPIC, 0)[1]
    ack(driver, *held)
    assert driver.engine.queue_bounds(POP_TOPIC, 0)[1] == before + 1


def test_who_waits_is_told_when_it_is_durable() -> None:
    driver = popping(messages=2)
    first, second = pop(driver)
    told: list[str] = []

    class Owner:
        def __init__(self, name: str) -> None:
            self.name = name

        def stored(self, ticket: object) -> None:
            told.append(self.name)

    pops, key = driver.engine.pops, first.handle.key
    pops.ack(first.handle, first.bit, driver.clock.now_ms)
    assert pops.tell(key, Owner("first"))
    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None
    pops.ack(first.handle, first.bit, driver.clock.now_ms)
    assert pops.tell(key, Owner("again")), "the first is on its way to the disk"
    assert told == []
    job.run()
    for ticket in driver.engine.synced(job, None, driver.clock.now_ms):
        ticket.owner.stored(ticket)  # type: ignore[attr-defined]  # owners of these tickets have it
    assert told == ["first"]
    for ticket in driver.settle():
        ticket.owner.stored(ticket)  # type: ignore[attr-defined]  # as above
    assert told == ["first", "again"]
    assert not pops.tell(key, Owner("late")), "all is durable"
    assert not pops.tell(Handle(("x", "y", 0), 0, 0, 0).key, Owner("none"))
    assert second.offset == 1
