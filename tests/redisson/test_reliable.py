"""Reliable mode and import: from queues of a real Redis into topics and timers of a real broker."""

from __future__ import annotations

import pytest
import redis

from broker.client import Admin, Consumer, Message, Producer
from broker.redisson import BytesCodec, DelayedQueue
from broker.redisson.survey import page
from broker.redisson.to_topic import (
    LARGEST_BYTES,
    ModeMover,
    NotSent,
    Outbound,
    SomebodyElseSends,
    make_reliable,
    read_mode,
    stop,
)
from broker.redisson.transfer import TransferService
from tests.mirror.running import RunningBroker
from tests.redisson.java import ScriptedJava
from tests.redisson.meddling import Died
from tests.redisson.test_transfer import status_of
from tests.redisson.unsure import FAR, Unsure, bodies
from tests.waiting import until


def test_due_values_go_to_the_topic(
    client: redis.Redis, producer: Producer, admin: Admin, broker: RunningBroker, topic: str
) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    service = TransferService(client, mover=ModeMover(Outbound(producer, admin)))
    service.start()
    taken: list[tuple[bytes, str]] = []
    try:
        for number in range(20):
            queue.offer(f"v{number}", delay=10 * number)
        queue.offer("later", at=FAR)

        def handle(message: Message) -> None:
            taken.append((message.body, message.properties["REDISSON_QUEUE"]))

        consumer = Consumer(f"readers-{topic}", broker.namesrv, from_where="first")
        consumer.subscribe(topic, "*", handle)
        with consumer:
            until(lambda: len(taken) >= 20)
        assert status_of(service, "orders").mode == "reliable"
    finally:
        service.stop()
    assert sorted(taken) == sorted((b"v%d" % number, "orders") for number in range(20))
    assert client.llen("orders") == 0
    assert queue.read_all() == ["later"]
    assert (read_mode(queue).sent, read_mode(queue).sending) == (20, 0)


@pytest.mark.parametrize("dies", [True, False])
def test_what_may_have_been_sent_is_not_sent_again(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str, dies: bool
) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer_many([f"v{number}" for number in range(5)], at=1)
    unsure = Unsure(producer, dies=dies)
    with pytest.raises((Died, NotSent)):
        Outbound(unsure, admin, owner="a").move(queue, read_mode(queue), 100, 0, False)
    assert read_mode(queue).sending == 5
    queue.offer("fresh", at=1)
    unsure.fail = False
    Outbound(unsure, admin, owner="a").move(queue, read_mode(queue), 100, 0, False)
    assert unsure.sent == 6
    assert bodies(admin, topic) == [b"fresh", *(b"v%d" % number for number in range(5))]
    assert (read_mode(queue).sent, read_mode(queue).sending) == (6, 0)


def test_only_one_service_sends_for_a_queue(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer("x", at=1)
    Outbound(producer, admin, owner="first").move(queue, read_mode(queue), 1, 0, False)
    second = Outbound(producer, admin, owner="second")
    with pytest.raises(SomebodyElseSends):
        second.move(queue, read_mode(queue), 1, 0, False)
    client.hset(queue.keys.mode.decode(), "owned_until_ms", 1)
    second.move(queue, read_mode(queue), 1, 0, False)


def test_after_a_stop_the_next_service_sends_at_once(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str
) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer("x", at=1)
    service = TransferService(client, mover=ModeMover(Outbound(producer, admin)))
    service.start()
    until(lambda: read_mode(queue).sent == 1)
    other = Outbound(producer, admin)
    with pytest.raises(SomebodyElseSends):
        other.move(queue, read_mode(queue), 1, 0, False)
    other.release()  # of what is not its own: nothing
    with pytest.raises(SomebodyElseSends):
        other.move(queue, read_mode(queue), 1, 0, False)
    service.stop()
    other.move(queue, read_mode(queue), 1, 0, False)


def test_whoever_asks_for_many_messages_keeps_others_out(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking takes longer than the ownership lasts: it is renewed between two questions."""
    monkeypatch.setattr("broker.redisson.to_topic.RENEW_S", 0.0)
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer_many(["a", "b", "c"], at=1)
    with pytest.raises(NotSent):
        Outbound(Unsure(producer), admin, owner="a").move(queue, read_mode(queue), 10, 0, False)

    class Late:
        """As long as it is asked, the ownership runs out."""

        asked = 0

        def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
            if self.asked:
                assert int(client.hget(queue.keys.mode.decode(), "owned_until_ms") or 0) > 1
            self.asked += 1
            client.hset(queue.keys.mode.decode(), "owned_until_ms", 1)
            return admin.messages_by_key(topic, key, max_count)

    late = Late()
    Outbound(producer, late, owner="a").move(queue, read_mode(queue), 10, 0, False)
    assert late.asked == 3
    assert bodies(admin, topic) == [b"a", b"b", b"c"]


def test_what_java_moved_to_the_plain_list_is_taken_over(
    client: redis.Redis, producer: Producer, admin: Admin, topic: str
) -> None:
    queue, java = DelayedQueue("orders", client), ScriptedJava(client, "orders")
    make_reliable(queue, topic)
    java.offer(b"theirs", 5)
    java.offer(b"theirs", 6)
    java.transfer(10)
    service = TransferService(client, mover=ModeMover(Outbound(producer, admin)))
    service.start()
    try:
        until(lambda: read_mode(queue).sent == 2)
        until(lambda: "RDelayedQueue" in status_of(service, "orders").notice)
    finally:
        service.stop()
    assert bodies(admin, topic) == [b"theirs", b"theirs"]
    assert client.llen("orders") == 0
    assert read_mode(queue).taken_over == 2


def test_back_to_the_plain_list(client: redis.Redis, producer: Producer, admin: Admin, topic: str) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer("sent", at=1)
    unsure = Unsure(producer)
    with pytest.raises(NotSent):
        Outbound(unsure, admin, owner="a").move(queue, read_mode(queue), 10, 0, False)
    stop(queue)
    queue.offer("plain", at=1)
    service = TransferService(client, mover=ModeMover(Outbound(producer, admin, owner="a")))
    service.start()
    try:
        until(lambda: client.llen("orders") == 1)
        until(lambda: read_mode(queue).sending == 0)
    finally:
        service.stop()
    assert bodies(admin, topic) == [b"sent"]
    assert queue.poll() == "plain"


def test_without_a_broker_nothing_leaves_the_queue(client: redis.Redis, topic: str) -> None:
    queue = DelayedQueue("orders", client)
    make_reliable(queue, topic)
    queue.offer("x", at=1)
    service = TransferService(client)
    service.start()
    try:
        until(lambda: service.status().queues and "no broker" in status_of(service, "orders").problem)
    finally:
        service.stop()
    assert queue.size() == 1


def test_what_fits_no_message_is_set_aside(client: redis.Redis, producer: Producer, admin: Admin, topic: str) -> None:
    queue = DelayedQueue("orders", client, codec=BytesCodec())
    make_reliable(queue, topic)
    queue.offer(b"x" * (LARGEST_BYTES + 1), at=1)
    queue.offer(b"behind", at=2)
    Outbound(producer, admin).move(queue, read_mode(queue), 10, 0, False)
    assert bodies(admin, topic) == [b"behind"]
    aside = page(queue, aside=True).items
    assert [each.value_bytes for each in aside] == [LARGEST_BYTES + 1]
