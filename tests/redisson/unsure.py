"""What the tests of reliable mode share: a producer that is not sure of its answers, and what a topic holds."""

from __future__ import annotations

from collections.abc import Sequence

from broker.client import Admin, Message, Outgoing, Producer, SendResult
from broker.client.errors import BrokerUnreachable, ClientError
from tests.redisson.meddling import Died

#: a due time that does not come
FAR = 10**13


class Unsure:
    """A producer whose answers get lost, or which dies, after the messages have been stored."""

    def __init__(self, producer: Producer, *, dies: bool = False) -> None:
        self._producer = producer
        self._dies = dies
        self.fail = True
        self.sent = 0

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        results = self._producer.send_each(topic, messages, timeout_ms=timeout_ms)
        self.sent += len(messages)
        if not self.fail:
            return results
        if self._dies:
            raise Died
        return [BrokerUnreachable("broker", "the answer got lost") for _ in results]


def bodies(admin: Admin, topic: str) -> list[bytes]:
    """The bodies in a topic, sorted."""
    found: list[Message] = []
    for queue_id, stats in enumerate(admin.topic_stats(topic).queues):
        if stats.max_offset:
            found += admin.pull(topic, queue_id, 0, 1000)
    return sorted(message.body for message in found)
