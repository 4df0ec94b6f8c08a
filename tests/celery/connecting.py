"""Sending and receiving with kombu alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu import Connection, Consumer, Producer, Queue

Connect = Callable[..., Connection]

PATIENCE_S = 10


def publish(connection: Connection, queue: Queue, *bodies: Any, **options: Any) -> None:
    with connection.channel() as channel:
        producer = Producer(channel)
        for body in bodies:
            producer.publish(body, routing_key=queue.name, declare=[queue], **options)


class Taking:
    """A consumer that keeps what it gets."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch: int = 0, **options: Any) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.messages: list[Any] = []
        self.consumer = Consumer(self.channel, list(queues), on_message=self.messages.append, **options)
        self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.messages]

    def take(self, count: int) -> list[Any]:
        """Wait until so many have come in all, and return what they hold."""
        while len(self.messages) < count:
            self.connection.drain_events(timeout=PATIENCE_S)
        return self.bodies

    def take_and_ack(self, count: int) -> list[Any]:
        """Take one after the other."""
        for number in range(count):
            self.take(number + 1)
            self.messages[number].ack()
        return self.bodies

    def nothing(self, for_s: float = 0.2) -> bool:
        """Whether nothing comes for so long."""
        before = len(self.messages)
        try:
            self.connection.drain_events(timeout=for_s)
        except TimeoutError:
            return len(self.messages) == before
        return False
