"""What a console shows of a queue and does with single members."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from broker.redisson import DelayedQueue, Packing
from broker.redisson.codecs import pack, unpack
from broker.redisson.errors import MemberUnreadable, NotAllowed
from broker.redisson.queue import move_all_due
from broker.redisson.repair import (
    Reference,
    deliver_now,
    move_to,
    plan_repair,
    put_back,
    remove_member,
    repair,
    reschedule,
    set_aside,
)
from broker.redisson.survey import find_poison, listeners, page, queue_names, survey
from broker.redisson.values import Handle, Waiting
from tests.redisson.java import ScriptedJava

HOUR_MS = 3_600_000
FAR = 10**13


def members(queue: DelayedQueue) -> tuple[set[bytes], set[bytes]]:
    in_set = queue.server.run("ZRANGE", queue.keys.timeout, 0, -1)
    in_list = queue.server.run("LRANGE", queue.keys.waiting, 0, -1)
    assert isinstance(in_set, list) and isinstance(in_list, list)
    return set(in_set), set(in_list)


def test_a_survey_of_a_healthy_queue(queue: DelayedQueue, client: redis.Redis, java: ScriptedJava) -> None:
    queue.offer_many(["a", "b"], at=FAR)
    java.offer(b"c", 5)
    queue.offer("d", at=7)
    listener = client.pubsub()
    listener.subscribe(queue.keys.channel.decode())
    assert listener.get_message(timeout=5)
    client.rpush("orders", b"due")
    found = survey(queue)
    assert (found.list_size, found.set_size, found.overdue, found.target_size) == (4, 4, 2, 1)
    assert (found.oldest_due_ms, found.next_due_ms) == (5, FAR)
    assert found.stuck_ms == found.now_ms - 5
    assert found.listeners == listeners(queue.server, queue.keys) == 1
    assert (list(found.packings), found.sampled_poison, found.codec_guess) == ([Packing.NEW], 0, "StringCodec")
    assert not found.is_damaged
    listener.close()


def test_a_survey_of_nothing(queue: DelayedQueue, client: redis.Redis) -> None:
    found = survey(queue)
    assert (found.list_size, found.overdue, found.oldest_due_ms, found.next_due_ms) == (0, 0, None, None)
    assert (found.stuck_ms, found.codec_guess, found.listeners) == (0, None, 0)
    assert client.keys() == []


def test_a_survey_sees_damage_poison_and_both_packings(
    queue: DelayedQueue, client: redis.Redis, java: ScriptedJava
) -> None:
    java.offer(b"new", FAR)
    ScriptedJava(client, "orders", "old").offer(b"old", FAR)
    client.rpush(queue.keys.waiting.decode(), b"poison")
    found = survey(queue)
    assert found.is_damaged and found.sampled_poison > 0
    assert set(found.packings) == {Packing.NEW, Packing.OLD}


def test_queues_are_found(client: redis.Redis) -> None:
    for name in ("orders", "{shop}:refunds", "a}b"):
        DelayedQueue(name, client).offer("x", at=FAR)
    client.set("redisson_delay_queue_timeout:odd", "x")
    assert queue_names(DelayedQueue("x", client).server, ["named"]) == sorted(
        ["orders", "{shop}:refunds", "a}b", "named"]
    )


def walk(queue: DelayedQueue, limit: int, **options: bool) -> list[Waiting]:
    found: list[Waiting] = []
    cursor: str | None = None
    while True:
        part = page(queue, limit=limit, cursor=cursor, **options)
        found += part.items
        cursor = part.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_show_every_member_once_in_due_order(queue: DelayedQueue, java: ScriptedJava, limit: int) -> None:
    for number in range(10):
        java.offer(b"same-%d" % number, 500)
        queue.offer(f"other-{number}", at=1000 - number // 2)
    found = walk(queue, limit)
    assert len(found) == 20
    assert [each.due_ms for each in found] == sorted(each.due_ms for each in found)
    assert {each.shown().text for each in found} == {
        *(f"same-{n}" for n in range(10)),
        *(f"other-{n}" for n in range(10)),
    }


def test_a_page_between_moments_and_a_cut_value(queue: DelayedQueue) -> None:
    for number in range(10):
        queue.offer("x" * 50, at=number)
    found = page(queue, from_ms=3, to_ms=5, shown_bytes=20)
    assert [each.due_ms for each in found.items] == [3, 4, 5]
    first = found.items[0]
    assert (first.value, first.value_bytes, first.is_whole, first.shown().is_hex) == (b"x" * 20, 50, False, True)


def test_poison_is_found_and_moved_aside_and_back(queue: DelayedQueue, client: redis.Redis, java: ScriptedJava) -> None:
    for number in range(30):
        queue.offer(f"v{number}", at=number)
    for name in (b"\xffpoison", b"", b"p"):
        client.zadd(queue.keys.timeout.decode(), {name: 4})
        client.rpush(queue.keys.waiting.decode(), name)
    found = list(find_poison(queue))
    assert {each.value for each in found} == {b"\xffpoison", b"", b"p"}
    assert all(each.is_poison and each.shown().is_hex for each in found)
    for each in found:
        with pytest.raises(MemberUnreadable):
            deliver_now(queue, each.handle)
        assert set_aside(queue, Handle.parse(str(each.handle)))
        assert not set_aside(queue, each.handle)
    assert survey(queue).aside == 3
    assert {each.value for each in walk(queue, 2, aside=True)} == {each.value for each in found}
    java.transfer(10**12)
    assert client.llen("orders") == 30
    assert put_back(queue, found[0].handle)
    assert members(queue) == ({found[0].value}, {found[0].value})
    assert survey(queue).aside == 2


Act = Callable[[DelayedQueue, Reference], bool]


@pytest.mark.parametrize("by_handle", [True, False])
@pytest.mark.parametrize("act", [remove_member, deliver_now])
def test_one_member_goes_or_comes_now(queue: DelayedQueue, by_handle: bool, act: Act) -> None:
    receipts = [queue.offer("same", at=FAR) for _ in range(5)]
    which: Reference = receipts[2].member
    if by_handle:
        which = page(queue).items[2].handle
    assert act(queue, which)
    assert not act(queue, which)
    assert queue.server.run("ZSCORE", queue.keys.timeout, receipts[2].member) is None
    assert members(queue)[0] == members(queue)[1] == {each.member for each in receipts} - {receipts[2].member}
    assert queue.poll() == ("same" if act is deliver_now else None)


def test_a_new_moment_is_announced(queue: DelayedQueue, client: redis.Redis) -> None:
    queue.offer("first", at=FAR)
    receipt = queue.offer("second", at=FAR + 5)
    listener = client.pubsub()
    listener.subscribe(queue.keys.channel.decode())
    assert listener.get_message(timeout=5)
    assert reschedule(queue, receipt.member, 1000)
    told = listener.get_message(timeout=5)
    assert told and told["data"] == b"1000"
    assert move_all_due(queue) == 1
    assert queue.poll() == "second"
    assert not reschedule(queue, receipt.member, 1000)
    listener.close()


@pytest.mark.parametrize("packing", ["new", "old"])
def test_a_member_moves_to_another_queue_in_its_packing(queue: DelayedQueue, client: redis.Redis, packing: str) -> None:
    ScriptedJava(client, "other", packing).offer(b"theirs", FAR)
    other = DelayedQueue("other", client)
    receipt = queue.offer("mine", at=7)
    assert move_to(queue, receipt.member, other)
    assert members(queue) == (set(), set())
    assert {unpack(member).packing for member in members(other)[1]} == {packing}
    assert move_all_due(other) == 1
    assert other.poll() == "mine"


def test_read_only_steers_nothing(client: redis.Redis, java: ScriptedJava) -> None:
    queue = DelayedQueue("orders", client, read_only=True)
    java.offer(b"x", FAR)
    handle = page(queue).items[0].handle
    for act in (remove_member, deliver_now, set_aside, put_back):
        with pytest.raises(NotAllowed):
            act(queue, handle)
    with pytest.raises(NotAllowed):
        reschedule(queue, handle, 1)
    with pytest.raises(NotAllowed):
        move_to(DelayedQueue("free", client), handle, queue)
    with pytest.raises(NotAllowed):
        plan_repair(queue)
    assert java.size() == 1


@pytest.mark.parametrize("size", [10, 2500])
def test_damage_is_planned_and_repaired(
    queue: DelayedQueue, client: redis.Redis, java: ScriptedJava, size: int
) -> None:
    queue.offer_many([f"v{number}" for number in range(size)], at=FAR)
    ghosts = [pack(b"ghost-%d" % number, b"ghost--%d" % number) for number in range(5)]
    hidden = [pack(b"hidden-%d" % number, b"hidden-%d" % number) for number in range(5)]
    client.rpush(queue.keys.waiting.decode(), *ghosts)
    client.zadd(queue.keys.timeout.decode(), dict.fromkeys(hidden, FAR - 1))
    assert not survey(queue).is_damaged  # equal sizes: only a plan finds it
    plan = plan_repair(queue)
    assert len(plan.list_only) == len(plan.set_only) == 5
    assert plan.is_complete and plan.compared == 2 * size + 10
    assert not plan_repair(queue, limit=2).is_complete
    java.remove(b"ghost-4")
    assert repair(queue, plan.list_only) == 4
    assert repair(queue, plan.set_only) == 5
    assert repair(queue, [*plan.list_only, *plan.set_only]) == 0
    healed = plan_repair(queue)
    assert (healed.list_only, healed.set_only) == ([], [])
    assert members(queue)[0] == members(queue)[1]
    assert move_all_due(queue) == 4
    assert {queue.poll() for _ in range(4)} == {"ghost-0", "ghost-1", "ghost-2", "ghost-3"}


def test_damage_may_be_dropped(queue: DelayedQueue, client: redis.Redis) -> None:
    client.rpush(queue.keys.waiting.decode(), pack(b"ghost", b"r" * 8))
    client.zadd(queue.keys.timeout.decode(), {pack(b"hidden", b"s" * 8): 1})
    plan = plan_repair(queue)
    assert repair(queue, [*plan.list_only, *plan.set_only], list_only="drop", set_only="drop") == 2
    assert members(queue) == (set(), set())
