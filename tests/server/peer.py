"""What a RocketMQ client says, in one line each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.rocketmq.message import Message, decode

BORN_MS = 1_795_249_116_470


def send_ext(topic: str, properties: str = "", **changes: str) -> dict[str, str]:
    """The V2 header of a send to queue 0."""
    ext = {
        "a": "producers", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": str(BORN_MS), "h": "0",
        "i": properties, "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip
    return ext | changes


def pull_ext(group: str, topic: str, offset: int = 0, **changes: str) -> dict[str, str]:
    """A pull of queue 0 that carries its own subscription to everything and does not wait."""
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG", "maxMsgBytes": "262144",
    }  # fmt: skip
    return ext | changes


def heartbeat_body(client_id: str, group: str, topic: str = "T", expression: str = "*", version: int = 1) -> bytes:
    """The heartbeat of a push consumer that is also a producer."""
    subscription = {"topic": topic, "subString": expression, "subVersion": version, "expressionType": "TAG"}
    consumer = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
    }  # fmt: skip
    return json.dumps(
        {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "producers"}]}
    ).encode()


def records(body: bytes) -> list[Message]:
    """The messages in a pull's answer."""
    found = []
    while body:
        size = int.from_bytes(body[:4], "big")
        found.append(decode(body[:size]))
        body = body[size:]
    return found


@dataclass
class Peer:
    """One client of one broker."""

    client: RemotingClient
    address: str

    async def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", timeout_ms: int = 5000
    ) -> Command:
        """Sends a request and returns its answer."""
        return await self.client.invoke(self.address, code, ext, body, timeout_ms)

    async def send(self, topic: str, body: bytes = b"body", properties: str = "", **changes: str) -> Command:
        """Send one message and return the answer."""
        return await self.ask(Request.SEND_MESSAGE_V2, send_ext(topic, properties, **changes), body)

    async def pull(self, topic: str, offset: int = 0, group: str = "G", **changes: str) -> Command:
        """Pull queue 0 and return the answer."""
        return await self.ask(Request.PULL_MESSAGE, pull_ext(group, topic, offset, **changes), timeout_ms=20_000)

    async def everything(self, topic: str) -> list[Message]:
        """All of queue 0, pull by pull."""
        found: list[Message] = []
        while (answer := await self.pull(topic, len(found))).code == Answer.SUCCESS:
            found += records(answer.body)
        return found

    async def heartbeat(self, client_id: str, group: str, **subscription: Any) -> Command:
        """Register a consumer and return the answer."""
        return await self.ask(Request.HEART_BEAT, body=heartbeat_body(client_id, group, **subscription))

    async def create_topic(self, name: str, queues: int = 1, **changes: str) -> Command:
        """Make a topic and return the answer."""
        ext = {"topic": name, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
        return await self.ask(Request.UPDATE_AND_CREATE_TOPIC, ext | changes)
