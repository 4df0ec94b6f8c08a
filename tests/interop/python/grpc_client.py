"""Apache's Python client of the 5.x API (gRPC) as its users use it; runs in an environment of its own.

Requests are lines of tab-separated fields, everything that happens is a line of JSON:
`send topic body tag key group deliveryMs`, `recall topic handle`, `transaction topic body commit|rollback|leave`,
`receive group topic expression count invisibleMs waitS`, `ack id`, `change id ms`, `push group topic`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import InternalErrorException

PATIENCE_S = 10

_writing = threading.Lock()


def say(event: str, **fields: Any) -> None:
    """Print one event."""
    with _writing:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def describe(message: Message) -> None:
    """Print a message that was received."""
    say(
        "message",
        topic=message.topic, body=message.body.decode(), id=message.message_id, tag=message.tag,
        keys=list(message.keys), group=message.message_group, attempt=message.delivery_attempt,
        properties=dict(message.properties),
    )  # fmt: skip


class Committing(TransactionChecker):
    """Commits every half that it is asked about."""

    def check(self, message: Message) -> TransactionResolution:
        say("checked", body=message.body.decode())
        return TransactionResolution.COMMIT


class Printing(MessageListener):
    """Prints what a push consumer gets; what is called `fails` fails at its first try."""

    def consume(self, message: Message) -> ConsumeResult:
        describe(message)
        if message.body == b"fails" and message.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        return ConsumeResult.SUCCESS


class Client:
    """One producer and consumers by group and topic."""

    def __init__(self, endpoints: str, topics: list[str]) -> None:
        self._configuration = ClientConfiguration(endpoints, Credentials(), request_timeout=10)
        self._producer = Producer(self._configuration, topics, checker=Committing())
        self._producer.startup()
        self._consumers: dict[tuple[str, str, str], SimpleConsumer] = {}
        self._pushing: list[PushConsumer] = []
        self._received: dict[str, tuple[SimpleConsumer, Message]] = {}

    def close(self) -> None:
        for one in (*self._pushing, *self._consumers.values(), self._producer):
            one.shutdown()

    def send(self, topic: str, body: str, tag: str, key: str, group: str, delivery_ms: str) -> None:
        message = Message()
        message.topic, message.body = topic, body.encode()
        message.add_property("length", str(len(body)))
        if tag:
            message.tag = tag
        if key:
            message.keys = key
        if group:
            message.message_group = group
        if delivery_ms:
            message.delivery_timestamp = int(delivery_ms) // 1000
        receipt = self._producer.send(message)
        say("sent", id=receipt.message_id, offset=receipt.offset, recall=receipt.recall_handle)

    def recall(self, topic: str, handle: str) -> None:
        say("recalled", id=str(self._producer.recall_message(topic, handle)))

    def transaction(self, topic: str, body: str, end: str) -> None:
        message = Message()
        message.topic, message.body = topic, body.encode()
        transaction = self._producer.begin_transaction()
        self._producer.send(message, transaction)
        if end != "leave":
            getattr(transaction, end)()
        say("ended")

    def receive(self, group: str, topic: str, expression: str, count: str, invisible_ms: str, wait_s: str) -> None:
        consumer = self._consumer(group, topic, expression, int(wait_s))
        for message in _received(consumer, int(count), int(invisible_ms) // 1000):
            self._received[message.message_id] = (consumer, message)
            describe(message)
        say("received")

    def _consumer(self, group: str, topic: str, expression: str, wait_s: int) -> SimpleConsumer:
        key = (group, topic, expression)
        if key not in self._consumers:
            kind, _, rest = expression.partition(":")
            wanted = FilterExpression(rest, FilterType.SQL) if kind == "sql" else FilterExpression(expression)
            consumer = SimpleConsumer(self._configuration, group, {topic: wanted}, await_duration=wait_s)
            consumer.startup()
            self._consumers[key] = consumer
        return self._consumers[key]

    def ack(self, identity: str) -> None:
        consumer, message = self._received[identity]
        consumer.ack(message)
        say("acked")

    def change(self, identity: str, invisible_ms: str) -> None:
        consumer, message = self._received[identity]
        consumer.change_invisible_duration(message, int(invisible_ms) // 1000)
        say("changed")

    def push(self, group: str, topic: str) -> None:
        consumer = PushConsumer(self._configuration, group, Printing(), {topic: FilterExpression()})
        consumer.startup()
        self._pushing.append(consumer)
        say("pushing")


def _received(consumer: SimpleConsumer, count: int, invisible_s: int) -> list[Message]:
    """What there is; the proxy fails until it has heard the settings of a client that says it has started."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return consumer.receive(count, invisible_s) or []
        except InternalErrorException as error:
            if "settings" not in str(error) or time.monotonic() > deadline:
                raise
            threading.Event().wait(0.05)


def main() -> None:
    client = Client(sys.argv[1], sys.argv[2].split(","))
    say("started")
    for line in sys.stdin:
        name, *fields = line.rstrip("\n").split("\t")
        request: Callable[..., None] = getattr(client, name)
        try:
            request(*fields)
        except Exception as error:
            say("failure", error=type(error).__name__, code=getattr(error, "code", None) or 0, remark=str(error))
    client.close()
    say("ended")


if __name__ == "__main__":
    main()
