"""Lite pull and orderly consumers of `broker.client` against Apache RocketMQ and against our broker."""

from __future__ import annotations

import queue

from broker.client import Admin, Consumer, LitePullConsumer, Message, Producer, Sql
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

WAIT_S = 40
PATIENCE_MS = 20_000


def polled(consumer: LitePullConsumer, count: int) -> list[str]:
    """So many bodies; ends early when a poll gives nothing."""
    bodies: list[str] = []
    while len(bodies) < count and (messages := consumer.poll(PATIENCE_MS, count - len(bodies))):
        bodies += [message.body.decode() for message in messages]
    return bodies


def test_lite_pull_polls_seeks_and_commits(server: Server, topic: str, group: str) -> None:
    with Producer("python-producer", server.namesrv) as producer, Admin(server.namesrv) as admin:
        admin.create_topic(topic, queues=1)
        assert wait_until(lambda: len(admin.route(topic).readable()) == 1)
        for number in range(6):
            producer.send(topic, str(number), tag="even" if number % 2 == 0 else "odd")
        with LitePullConsumer(group, server.namesrv, from_where="first") as consumer:
            consumer.subscribe(topic)
            assert polled(consumer, 4) == ["0", "1", "2", "3"]
            (place,) = consumer.assignment
            assert consumer.position(place) == 4
            consumer.seek(place, 1)
            assert polled(consumer, 2) == ["1", "2"]
            consumer.commit()
            assert consumer.committed(place) == 3
        with LitePullConsumer(group, server.namesrv) as consumer:
            consumer.subscribe(topic)
            assert polled(consumer, 1) == ["3"]
            consumer.pause()
            assert consumer.poll(0) == []
            consumer.resume()
            assert polled(consumer, 2) == ["4", "5"]
            consumer.subscribe(topic, "odd")
            consumer.seek_to_begin()
            assert polled(consumer, 3) == ["1", "3", "5"]
            consumer.seek_to_end()
            assert consumer.position(place) == 6


def test_assigned_queues_with_a_filter(server: Server, topic: str, group: str) -> None:
    with Producer("python-producer", server.namesrv) as producer, Admin(server.namesrv) as admin:
        admin.create_topic(topic, queues=2)
        assert wait_until(lambda: len(admin.route(topic).readable()) == 2)
        for queue_id in (0, 1):
            for amount in (5, 50):
                producer.send(topic, f"{queue_id} {amount}", properties={"amount": str(amount)}, queue_id=queue_id)
        with LitePullConsumer(group, server.namesrv, from_where="first") as consumer:
            queues = consumer.queues(topic)
            consumer.assign(queues[1:], Sql("amount > 10"))
            assert polled(consumer, 1) == ["1 50"]
            assert consumer.assignment == queues[1:]


def test_orderly_consumer_keeps_each_queue_in_order(server: Server, topic: str, group: str) -> None:
    handled: queue.Queue[tuple[int, str, int]] = queue.Queue()

    def handle(message: Message) -> None:
        body = message.body.decode()
        handled.put((message.queue_id, body, message.reconsume_times))
        if (body == "once" and message.reconsume_times == 0) or body == "never":
            raise ValueError("not now")

    with Producer("python-producer", server.namesrv) as producer, Admin(server.namesrv) as admin:
        admin.create_topic(topic, queues=2)
        assert wait_until(lambda: len(admin.route(topic).readable()) == 2)
        for body in ("0", "once", "2", "never", "4"):
            producer.send(topic, body, queue_id=0)
        for number in range(20):
            producer.send(topic, str(number), queue_id=1)
        consumer = Consumer(
            group, server.namesrv, from_where="first", orderly=True, max_reconsume_times=2, suspend_ms=50
        )
        consumer.subscribe(topic, "*", handle)
        with consumer:
            seen = [handled.get(timeout=WAIT_S) for _ in range(28)]
            assert [(body, times) for queue_id, body, times in seen if queue_id == 0] == [
                ("0", 0), ("once", 0), ("once", 1), ("2", 0), ("never", 0), ("never", 1), ("never", 2), ("4", 0)
            ]  # fmt: skip
            assert [body for queue_id, body, _ in seen if queue_id == 1] == [str(number) for number in range(20)]
            assert wait_until(lambda: len(admin.pull(f"%DLQ%{group}", 0, 0, 5)) == 1)
        (dead,) = admin.pull(f"%DLQ%{group}", 0, 0, 5)
        assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"never", topic)
        # everything is committed and every lock given back: the next member begins at once, with what is new
        producer.send(topic, "new", queue_id=0)
        heir = Consumer(group, server.namesrv, orderly=True)
        heir.subscribe(topic, "*", handle)
        with heir:
            assert handled.get(timeout=WAIT_S) == (0, "new", 0)
