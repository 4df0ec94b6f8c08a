"""``from_where="last"`` of `broker.client` against Apache RocketMQ and against our broker: the end, on both."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from broker.client import Admin, Consumer, LitePullConsumer, Producer, SimpleConsumer
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

WAIT_S = 40
QUEUES = 2


def pushed(group: str, server: Server, topic: str, count: int, send: Any) -> list[bytes]:
    inbox: queue.Queue[bytes] = queue.Queue()
    consumer = Consumer(group, server.namesrv)
    consumer.subscribe(topic, "*", lambda message: inbox.put(message.body))
    with consumer:
        send()
        return [inbox.get(timeout=WAIT_S) for _ in range(count)]


def polled(group: str, server: Server, topic: str, count: int, send: Any) -> list[bytes]:
    bodies: list[bytes] = []
    with LitePullConsumer(group, server.namesrv) as consumer:
        consumer.subscribe(topic)
        send()
        while len(bodies) < count and (messages := consumer.poll(WAIT_S * 1000)):
            bodies += [message.body for message in messages]
    return bodies


def received(group: str, server: Server, topic: str, count: int, send: Any) -> list[bytes]:
    bodies: list[bytes] = []
    with SimpleConsumer(group, server.namesrv, from_where="last") as consumer:
        assert consumer.receive(topic, wait_ms=0) == []
        send()
        while len(bodies) < count and (messages := consumer.receive(topic, wait_ms=WAIT_S * 1000)):
            bodies += [each.body for each in messages]
            consumer.ack(*messages)
    return bodies


@pytest.mark.parametrize("way", [pushed, polled, received])
def test_a_new_group_begins_at_the_end(server: Server, topic: str, group: str, way: Any) -> None:
    with Producer("python-producer", server.namesrv) as producer, Admin(server.namesrv) as admin:
        admin.create_topic(topic, queues=QUEUES)
        assert wait_until(lambda: len(admin.route(topic).readable()) == QUEUES)

        def send(word: str) -> list[bytes]:
            bodies = [f"{word}{number}".encode() for number in range(QUEUES)]
            for number, body in enumerate(bodies):
                producer.send(topic, body, queue_id=number)
            return bodies

        send("old")
        sent: list[bytes] = []
        assert sorted(way(group, server, topic, QUEUES, lambda: sent.extend(send("new")))) == sent
