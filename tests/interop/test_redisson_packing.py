"""Two packings and what has neither: never mixed, never lost, and Java goes on once poison is aside."""

from __future__ import annotations

import pytest

from broker.redisson import DelayedQueue, Packing
from broker.redisson.codecs import detect, pack
from broker.redisson.queue import move_all_due
from broker.redisson.repair import set_aside
from tests.interop.redisson import LEGACY
from tests.interop.waiting import wait_until

HOUR_MS = 3_600_000
#: Neither packing: too short, a length that is too large, one that is too small.
POISON = [b"not packed", b"\x08" + bytes(8) + b"\xff" * 8 + b"x", b"\x08" + bytes(8) + bytes(8) + b"value"]


def written(shared) -> Packing:
    """What this Redisson writes."""
    return Packing.OLD if shared.java.version == LEGACY else Packing.NEW


def test_ours_writes_what_the_clients_of_the_queue_write(shared, queue):
    ours = DelayedQueue(queue, shared.client)
    shared.java.offer(queue, "first", HOUR_MS)
    for number in range(50):
        ours.offer(f"value {number}", delay=HOUR_MS)
    members = shared.client.zrange(ours.keys.timeout, 0, -1)
    assert {detect(member, written(shared)) for member in members} == {written(shared)}
    assert shared.java.call("readAll", queue) == ["first", *(f"value {number}" for number in range(50))]


@pytest.mark.parametrize("value", ["", "\x00", "\x08", "x", "\x00" * 16], ids=ascii)
def test_java_reads_the_packing_of_any_value(shared, queue, value):
    ours = shared.ours(queue)
    ours.offer(value, delay=HOUR_MS)
    assert shared.java.call("peek", queue) == value
    assert shared.java.call("remove", queue, value=value)


def test_what_was_offered_before_an_upgrade_of_java_is_delivered(shared, queue):
    """Old members among new ones stop a new Redisson; ours moves both kinds."""
    new = DelayedQueue(queue, shared.client, packing="new")
    old = DelayedQueue(queue, shared.client, packing="old")
    for number in range(20):
        (old if number % 2 else new).offer(f"value {number}", delay=number)
    moved = []
    assert wait_until(lambda: moved.append(move_all_due(new)) or sum(moved) == 20)
    assert shared.java.call("target.readAll", queue) == [f"value {number}" for number in range(20)]
    assert shared.client.exists(new.keys.timeout, new.keys.waiting) == 0


def place_poison(shared, ours: DelayedQueue, member: bytes) -> None:
    """Put a member between what was due first and the rest, in both structures."""
    ours.offer("before", at=1_000)
    shared.client.zadd(ours.keys.timeout, {member: 2_000})
    shared.client.rpush(ours.keys.waiting, member)
    ours.offer("after", at=3_000)


@pytest.mark.parametrize("member", POISON, ids=["short", "long", "cut"])
def test_ours_delivers_what_is_around_poison_and_leaves_it(shared, queue, member):
    ours = shared.ours(queue)
    place_poison(shared, ours, member)
    assert move_all_due(ours) == 2
    assert [ours.poll(), ours.poll(), ours.poll()] == ["before", "after", None]
    assert shared.client.zrange(ours.keys.timeout, 0, -1) == [member]
    assert shared.client.lrange(ours.keys.waiting, 0, -1) == [member]


def test_poison_stops_java_and_makes_it_repeat(shared, queue):
    """What the next test would prove nothing without: this Redisson does stop at a member of the other packing."""
    ours = shared.ours(queue)
    other = Packing.NEW if written(shared) is Packing.OLD else Packing.OLD
    place_poison(shared, ours, pack(b"poison", b"\xff" * 8, other))
    shared.java.open_live(queue)
    assert wait_until(lambda: shared.client.llen(queue) >= 2, 15)
    assert set(shared.client.lrange(queue, 0, -1)) == {b"before"}
    shared.java.call("destroy", queue)


def test_once_poison_is_aside_java_goes_on(shared, queue):
    ours = shared.ours(queue)
    place_poison(shared, ours, POISON[0])
    assert set_aside(ours, POISON[0])
    shared.java.open_live(queue)
    assert [shared.java.take(queue), shared.java.take(queue)] == ["before", "after"]
    shared.java.call("destroy", queue)
    assert shared.client.zrange(ours.keys.aside, 0, -1, withscores=True) == [(POISON[0], 2_000.0)]
    assert shared.client.exists(ours.keys.timeout, ours.keys.waiting) == 0
