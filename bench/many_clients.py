"""`python -m bench.many_clients ADDRESS COUNT`: bare clients, each a group of one with a heartbeat and a waiting pull.

Says "waiting" when every client waits, and goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import cast

import uvloop

from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode

HEARTBEAT_S = 30
SUSPEND_MS = 15_000
#: as Java's push consumers ask: commit, suspend, the subscription of the heartbeat
SYS_FLAG = 1 | 2
AT_ONCE = 50
BEAT, PULL = 1, 2


class Client(asyncio.Protocol):
    """A connection of a bare client."""

    def __init__(self, number: int, waits: Callable[[], None]) -> None:
        self._number = number
        self._waits = waits
        self._frames = FrameBuffer()
        self._offset = 0
        self._is_new = True
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say that it is there; the answer to that has it pull."""
        self._transport = cast(asyncio.Transport, transport)
        self.beat()

    def connection_lost(self, exc: Exception | None) -> None:
        """Raise: no client is to be lost."""
        sys.exit(f"client {self._number} lost its connection: {exc}")

    def data_received(self, data: bytes) -> None:
        """Follow the answer to a pull with the next pull."""
        for frame in self._frames.feed(data):
            answer = decode(frame)
            if answer.is_response and answer.opaque == PULL:
                self._offset = int(answer.ext["nextBeginOffset"])
                self.pull()
            elif answer.is_response and self._is_new:
                self._is_new = False
                self.pull()
                self._waits()

    def beat(self) -> None:
        """Say that it is there, now and from time to time."""
        wanted = {
            "topic": f"Many{self._number}", "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1,
            "expressionType": "TAG", "classFilterMode": False,
        }  # fmt: skip
        consumer = {
            "groupName": f"many-{self._number}", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [wanted], "unitMode": False,
        }  # fmt: skip
        body = {"clientID": f"client-{self._number}", "consumerDataSet": [consumer], "producerDataSet": []}
        self._ask(Request.HEART_BEAT, BEAT, {}, json.dumps(body).encode())
        asyncio.get_running_loop().call_later(HEARTBEAT_S, self.beat)

    def pull(self) -> None:
        """Ask for what comes next, and wait for it."""
        fields = {
            "consumerGroup": f"many-{self._number}", "topic": f"Many{self._number}", "queueId": "0",
            "queueOffset": str(self._offset), "maxMsgNums": "32", "sysFlag": str(SYS_FLAG),
            "commitOffset": str(self._offset), "suspendTimeoutMillis": str(SUSPEND_MS), "subscription": "",
            "subVersion": "1", "expressionType": "TAG",
        }  # fmt: skip
        self._ask(Request.PULL_MESSAGE, PULL, fields)

    def _ask(self, code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> None:
        assert self._transport is not None
        self._transport.write(encode(Command(code, fields, body, opaque=opaque, language="JAVA")))


async def main() -> None:
    """Connect them, some at a time."""
    host, _, port = sys.argv[1].rpartition(":")
    count = int(sys.argv[2])
    loop = asyncio.get_running_loop()
    all_wait = asyncio.Event()
    left = count

    def waits() -> None:
        nonlocal left
        left -= 1
        if not left:
            all_wait.set()

    def made(number: int) -> Callable[[], Client]:
        return lambda: Client(number, waits)

    for start in range(0, count, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, count))
        await asyncio.gather(*(loop.create_connection(made(number), host, int(port)) for number in numbers))
    await all_wait.wait()
    print("waiting")
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
