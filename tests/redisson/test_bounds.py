"""No script works long: its steps are counted on the server, and in a long list it makes one pass and little else."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
import redis

from broker.redisson import BytesCodec, DelayedQueue
from broker.redisson.codecs import pack
from broker.redisson.queue import Moved, move_all_due, move_due, tend_index
from tests.redisson.java import ScriptedJava

FAR = 10**13
#: From here on one pass is most of the cost.
LONG = 200_001
CHUNK = 5_000


def fill(queue: DelayedQueue, client: redis.Redis, count: int, *, first_due: int = 1) -> list[bytes]:
    """Members as Java's offers leave them; their due times are in no order."""
    chance = random.Random(count)
    members = [pack(b"v%d" % number, struct.pack(">Q", chance.getrandbits(64))) for number in range(count)]
    dues = [first_due + number for number in range(count)]
    chance.shuffle(dues)
    for first in range(0, count, CHUNK):
        part = members[first : first + CHUNK]
        client.zadd(queue.keys.timeout.decode(), dict(zip(part, dues[first : first + CHUNK], strict=True)))
        client.rpush(queue.keys.waiting.decode(), *part)
    return members


def counted(client: redis.Redis, act: Callable[[], object]) -> dict[str, int]:
    """How many commands of each kind the server ran meanwhile, inside of scripts too."""
    client.config_resetstat()
    act()
    stats: dict[str, dict[str, int]] = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}


@pytest.fixture
def queue(client: redis.Redis) -> DelayedQueue:
    return DelayedQueue("orders", client, codec=BytesCodec())


@pytest.fixture
def long(queue: DelayedQueue, client: redis.Redis) -> DelayedQueue:
    """A long list with its index."""
    fill(queue, client, LONG)
    while not tend_index(queue):
        pass
    return queue


def test_a_long_list_is_passed_once_for_a_small_batch(long: DelayedQueue, client: redis.Redis) -> None:
    moved: list[Moved] = []
    seen = counted(client, lambda: moved.append(move_due(long, 200)))
    assert moved[0].count == 128
    # From the front and from the back, up to the widest span between: together less than the list.
    assert seen["lrem"] <= 2
    assert seen["lset"] == 128
    assert client.llen(long.keys.waiting.decode()) == client.zcard(long.keys.timeout.decode()) == LONG - 128


def test_what_the_index_does_not_know_makes_the_only_pass_of_its_script(
    long: DelayedQueue, client: redis.Redis
) -> None:
    """Redisson's retainAll leaves members in the set only."""
    client.zadd(
        long.keys.timeout.decode(), {pack(b"hidden-%d" % number, b"hidden-%d" % number): 0 for number in (1, 2)}
    )
    for _ in range(2):
        moved: list[Moved] = []
        seen = counted(client, lambda into=moved: into.append(move_due(long, 200)))
        assert (moved[0].count, seen["lrem"]) == (1, 1)
    assert client.lrange("orders", 0, -1) == [b"hidden-1", b"hidden-2"]
    assert move_due(long, 200).count == 128


def test_what_builds_the_index_does_not_pass_the_list_as_well(long: DelayedQueue, client: redis.Redis) -> None:
    late = DelayedQueue("orders", client, codec=BytesCodec())
    late.offer_many([b"late"] * 1_200, at=FAR)
    calls: list[Moved] = []
    while not calls or not calls[-1].count:
        seen = counted(client, lambda: calls.append(move_due(long, 200)))
        assert ("lrem" in seen) == (calls[-1].count > 0) != ("zadd" in seen)
        assert len(calls) < 10
    assert len(calls) >= 3


def test_the_span_without_markers_is_not_passed(queue: DelayedQueue, client: redis.Redis) -> None:
    """Markers at both ends of the list, in either order, and all in its middle: exactly they go."""
    members = fill(queue, client, 3_000, first_due=FAR)
    chance = random.Random(3)
    while not tend_index(queue):
        pass
    waiting = queue.keys.waiting.decode()
    for places in ([0], [2_900], [0, 1, 2_899], [5, 2_800, 2_801], [1_400, 1_401, 1_402], [0, 2_000]):
        before = client.lrange(waiting, 0, -1)
        chosen = [before[place] for place in places]
        chance.shuffle(chosen)
        client.zadd(queue.keys.timeout.decode(), {member: number for number, member in enumerate(chosen)})
        assert move_due(queue, 200).count == len(chosen)
        gone = set(chosen)
        assert client.lrange(waiting, 0, -1) == [member for member in before if member not in gone]
        assert client.lrange("orders", -len(chosen), -1) == [member[17:] for member in chosen]
    assert set(client.lrange(waiting, 0, -1)) < set(members)


def test_healing_after_java_is_done_in_small_steps(queue: DelayedQueue, client: redis.Redis) -> None:
    members = fill(queue, client, 6_000)
    java = ScriptedJava(client, "orders")
    while not tend_index(queue):
        pass
    # What a poll and transfers of Java leave behind: a long gap in front, and holes everywhere.
    client.ltrim(queue.keys.waiting.decode(), 2_500, -1)
    client.zrem(queue.keys.timeout.decode(), *members[:2_500])
    java.transfer(300, 300)
    for _ in range(1_000):
        known = client.zcard(queue.keys.index.decode())
        done: list[bool] = []
        seen = counted(client, lambda into=done: into.append(tend_index(queue)))
        assert known - client.zcard(queue.keys.index.decode()) <= 600
        assert seen.get("lindex", 0) < 600
        if done[0]:
            break
    assert client.zrange(queue.keys.index.decode(), 0, -1) == [
        member[1:9] for member in client.lrange(queue.keys.waiting.decode(), 0, -1)
    ]


def test_a_search_by_value_builds_its_index_in_small_steps(queue: DelayedQueue, client: redis.Redis) -> None:
    fill(queue, client, 5_000, first_due=FAR)
    while not tend_index(queue):
        pass
    seen = counted(client, lambda: queue.contains(b"never offered"))
    calls = seen.get("evalsha", 0) + seen.get("eval", 0)
    assert 20 <= calls <= 30, "250 values a call"


@pytest.mark.parametrize("value", [b"v67979", b"v1562031", b"v4938854"])
def test_a_digest_of_the_highest_bytes_is_a_value_like_others(
    queue: DelayedQueue, client: redis.Redis, value: bytes
) -> None:
    """Their SHA-1 begin with FF 00 00 to FF 00 05, as one value in eleven million does."""
    queue.offer_many([b"a%d" % number for number in range(700)] + [value], at=FAR)
    queue.offer_many([b"b%d" % number for number in range(700)], at=FAR)
    seen = counted(client, lambda: queue.contains(b"never offered"))
    assert seen.get("evalsha", 0) + seen.get("eval", 0) < 30
    assert queue.contains(value) and queue.contains(b"b699")
    assert queue.remove(value) and not queue.contains(value)


def test_the_index_of_values_is_dropped_before_it_expires(queue: DelayedQueue, client: redis.Redis) -> None:
    """Redis 7 frees what expires while everybody waits: 27 ms for 100,000 values."""
    fill(queue, client, 2_000, first_due=FAR)
    assert queue.contains(b"v5")
    tend_index(queue)
    values = queue.keys.values.decode()
    assert client.exists(values)
    client.expire(values, 599)
    seen = counted(client, lambda: tend_index(queue))
    assert (seen.get("unlink"), client.exists(values)) == (1, 0)
    assert queue.contains(b"v5")


def test_a_value_is_found_where_the_index_never_gets_whole(
    queue: DelayedQueue, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java may undo it all the time; the list is read in parts then, and one script still takes the value out."""
    fill(queue, client, 2_500, first_due=FAR)
    monkeypatch.setattr("broker.redisson.queue.PATIENCE_CALLS", 1)
    seen = counted(client, lambda: queue.remove(b"v2100"))
    assert (seen["lrem"], "zrangebylex" in seen) == (1, False)
    assert client.zcard(queue.keys.timeout.decode()) == queue.size() == 2_499
    assert queue.contains(b"v2200") and not queue.contains(b"v2100")
    move_all_due(queue)
    assert queue.size() == 2_499
