"""Every call of a delayed queue, from Java and from Python on the same keys: what one does the other sees."""

from __future__ import annotations

import pytest

from broker.redisson import BytesCodec, JsonJacksonCodec, StringCodec, TypedJsonJacksonCodec
from broker.redisson.errors import InvalidDelay
from broker.redisson.queue import move_all_due
from tests.interop.redisson import JavaThrew
from tests.interop.waiting import wait_until

HOUR_MS = 3_600_000
VALUES = {
    "string": (StringCodec(), ["order-1", "", "日本\U0001f600", "x" * 100_000]),
    "json": (
        JsonJacksonCodec(),
        ["order-1", {"id": "\U0001f600", "items": [1, 5_000_000_000, None, 1.5, {}], "paid": True}, [], 42, 1.0e7],
    ),
    "typed_map": (TypedJsonJacksonCodec(), [{"id": "order-1", "items": [1, 2.5, {"a": "日本"}]}, {}]),
    "bytes": (BytesCodec(), [b"\x00\xff\x08", b"", bytes(range(256))]),
}


@pytest.fixture(params=VALUES)
def coded(request, shared, queue):
    """The same queue from both sides with one codec, and values for it: (ours, the codec's name, values)."""
    codec, values = VALUES[request.param]
    return shared.ours(queue, codec), request.param, values


def test_java_offers_and_python_takes(shared, coded):
    ours, codec, values = coded
    for number, value in enumerate(values):
        shared.java.offer(ours.name, value, 5 * number, codec)
    # The transfer task that Java's object had for a moment may have been first: moved is moved.
    assert wait_until(lambda: move_all_due(ours) >= 0 and ours.size() == 0)
    assert [ours.take(timeout_s=5) for _ in values] == values
    assert ours.poll() is None
    assert ours.size() == 0 == shared.java.call("size", ours.name, codec)


def test_python_offers_and_java_takes(shared, coded):
    ours, codec, values = coded
    shared.java.open_live(ours.name, codec)
    for number, value in enumerate(values):
        ours.offer(value, delay=20 + 20 * number)
    assert [shared.java.take(ours.name, codec) for _ in values] == values
    assert shared.java.call("destroy", ours.name, codec)
    assert shared.java.call("size", ours.name, codec) == 0


def test_an_earlier_offer_of_python_wakes_the_transfer_task_of_java(shared, queue):
    ours = shared.ours(queue)
    shared.java.open_live(queue)
    shared.java.offer(queue, "later", HOUR_MS, live=True)
    ours.offer("sooner", delay=50)
    assert shared.java.take(queue) == "sooner"
    shared.java.call("destroy", queue)


def test_each_finds_and_removes_what_the_other_offered(shared, coded):
    ours, codec, values = coded
    for value in values:
        shared.java.offer(ours.name, value, HOUR_MS, codec)
        assert ours.contains(value)
        assert ours.remove(value)
        assert not ours.contains(value)
        assert not ours.remove(value)
        ours.offer(value, delay=HOUR_MS)
        assert shared.java.call("contains", ours.name, codec, value=value)
        assert shared.java.call("remove", ours.name, codec, value=value)
        assert not shared.java.call("contains", ours.name, codec, value=value)
    assert shared.client.exists(ours.keys.timeout, ours.keys.waiting) == 0


def test_remove_all_takes_every_equal_one(shared, queue):
    ours = shared.ours(queue)
    for value in ("a", "b", "a", "c"):
        shared.java.offer(queue, value, HOUR_MS)
        ours.offer(value, delay=HOUR_MS)
    assert ours.remove_all(["a", "never"]) == 4
    assert shared.java.call("readAll", queue) == ["b", "b", "c", "c"]
    assert shared.java.call("removeAll", queue, value=["c", "never"])
    assert ours.read_all() == ["b", "b"]
    assert shared.client.zcard(ours.keys.timeout) == 2


def test_both_read_the_same_in_the_order_of_offers(shared, coded):
    ours, codec, values = coded
    for value in values:
        ours.offer(value, delay=HOUR_MS)
        shared.java.offer(ours.name, value, 2 * HOUR_MS, codec)
    both = [value for value in values for _ in range(2)]
    assert ours.read_all() == both == shared.java.call("readAll", ours.name, codec)
    assert shared.java.call("iterate", ours.name, codec) == both
    assert ours.size() == len(both) == shared.java.call("size", ours.name, codec)
    assert ours.peek() == both[0] == shared.java.call("peek", ours.name, codec)


def test_poll_takes_the_first_offered_one_due_or_not(shared, queue):
    ours = shared.ours(queue)
    for value in ("a", "b", "c", "d"):
        shared.java.offer(queue, value, HOUR_MS)
        ours.offer(value.upper(), delay=HOUR_MS)
    assert ours.poll_first_offered() == "a"
    assert shared.java.call("poll", queue) == "A"
    assert shared.java.call("poll", queue, limit=2) == ["b", "B"]
    assert ours.poll_first_offered() == "c"
    assert shared.client.zcard(ours.keys.timeout) == 3 == ours.size()


def test_the_last_offered_one_goes_to_the_front_of_another_list(shared, queue):
    ours, other = shared.ours(queue), f"{queue}-other"
    shared.client.rpush(other, "was there")
    for value in ("a", "b", "c", "d"):
        ours.offer(value, delay=HOUR_MS)
    assert shared.java.call("pollLastAndOfferFirstTo", queue, to=other) == "d"
    assert ours.poll_last_and_offer_first_to(other) == "c"
    assert shared.java.call("target.readAll", other) == ["c", "d", "was there"]
    assert ours.read_all() == ["a", "b"]
    assert shared.client.zcard(ours.keys.timeout) == 2


def test_clear_leaves_nothing_of_either(shared, queue):
    ours = shared.ours(queue)
    for clear in (ours.clear, lambda: shared.java.call("clear", queue)):
        ours.offer("a", delay=HOUR_MS)
        shared.java.offer(queue, "b", HOUR_MS)
        assert clear()
        assert ours.size() == 0 == shared.java.call("size", queue)
        assert not shared.client.exists(ours.keys.timeout, ours.keys.waiting)


def test_on_an_empty_queue_both_answer_nothing(shared, queue):
    ours = shared.ours(queue)
    assert (ours.peek(), ours.poll(), ours.poll_first_offered(), ours.size(), ours.read_all()) == (None,) * 3 + (0, [])
    assert ours.poll_last_and_offer_first_to(f"{queue}-other") is None
    assert ours.take(timeout_s=0.05) is None
    assert shared.java.call("peek", queue) is shared.java.call("poll", queue) is None
    assert shared.java.call("pollLastAndOfferFirstTo", queue, to=f"{queue}-other") is None


def test_a_negative_delay_is_refused_by_both(shared, queue):
    with pytest.raises(InvalidDelay):
        shared.ours(queue).offer("a", delay=-1)
    with pytest.raises(JavaThrew, match="negative"):
        shared.java.offer(queue, "a", -1)
    assert shared.ours(queue).size() == 0


@pytest.mark.parametrize("name", ["{tag}:orders", "orders:{tag}", "a}b", "日本 orders", "{", "{}", "a{b"])
def test_both_find_the_queue_of_any_name(shared, queue, name):
    ours = shared.ours(f"{name}-{queue}")
    shared.java.offer(ours.name, "java", HOUR_MS)
    ours.offer("python", delay=HOUR_MS)
    assert ours.read_all() == ["java", "python"] == shared.java.call("readAll", ours.name)
    shared.java.call("clear", ours.name)
    assert ours.size() == 0


def test_a_due_time_of_the_servers_clock_is_one_of_java_too(shared, queue):
    """All three run on one machine here, so a delay means the same moment to each."""
    before_ms = shared.java.call("now")
    due_ms = shared.ours(queue).offer("a", delay=HOUR_MS).due_ms
    assert before_ms + HOUR_MS <= due_ms <= shared.java.call("now") + HOUR_MS
