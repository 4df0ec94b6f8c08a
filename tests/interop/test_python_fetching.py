"""Lite pull and orderly consumers of `broker.client` against Apache RocketMQ and against our broker."""

from __future__ import annotations

from broker.client import Admin, LitePullConsumer, Producer, Sql
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
            (queue,) = consumer.assignment
            assert consumer.position(queue) == 4
            consumer.seek(queue, 1)
            assert polled(consumer, 2) == ["1", "2"]
            consumer.commit()
            assert consumer.committed(queue) == 3
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
            assert consumer.position(queue) == 6


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
