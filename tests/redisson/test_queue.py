"""A queue against a real server: what Python offers and takes, beside a client that does what Java does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from broker.redisson import BytesCodec, DelayedQueue, JsonJacksonCodec, Packing
from broker.redisson.codecs import pack, unpack
from broker.redisson.errors import (
    ClientUnfit,
    InvalidDelay,
    MemberUnreadable,
    NotAllowed,
    ValueRefused,
    ValueUnreadable,
    WrongType,
)
from broker.redisson.queue import Delay, Moment, move_all_due, move_due
from broker.redisson.repair import reschedule
from tests.redisson.java import ScriptedJava

HOUR_MS = 3_600_000


def now_ms(queue: DelayedQueue) -> int:
    return queue.server.now_ms()[0]


def test_what_python_offers_java_takes(queue: DelayedQueue, java: ScriptedJava) -> None:
    queue.offer("one", delay=0)
    queue.offer("two", delay=timedelta(hours=1))
    assert java.read_all() == [b"one", b"two"]
    head = java.transfer(now_ms(queue) + 1)
    assert java.take_now() == b"one"
    assert java.take_now() is None
    assert head == pytest.approx(now_ms(queue) + HOUR_MS, abs=10_000)


def test_what_java_offers_python_takes(queue: DelayedQueue, java: ScriptedJava) -> None:
    java.offer(b"later", now_ms(queue) + HOUR_MS)
    java.offer("订单 😀".encode(), now_ms(queue) - 1)
    assert move_all_due(queue) == 1
    assert queue.take(timeout_s=1) == "订单 😀"
    assert queue.poll() is None
    assert queue.size() == len(queue) == 1


def test_java_removes_what_python_offered_and_the_other_way_round(queue: DelayedQueue, java: ScriptedJava) -> None:
    queue.offer("a", delay=HOUR_MS)
    java.offer(b"b", now_ms(queue) + HOUR_MS)
    assert queue.contains("b") and java.contains(b"a")
    assert java.remove(b"a") and not java.remove(b"a")
    assert queue.remove("b") and not queue.remove("b")
    assert queue.size() == java.size() == queue.server.run("ZCARD", queue.keys.timeout) == 0


def test_only_the_first_offered_of_equal_values_goes(queue: DelayedQueue) -> None:
    receipts = [queue.offer("same", delay=HOUR_MS + number) for number in (5, 3, 9)]
    assert queue.remove("same")
    assert queue.server.run("ZSCORE", queue.keys.timeout, receipts[0].member) is None
    assert queue.remove_all(["same", "other"]) == 2
    assert queue.size() == 0


def test_equal_moments_keep_the_order_of_offers(queue: DelayedQueue) -> None:
    values = [f"v{number}" for number in range(50)]
    for value in values[:20]:
        queue.offer(value, at=1000)
    queue.offer_many(values[20:], at=1000)
    assert move_all_due(queue, limit=7) == 50
    assert [queue.poll() for _ in values] == values


def test_due_order_is_kept_among_different_moments(queue: DelayedQueue, java: ScriptedJava) -> None:
    for number in (5, 1, 4, 2, 3):
        java.offer(b"%d" % number, number)
    move_all_due(queue)
    assert [queue.poll() for _ in range(5)] == ["1", "2", "3", "4", "5"]


def test_a_new_head_is_published_as_java_does(queue: DelayedQueue, client: redis.Redis) -> None:
    listener = client.pubsub()
    listener.subscribe(queue.keys.channel.decode())
    assert listener.get_message(timeout=5) is not None
    first = queue.offer("one", delay=HOUR_MS)
    queue.offer("two", delay=2 * HOUR_MS)
    third = queue.offer("zero", delay=HOUR_MS // 2)
    told = [listener.get_message(timeout=5) for _ in range(2)]
    assert [message and message["data"] for message in told] == [b"%d" % first.due_ms, b"%d" % third.due_ms]
    assert listener.get_message(timeout=0.05) is None
    listener.close()


def test_a_receipt_holds_the_member_as_it_waits(queue: DelayedQueue, client: redis.Redis) -> None:
    before = now_ms(queue)
    receipt = queue.offer("x", delay=1500)
    assert client.zscore(queue.keys.timeout.decode(), receipt.member) == receipt.due_ms
    assert client.lrange(queue.keys.waiting.decode(), 0, -1) == [receipt.member]
    assert before + 1500 <= receipt.due_ms <= now_ms(queue) + 1500


def test_moments_and_delays(queue: DelayedQueue) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    assert queue.offer("x", at=moment).due_ms == 2_208_988_800_000
    assert queue.offer("x", at=5).due_ms == 5
    for wrong in (
        {"delay": -1},
        {"delay": timedelta(seconds=-1)},
        {"at": -1},
        {},
        {"delay": 1, "at": 1},
        {"at": 2**60},
    ):
        with pytest.raises(InvalidDelay):
            queue.offer("x", **wrong)
    with pytest.raises(InvalidDelay, match="zone"):
        queue.offer("x", at=datetime(2040, 1, 1))  # noqa: DTZ001 - that is the point
    assert queue.size() == 2


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2040, 1, 1, 0, 0, 0, 250_999, tzinfo=UTC), 2_208_988_800_251),
        (datetime(2040, 1, 1, 0, 0, 0, 250_001, tzinfo=UTC), 2_208_988_800_251),
        (datetime(2040, 1, 1, 0, 0, 0, 251_000, tzinfo=UTC), 2_208_988_800_251),
        (datetime(2040, 1, 1, 1, 0, 0, 250_999, tzinfo=timezone(timedelta(hours=1))), 2_208_988_800_251),
        (datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1),
        (2_208_988_800_250.5, 2_208_988_800_251),
    ],
)
def test_no_moment_is_rounded_to_an_earlier_one(queue: DelayedQueue, moment: Moment, expected: int) -> None:
    receipts = [queue.offer("a", at=moment), *queue.offer_many(["b", "c"], at=moment)]
    assert [receipt.due_ms for receipt in receipts] == [expected] * 3
    receipt = queue.offer("d", delay=HOUR_MS)
    assert reschedule(queue, receipt.member, moment)
    due = queue.server.run("ZSCORE", queue.keys.timeout, receipt.member)
    assert int(float(due)) == float(due) == expected


@pytest.mark.parametrize(
    ("delay", "whole_ms"),
    [
        (timedelta(microseconds=1999), 2),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=2000), 2),
        (timedelta(days=36_500, microseconds=1), 36_500 * 24 * HOUR_MS + 1),
        (1.9, 2),
        (1e-9, 1),
        (2.0, 2),
        (0.1 + 0.2, 1),
        (4_000_000_000_000.001, 4_000_000_000_001),
    ],
)
def test_no_delay_is_rounded_to_a_shorter_one(queue: DelayedQueue, delay: Delay, whole_ms: int) -> None:
    before_ms = now_ms(queue)
    dues = [queue.offer("a", delay=delay).due_ms, *(each.due_ms for each in queue.offer_many(["b", "c"], delay))]
    after_ms = now_ms(queue)
    assert all(before_ms + whole_ms <= due <= after_ms + whole_ms for due in dues)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delay": timedelta(microseconds=-1)},
        {"delay": timedelta.min},
        {"delay": -0.5},
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"at": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)},
    ],
)
def test_what_is_past_is_not_rounded_to_what_is_allowed(queue: DelayedQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDelay):
        queue.offer("x", **wrong)
    assert queue.size() == 0


def test_a_value_that_is_refused_leaves_nothing(queue: DelayedQueue) -> None:
    with pytest.raises(ValueRefused):
        queue.offer_many(["fine", 5], delay=0)
    assert queue.size() == 0
    assert queue.offer_many([], delay=0) == []


@pytest.mark.parametrize("packing", ["new", "old"])
def test_the_packing_of_the_queue_is_followed(client: redis.Redis, queue: DelayedQueue, packing: str) -> None:
    java = ScriptedJava(client, "orders", packing)
    java.offer(b"theirs", now_ms(queue) + HOUR_MS)
    assert queue.offer("ours", delay=0).packing == packing
    assert java.read_all() == [b"theirs", b"ours"]
    java.transfer(now_ms(queue) + 1)
    assert queue.poll() == "ours"
    assert queue.remove("theirs")


def test_an_empty_queue_gets_the_new_packing_unless_told(client: redis.Redis) -> None:
    assert DelayedQueue("fresh", client).offer("x", delay=HOUR_MS).packing is Packing.NEW
    assert DelayedQueue("forced", client, packing="old").offer("x", delay=HOUR_MS).packing is Packing.OLD


def test_both_packings_are_moved(client: redis.Redis, queue: DelayedQueue, java: ScriptedJava) -> None:
    ScriptedJava(client, "orders", "old").offer(b"old", 1)
    java.offer(b"new", 2)
    assert move_all_due(queue) == 2
    assert [queue.poll(), queue.poll()] == ["old", "new"]


def test_poison_is_stepped_over_and_kept(queue: DelayedQueue, client: redis.Redis, java: ScriptedJava) -> None:
    for number in range(5):
        client.zadd(queue.keys.timeout.decode(), {b"poison-%d" % number: number})
        client.rpush(queue.keys.waiting.decode(), b"poison-%d" % number)
    java.offer(b"behind", 100)
    moved = move_due(queue, 100)
    assert (moved.count, moved.poison, moved.still_due, moved.again) == (1, 5, 5, False)
    assert queue.poll() == "behind"
    assert client.zcard(queue.keys.timeout.decode()) == client.llen(queue.keys.waiting.decode()) == 5
    with pytest.raises(MemberUnreadable):
        queue.read_all()
    with pytest.raises(MemberUnreadable):
        queue.poll_first_offered()


def test_much_poison_does_not_hide_what_is_behind(queue: DelayedQueue, client: redis.Redis, java: ScriptedJava) -> None:
    name = queue.keys.timeout.decode()
    client.zadd(name, {b"poison-%d" % number: number for number in range(3000)})
    java.offer(b"behind", 5000)
    assert move_all_due(queue) == 1
    assert client.zcard(name) == 3000


def test_what_is_in_one_structure_only(queue: DelayedQueue, client: redis.Redis) -> None:
    in_set, in_list = pack(b"set", b"s" * 8), pack(b"list", b"l" * 8)
    client.zadd(queue.keys.timeout.decode(), {in_set: 1})
    client.rpush(queue.keys.waiting.decode(), in_list)
    assert move_all_due(queue) == 1
    assert queue.poll() == "set"
    assert queue.read_all() == ["list"]


def test_negative_scores_are_never_due(queue: DelayedQueue, client: redis.Redis) -> None:
    client.zadd(queue.keys.timeout.decode(), {pack(b"x", b"r" * 8): -5})
    assert move_all_due(queue) == 0


@pytest.mark.parametrize("key", ["target", "timeout", "waiting", "index"])
def test_a_key_of_the_wrong_type_is_reported_and_left_alone(queue: DelayedQueue, client: redis.Redis, key: str) -> None:
    name = getattr(queue.keys, key).decode()
    client.set(name, "mine")
    with pytest.raises(WrongType, match="string") as caught:
        move_due(queue, 10)
    assert caught.value.key == name
    assert client.get(name) == b"mine"
    if key != "index":
        with pytest.raises(WrongType):
            queue.offer("x", delay=0)
        assert client.keys() == [name.encode()]


def test_polling_the_first_and_the_last_offered(queue: DelayedQueue, java: ScriptedJava, client: redis.Redis) -> None:
    for number in range(4):
        queue.offer(f"v{number}", delay=HOUR_MS)
    assert queue.peek() == "v0"
    assert queue.poll_first_offered() == "v0"
    assert java.poll() == b"v1"
    assert queue.poll_last_and_offer_first_to("other") == "v3"
    assert java.poll_last_and_offer_first_to("other") == b"v2"
    assert client.lrange("other", 0, -1) == [b"v2", b"v3"]
    assert queue.poll_first_offered() is None and queue.poll_last_and_offer_first_to("other") is None
    assert queue.peek() is None
    assert set(client.keys()) == {b"other"}


def test_clear_takes_what_waits_and_leaves_what_is_due(queue: DelayedQueue) -> None:
    queue.offer("due", at=1)
    move_all_due(queue)
    queue.offer("waits", delay=HOUR_MS)
    assert queue.clear() and not queue.clear()
    assert queue.size() == 0
    assert queue.take(timeout_s=0.1) == "due"


def test_take_waits_and_gives_up(queue: DelayedQueue) -> None:
    before = time.monotonic()
    assert queue.take(timeout_s=0.05) is None
    assert 0.04 < time.monotonic() - before < 5


def test_a_value_that_does_not_decode_keeps_its_bytes(client: redis.Redis, java: ScriptedJava) -> None:
    queue = DelayedQueue("orders", client, codec=JsonJacksonCodec())
    java.offer(b"\xff\x00", 1)
    with pytest.raises(ValueUnreadable):
        queue.read_all()
    assert list(queue.read_all_bytes()) == [b"\xff\x00"]
    move_all_due(queue)
    with pytest.raises(ValueUnreadable) as caught:
        queue.take(timeout_s=1)
    assert caught.value.value == b"\xff\x00"


def test_read_only_changes_nothing(client: redis.Redis, java: ScriptedJava) -> None:
    queue = DelayedQueue("orders", client, read_only=True)
    for number in range(1500):
        java.offer(b"v%d" % number, number)
    before = client.keys()
    assert queue.contains("v1400") and not queue.contains("absent")
    assert queue.size() == 1500 and queue.peek() == "v0"
    for refused in (
        lambda: queue.offer("x", delay=0),
        queue.clear,
        queue.poll,
        queue.poll_first_offered,
        lambda: queue.take(timeout_s=0),
        lambda: queue.remove("v1"),
        lambda: queue.remove_all(["v1"]),
        lambda: queue.poll_last_and_offer_first_to("other"),
    ):
        with pytest.raises(NotAllowed):
            refused()
    assert sorted(client.keys()) == sorted(before)


def test_a_client_that_decodes_is_refused(client: redis.Redis) -> None:
    with pytest.raises(ClientUnfit):
        DelayedQueue("orders", redis.Redis(decode_responses=True))


def test_names_with_their_own_hash_tag(client: redis.Redis) -> None:
    queue, java = DelayedQueue("{shop}:orders", client), ScriptedJava(client, "{shop}:orders")
    queue.offer("x", at=1)
    assert set(client.keys()) == {b"redisson_delay_queue_timeout:{shop}:orders", b"redisson_delay_queue:{shop}:orders"}
    java.transfer(now_ms(queue))
    assert queue.poll() == "x"


def test_large_values_pass(client: redis.Redis) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    value = b"x" * 20_000_000
    receipts = [queue.offer(value, at=number) for number in range(3)]
    assert unpack(receipts[0].member).value == value
    moved = move_due(queue, 100)
    assert moved.count >= 1
    move_all_due(queue)
    assert [queue.poll() == value for _ in range(3)] == [True] * 3
