"""Faults that others had with delivery: what was popped and lost, came again though done, or changed on its way."""

from __future__ import annotations

import random

import pytest

from broker.engine.testing import Driver, Fault, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import open_engine
from broker.rocketmq.message import decode, pack_host
from broker.rocketmq.properties import format_properties
from tests.engine.pop.popping import (
    GROUP,
    INVISIBLE_MS,
    RETRY,
    TOPIC,
    ack,
    bodies,
    change,
    crashed,
    eventually,
    offset_of,
    pop,
    popping,
)


def all_of(driver: Driver, rounds: int = 6) -> list[bytes]:
    """What comes in the next rounds, acknowledged; each message as often as it comes."""
    found: list[bytes] = []
    for _ in range(rounds):
        held = pop(driver)
        ack(driver, *held)
        found += bodies(held)
        driver.advance(INVISIBLE_MS)
    return found


def test_a_message_that_cannot_be_read_is_not_replaced_by_its_neighbour() -> None:
    """https://github.com/apache/rocketmq/issues/7724"""
    files = SimulatedFiles()
    driver = popping(files, messages=4)
    held = pop(driver)
    assert ack(driver, held[1], held[3])
    for each in (held[0], held[2]):
        files.flip("/store/commitlog/00000000000000000000", 8 * (each.message.position + 60))
    assert all_of(driver) == [], "neither those that are damaged nor, in their place, those that were acknowledged"
    assert driver.engine.health().state == "DEGRADED"


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_not_acknowledged_comes_again(seed: int) -> None:
    """https://github.com/apache/rocketmq/issues/7914"""
    draws = random.Random(seed)
    driver = popping(messages=60)
    open_ones: set[bytes] = set()
    for _ in range(20):
        for each in pop(driver, most_messages=draws.randrange(1, 33)):
            if draws.random() < 0.5:
                ack(driver, each)
                open_ones.discard(each.body)
            else:
                open_ones.add(each.body)
        driver.advance(draws.randrange(1, 4_000))
    driver.advance(INVISIBLE_MS)
    assert sorted(all_of(driver, 12)) == sorted(open_ones)


@pytest.mark.parametrize("crashes", [False, True])
def test_a_topic_that_was_made_again_is_not_asked_for_messages_of_its_former_life(crashes: bool) -> None:
    """https://github.com/apache/rocketmq/issues/8479"""
    files = SimulatedFiles()
    driver = popping(files, messages=20)
    assert len(pop(driver)) == 20
    driver.engine.delete_topic(TOPIC)
    driver.engine.topics.ensure(TOPIC, 1)
    for number in range(3):
        driver.send(TOPIC, b"new%d" % number)
    if crashes:
        driver = crashed(files, driver)
    assert sorted(all_of(driver)) == [b"new0", b"new1", b"new2"]
    other = driver.send(TOPIC, b"later")
    driver.advance(INVISIBLE_MS)
    assert other.queue_offset == 3
    assert all_of(driver) == [b"later"], "nothing is stuck"


def test_a_message_that_comes_again_is_what_was_sent() -> None:
    """https://github.com/apache/rocketmq/issues/6339"""
    driver = popping()
    now_ms = driver.clock.now_ms
    properties = format_properties({"UNIQ_KEY": "U1", "KEYS": "a b", "TAGS": "t", "colour": "red"})
    driver.engine.append(
        TOPIC, 0, b"body", properties, flag=7, born_ms=now_ms - 5, born_host=pack_host("10.1.2.3", 999), now_ms=now_ms
    )
    driver.settle()
    (first,) = pop(driver)
    for times in (1, 2):
        driver.advance(INVISIBLE_MS)
        (again,) = pop(driver)
        assert again.message.topic == RETRY
        for name in ("flag", "body", "born_ms", "born_host", "sys_flag", "unique_key", "tags"):
            assert getattr(again.message, name) == getattr(first.message, name), name
        assert {key: again.message.properties[key] for key in ("KEYS", "TAGS", "colour")} == {
            "KEYS": "a b", "TAGS": "t", "colour": "red",
        }  # fmt: skip
        assert again.message.reconsume_times == times


@pytest.mark.parametrize("crashes", [False, True])
def test_acknowledging_twice_holds_nothing_up(crashes: bool) -> None:
    """https://github.com/apache/rocketmq/issues/5408"""
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    held = pop(driver)
    for each in held:  # while others are out, and once more when none is
        assert ack(driver, each)
        for _ in range(2):
            ack(driver, each)
    for each in held:
        ack(driver, each)
    assert offset_of(driver) == 5
    assert driver.engine.pops.table.queues[GROUP, TOPIC, 0].in_flight == 0
    if crashes:
        driver = crashed(files, driver)
    driver.send(TOPIC, b"next")
    assert all_of(driver) == [b"next"]
    assert offset_of(driver) == 6


@pytest.mark.parametrize("most", [1, 5])
def test_a_read_that_fails_when_it_is_due_does_not_cost_a_message(most: int) -> None:
    """https://github.com/apache/rocketmq/issues/10985"""
    files = SimulatedFiles()
    driver = popping(files, messages=5)
    pop(driver)
    driver.clock.advance(INVISIBLE_MS)
    files.fail(*(Fault("read", nth=nth, path_part="commitlog") for nth in range(1, most + 1)))
    driver.engine.tick(driver.clock.now_ms)
    driver.settle()
    files.fail()
    assert eventually(driver) == [b"m0", b"m1", b"m2", b"m3", b"m4"]


def test_slow_consumers_that_answer_in_time_get_nothing_twice() -> None:
    """https://github.com/apache/rocketmq/issues/3787"""
    driver = popping(messages=32)
    held = pop(driver)
    for each in held:
        driver.advance(INVISIBLE_MS // 32 - 1)
        assert ack(driver, each)
    assert all_of(driver) == []
    assert offset_of(driver) == 32


@pytest.mark.parametrize("loss", ["kill", "all"])
def test_a_start_goes_on_where_the_group_was(loss: str) -> None:
    """https://github.com/apache/rocketmq/issues/3503"""
    files = SimulatedFiles()
    driver = popping(files, messages=12)
    ack(driver, *pop(driver, most_messages=8))
    driver.clock.advance(6_000)
    driver.upkeep()
    driver = crashed(files, driver, PowerLoss(loss))  # type: ignore[arg-type]  # one of the kinds
    assert bodies(pop(driver)) == [b"m8", b"m9", b"m10", b"m11"]


@pytest.mark.parametrize("loss", ["kill", "all"])
def test_a_start_gives_nobody_more_time_than_was_asked_for(loss: str) -> None:
    """https://github.com/camunda/camunda/issues/1800"""
    files = SimulatedFiles()
    driver = popping(files, messages=2)
    first, second = pop(driver)
    longer = change(driver, second, 2 * INVISIBLE_MS)
    assert longer is not None
    driver.advance(INVISIBLE_MS - 1_000)
    driver = crashed(files, driver, PowerLoss(loss))  # type: ignore[arg-type]  # one of the kinds
    driver.advance(999)
    assert pop(driver) == []
    driver.advance(1)
    assert bodies(pop(driver)) == [first.body]
    driver.advance(INVISIBLE_MS - 1)
    assert second.body not in bodies(pop(driver))
    driver.advance(1)
    assert second.body in bodies(pop(driver))


def test_the_time_of_many_that_were_not_done_is_counted_for_each_on_its_own() -> None:
    """https://github.com/apache/rocketmq/issues/4153"""
    driver = popping(messages=3)
    first, second, third = pop(driver, invisible_ms=300_000)
    driver.advance(30_000)
    assert ack(driver, first), "late, but in time"
    driver.advance(200_000)
    assert ack(driver, third)
    driver.advance(70_000)
    assert bodies(pop(driver)) == [second.body]
    driver.advance(INVISIBLE_MS - 1)
    assert pop(driver) == []


def test_a_queue_that_lost_all_its_messages_begins_where_it_ends() -> None:
    """https://github.com/apache/rocketmq/issues/10417"""
    files = SimulatedFiles()
    driver = open_engine(files, flush="async")
    driver.engine.topics.ensure(TOPIC, 1)
    for number in range(30):
        driver.append(TOPIC, b"%d" % number)
    driver.engine.tick(driver.clock.now_ms)
    again = open_engine(files.crash(PowerLoss("all")), clock=driver.clock, flush="async")
    again.engine.topics.ensure(TOPIC, 1)
    assert again.engine.queue_bounds(TOPIC, 0) == (0, 0)
    assert again.send(TOPIC, b"new").queue_offset == 0
    pulled = again.engine.pull(TOPIC, 0, 0, 32, 1 << 20)
    assert (len(pulled.records), pulled.next_offset) == (1, 1)


@pytest.mark.parametrize("durable", [0, 10])
def test_a_group_that_was_further_than_what_is_left_gets_what_takes_its_place(durable: int) -> None:
    """https://github.com/nats-io/nats-server/issues/6600"""
    files = SimulatedFiles()
    driver = open_engine(files, flush="async", flush_interval_ms=100_000, checkpoint_interval_ms=1_000_000)
    driver.engine.topics.ensure(TOPIC, 1)
    driver.engine.topics.ensure("other", 1)
    for number in range(durable):
        driver.append(TOPIC, b"%d" % number)
    driver.settle()
    driver.clock.advance(100_001)
    driver.upkeep()
    for number in range(durable, 30):
        driver.append(TOPIC, b"%d" % number)
    driver.settle()
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 30)
    driver.engine.offsets.commit("slow", TOPIC, 0, durable // 2)
    driver.clock.advance(2_000)
    driver.upkeep()
    again = open_engine(files.crash(PowerLoss("all")), clock=driver.clock, flush="async")
    assert again.engine.queue_bounds(TOPIC, 0) == (0, durable), "the consumer is ahead of the queue"
    for number in range(40):
        again.append(TOPIC, b"new%d" % number)
    again.settle()
    offset = again.engine.offsets.get(GROUP, TOPIC, 0)
    assert offset == durable
    assert again.engine.offsets.get("slow", TOPIC, 0) == durable // 2
    found = [decode(record).body for record in again.engine.pull(TOPIC, 0, offset, 99, 1 << 20).records]
    assert found[0] == b"new0"
    again.clock.advance(2_000)
    again.upkeep()
    third = open_engine(again.engine._files.crash(PowerLoss("kill")), clock=driver.clock)  # type: ignore[attr-defined]  # a simulated disk
    assert third.engine.offsets.get(GROUP, TOPIC, 0) == durable


@pytest.mark.parametrize("content", [b"", bytes(20), bytes(160)])
@pytest.mark.parametrize("clean", [False, True])
def test_an_empty_file_at_the_end_of_a_queue_keeps_no_broker_from_starting(content: bytes, clean: bool) -> None:
    """https://github.com/apache/rocketmq/issues/9728"""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure(TOPIC, 1)
    for number in range(16):  # two files are full
        driver.send(TOPIC, b"%d" % number)
    if clean:
        driver.close()
    disk = files.crash(PowerLoss("kill"))
    last = f"/store/consumequeue/{TOPIC}/0/{320:020d}"
    if not disk.exists(last):
        disk.load({last: b""})
    disk.replace(last, content)
    again = open_engine(disk, clock=driver.clock)
    assert again.engine.queue_bounds(TOPIC, 0) == (0, 16)
    assert again.send(TOPIC, b"16").queue_offset == 16
    assert again.bodies(TOPIC) == [b"%d" % number for number in range(17)]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("which", ["last", "middle"])
def test_a_queue_file_that_is_gone_is_made_again_and_the_queue_keeps_its_order(clean: bool, which: str) -> None:
    """https://github.com/apache/rocketmq/issues/7355"""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure(TOPIC, 1)
    for number in range(24):
        driver.send(TOPIC, b"%d" % number)
    driver.clock.advance(6_000)
    driver.upkeep()
    for number in range(24, 27):
        driver.send(TOPIC, b"%d" % number)
    if clean:
        driver.close()
    disk = files.crash(PowerLoss("kill"))
    paths = sorted(path for path in disk.contents() if path.startswith(f"/store/consumequeue/{TOPIC}/0/"))
    disk.remove({"last": paths[-1], "middle": paths[1]}[which])
    again = open_engine(disk, clock=driver.clock)
    assert again.send(TOPIC, b"27").queue_offset == 27
    assert again.bodies(TOPIC) == [b"%d" % number for number in range(28)]


def test_a_group_that_was_at_the_end_of_what_expired_goes_on_with_what_is_new() -> None:
    """https://github.com/apache/rocketmq/issues/8753"""
    files = SimulatedFiles()
    driver = open_engine(files, retention_hours=1, keep_unconsumed=False)
    for topic in (TOPIC, "busy"):
        driver.engine.topics.ensure(topic, 1)
    for number in range(8):
        driver.send(TOPIC, b"%d" % number)
    driver.engine.offsets.commit(GROUP, TOPIC, 0, 3)
    for _ in range(20):
        driver.send("busy", b"x" * 1_500)
    driver.clock.advance(2 * 3_600_000)
    for _ in range(5):
        driver.send("busy", b"x" * 1_500)
        driver.clock.advance(20_000)
        driver.upkeep()
    assert driver.engine.queue_bounds(TOPIC, 0) == (8, 8), "no backlog is shown of what is not there"
    pulled = driver.engine.pull(TOPIC, 0, 3, 32, 1 << 20)
    assert (list(pulled.records), pulled.next_offset) == ([], 8)
    driver.send(TOPIC, b"8")
    assert driver.engine.pull(TOPIC, 0, pulled.next_offset, 32, 1 << 20).next_offset == 9
