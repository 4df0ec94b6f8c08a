"""A client that pops, in one line each."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass

from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from broker.rocketmq.message import Message
from tests.server.peer import Peer, records

TOPIC, GROUP = "T", "G"
BROKER = "broker-a"


@dataclass(frozen=True)
class Got:
    """One message of a pop's answer, with the handle that a client makes of it (MQClientAPIImpl.processPopResponse)."""

    message: Message
    handle: str

    @property
    def topic(self) -> str:
        """The topic that an acknowledgement names."""
        return f"%RETRY%{GROUP}_{TOPIC}" if self.handle.split(" ")[4] == "1" else TOPIC

    @property
    def offset(self) -> int:
        return self.message.queue_offset


def got_of(answer: Command) -> list[Got]:
    """The messages of an answer."""
    starts = {
        tuple(part.split(" ")[:2]): part.split(" ")[2] for part in answer.ext["startOffsetInfo"].split(";") if part
    }
    found = []
    for message in records(answer.body):
        handle = message.properties.get("POP_CK")
        if handle is None:
            queue = str(message.queue_id)
            handle = " ".join(
                [
                    starts["0", queue], answer.ext["popTime"], answer.ext["invisibleTime"], answer.ext["reviveQid"],
                    "0", BROKER, queue, str(message.queue_offset),
                ]
            )  # fmt: skip
        found.append(Got(message, handle))
    return found


def bodies(answer: Command) -> list[bytes]:
    return [got.message.body for got in got_of(answer)]


@dataclass
class Popper:
    """One client of one broker."""

    peer: Peer

    async def pop(self, **changes: str) -> Command:
        """One pop, by the fields of the official client."""
        ext = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "30000",
            "pollTime": "0", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
            "bname": BROKER,
        }  # fmt: skip
        return await self.peer.ask(Request.POP_MESSAGE, ext | changes, timeout_ms=20_000)

    def of(self, got: Got, **changes: str) -> dict[str, str]:
        """The fields of what is said of one message."""
        ext = {
            "consumerGroup": GROUP, "topic": got.topic, "queueId": str(got.message.queue_id), "extraInfo": got.handle,
            "offset": str(got.offset), "bname": BROKER,
        }  # fmt: skip
        return ext | changes

    async def ack(self, got: Got, **changes: str) -> Command:
        return await self.peer.ask(Request.ACK_MESSAGE, self.of(got, **changes))

    async def change(self, got: Got, invisible_ms: int, **changes: str) -> Command:
        ext = {"invisibleTime": str(invisible_ms), "suspend": "false"}
        return await self.peer.ask(Request.CHANGE_MESSAGE_INVISIBLETIME, self.of(got, **ext) | changes)

    async def ack_together(self, *got: Got, **changes: object) -> Command:
        """One batch of acknowledgements, as the official client puts it together."""
        rows: dict[tuple[str, ...], dict[str, object]] = {}
        bits: dict[tuple[str, ...], int] = {}
        for each in got:
            start, pop_ms, invisible_ms, revive, retry, _, queue, offset = each.handle.split(" ")
            key = (retry, queue, start, pop_ms)
            rows.setdefault(
                key,
                {
                    "c": GROUP, "t": TOPIC, "r": retry, "so": int(start), "q": int(queue), "rq": int(revive),
                    "pt": int(pop_ms), "it": int(invisible_ms),
                },
            )  # fmt: skip
            bits[key] = bits.get(key, 0) | 1 << (int(offset) - int(start))
        acks = [
            row | {"b": b64encode(bits[key].to_bytes(bits[key].bit_length() // 8 + 1, "little")).decode()} | changes
            for key, row in rows.items()
        ]
        body = json.dumps({"brokerName": BROKER, "acks": acks}).encode()
        return await self.peer.ask(Request.BATCH_ACK_MESSAGE, body=body)


def changed(got: Got, answer: Command) -> Got:
    """The message with the handle that a client makes of the answer to 200053."""
    ext, retry = answer.ext, got.handle.split(" ")[4]
    handle = " ".join(
        [
            str(got.offset), ext["popTime"], ext["invisibleTime"], ext["reviveQid"], retry, BROKER,
            str(got.message.queue_id), str(got.offset),
        ]
    )  # fmt: skip
    return Got(got.message, handle)
