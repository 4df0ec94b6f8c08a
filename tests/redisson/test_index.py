"""The index of places on lists of some thousand members, while Java changes them behind its back."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

import pytest
import redis

from broker.redisson import BytesCodec, DelayedQueue
from broker.redisson.codecs import pack, unpack
from broker.redisson.queue import move_all_due, move_due, tend_index
from tests.redisson.java import ScriptedJava

FAR = 10**13
SIZE = 6000


def fill(queue: DelayedQueue, client: redis.Redis, numbers: Iterable[int], *, due: int | None = None) -> list[bytes]:
    """Members as Java's offers leave them; their due times are in no order."""
    shuffled = random.Random(str(numbers))
    members = [pack(b"v%d" % number, struct.pack(">Q", shuffled.getrandbits(64))) for number in numbers]
    pipe = client.pipeline(transaction=False)
    for member in members:
        pipe.zadd(queue.keys.timeout.decode(), {member: due or shuffled.randrange(1, 10**9)})
        pipe.rpush(queue.keys.waiting.decode(), member)
    pipe.execute()
    return members


def tended(queue: DelayedQueue) -> None:
    for _ in range(100):
        if tend_index(queue):
            return
    raise AssertionError("the index was never done")


def index(queue: DelayedQueue, client: redis.Redis) -> list[bytes]:
    found: list[bytes] = client.zrange(queue.keys.index.decode(), 0, -1)
    return found


def listed(queue: DelayedQueue, client: redis.Redis) -> list[bytes]:
    found: list[bytes] = client.lrange(queue.keys.waiting.decode(), 0, -1)
    return found


@pytest.fixture
def full(client: redis.Redis) -> DelayedQueue:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    fill(queue, client, range(SIZE))
    tended(queue)
    return queue


def test_it_has_every_member_in_the_order_of_the_list(full: DelayedQueue, client: redis.Redis) -> None:
    assert index(full, client) == [member[1:9] for member in listed(full, client)]


def test_short_lists_have_none(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    fill(queue, client, range(999))
    tended(queue)
    assert queue.contains(b"v500")
    assert move_due(queue, 10).count == 10
    assert client.keys("escapement*") == []


def test_it_goes_when_the_list_gets_short(full: DelayedQueue, client: redis.Redis) -> None:
    assert full.contains(b"v1")
    assert len(client.keys("escapement*")) == 2
    assert move_all_due(full) == SIZE
    assert client.keys("escapement*") == []


def test_members_that_come_due_as_offered_need_none(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    receipts = queue.offer_many([b"v%d" % number for number in range(3000)], at=5)
    tended(queue)
    assert move_due(queue, 100).count == 100
    assert client.keys("escapement*") == []
    assert listed(queue, client) == [receipt.member for receipt in receipts[100:]]


@pytest.mark.parametrize("seed", range(3))
def test_it_heals_what_java_changes(full: DelayedQueue, client: redis.Redis, seed: int) -> None:
    chance = random.Random(seed)
    java = ScriptedJava(client, "orders")
    next_number = SIZE
    for _ in range(12):
        for _ in range(3):
            match chance.randrange(5):
                case 0:
                    java.transfer(chance.randrange(10**8), 50)
                case 1:
                    java.poll()
                    java.poll_last_and_offer_first_to("other")
                case 2:
                    java.remove(b"v%d" % chance.randrange(next_number))
                case 3:
                    fill(full, client, range(next_number, next_number + 40))
                    next_number += 40
                case 4:
                    java.offer(b"v%d" % next_number, chance.randrange(1, 10**9))
                    next_number += 1
        before = listed(full, client)
        moved = move_due(full, 30)
        after = listed(full, client)
        assert len(before) - len(after) == moved.count
        kept = set(after)
        assert [member for member in before if member in kept] == after
    tended(full)
    assert index(full, client) == [member[1:9] for member in listed(full, client)]
    move_all_due(full)
    assert client.exists(full.keys.waiting, full.keys.timeout, full.keys.index) == 0


def test_it_survives_another_list_in_the_same_place(full: DelayedQueue, client: redis.Redis) -> None:
    ScriptedJava(client, "orders").clear()
    fill(full, client, range(SIZE, SIZE + 2000))
    assert move_due(full, 30).count <= 30
    tended(full)
    assert index(full, client) == [member[1:9] for member in listed(full, client)]
    assert not full.contains(b"v5")
    assert full.contains(b"v%d" % (SIZE + 5))


def test_it_survives_nonsense(full: DelayedQueue, client: redis.Redis) -> None:
    name = full.keys.index.decode()
    ids = index(full, client)
    client.zadd(name, {ids[5]: 4000.5, ids[4000]: 5.5, b"strange!": 17.2, b"": 99.9})
    client.zrem(name, ids[3000])
    before = listed(full, client)
    for _ in range(200):
        if not move_due(full, 100).again:
            break
    assert client.exists(full.keys.waiting, full.keys.timeout) == 0
    values = sorted(client.lrange("orders", 0, -1))
    assert values == sorted(unpack(member).value for member in before)


def test_members_that_share_an_id_are_told_apart(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    fill(queue, client, range(3000))
    twins = [pack(b"twin-%d" % number, b"same id!") for number in range(4)]
    for number, twin in enumerate(twins):
        client.zadd(queue.keys.timeout.decode(), {twin: 10 + number})
        client.linsert(queue.keys.waiting.decode(), "BEFORE", listed(queue, client)[700 * number + 300], twin)
    tended(queue)
    assert len(index(queue, client)) == 3004
    for number in (2, 0, 3, 1):
        assert queue.remove(b"twin-%d" % number)
    assert set(twins) & set(listed(queue, client)) == set()
    assert len(listed(queue, client)) == 3000
    move_all_due(queue)
    assert client.exists(queue.keys.waiting) == 0


def test_values_are_found_however_many_are_equal(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    queue.offer_many([b"same"] * 1500 + [b"other"] + [b"same"] * 1500, at=FAR)
    first = queue.offer_many([b"last"], at=FAR)
    assert queue.contains(b"other") and queue.remove(b"other") and not queue.contains(b"other")
    assert queue.remove(b"last") and first[0].member not in listed(queue, client)
    before = listed(queue, client)
    assert queue.remove(b"same")
    assert listed(queue, client) == before[1:]
    assert queue.remove_all([b"same"]) == 2999
    assert queue.size() == 0


def test_the_index_of_values_forgets_what_java_took(full: DelayedQueue, client: redis.Redis) -> None:
    java = ScriptedJava(client, "orders")
    assert full.contains(b"v10")
    assert java.remove(b"v10")
    assert not full.contains(b"v10") and not full.remove(b"v10")
    java.offer(b"v10", FAR)
    assert full.contains(b"v10") and full.remove(b"v10")
    assert not java.contains(b"v10")
    assert 0 < client.ttl(full.keys.values.decode()) <= 3600


def test_the_index_of_values_is_right_after_java_took_the_last_ones(full: DelayedQueue, client: redis.Redis) -> None:
    java = ScriptedJava(client, "orders")
    assert full.contains(b"v10")
    for _ in range(5):
        java.poll_last_and_offer_first_to("other")
    fill(full, client, range(SIZE, SIZE + 5))
    assert not full.contains(b"v%d" % (SIZE - 1))
    assert all(full.contains(b"v%d" % number) for number in range(SIZE, SIZE + 5))
