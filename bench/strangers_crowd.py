"""`python -m bench.strangers_crowd KIND ADDRESS COUNT`: connections that ask more of a broker than clients do.

Says "there" when they are, goes on until it is killed; at a line on standard input it prints what it did so far.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count

import uvloop

from bench.many import WINDOW
from broker.client import prepare
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import BINARY, JSON, Command, FrameBuffer, decode, encode
from broker.server.listener import raise_descriptor_limit

#: connections leave from several addresses: of one there are 28,000 ports
SOURCES = tuple(f"127.0.0.{number}" for number in range(2, 10))
BEAT_S, PRODUCERS_A_SECOND = 60, 500
#: messages that slow readers and those who never acknowledge are given
TOPIC, LARGE_BYTES, LARGE = "Strangers", 256 * 1024, 40
tried: Counter[str] = Counter()


class Line:
    """A connection that asks and hears, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameBuffer()

    async def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Command | None:
        """Send a request and return its answer, None if the broker hung up."""
        # a binary header has no room for the codes of POP
        form = BINARY if code < 0x8000 else JSON
        self.writer.write(encode(Command(code, fields, body, opaque=1, language="JAVA", serialization=form)))
        while data := await self.reader.read(1 << 16):
            if found := self._frames.feed(data):
                return decode(found[-1])
        return None


async def connect(address: str, number: int) -> Line:
    """Connect from one of several addresses."""
    host, _, port = address.rpartition(":")
    source = (SOURCES[number % len(SOURCES)], 0)
    return Line(*await asyncio.open_connection(host, int(port), local_addr=source))


async def idle(address: str, number: int, is_there: Callable[[], None]) -> None:
    """A producer that says that it is there, and nothing else."""
    line = await connect(address, number)
    body = json.dumps({"clientID": f"idle-{number}", "consumerDataSet": [], "producerDataSet": [{"groupName": "idle"}]})
    while True:
        answer = await line.ask(Request.HEART_BEAT, {}, body.encode())
        tried["beats" if answer is not None and answer.code == 0 else "lost"] += 1
        is_there()
        await asyncio.sleep(BEAT_S * random.uniform(0.9, 1))


async def slow(address: str, number: int, is_there: Callable[[], None]) -> None:
    """A reader of large answers who takes some bytes a second, and asks for more before."""
    line = await connect(address, number)
    fields = pull_fields("slow")
    frame = encode(Command(Request.PULL_MESSAGE, fields, opaque=1, language="JAVA", serialization=BINARY))
    for _ in range(32):
        line.writer.write(frame)
    while await line.reader.read(1_024):
        is_there()
        tried["reads"] += 1
        await asyncio.sleep(1)
    tried["ended"] += 1
    is_there()


async def halves(address: str, number: int, is_there: Callable[[], None]) -> None:
    """Frames of 4 MB that are begun, a few bytes a second, each ended by the broker; then another."""
    is_new = True
    while True:
        line = await connect(address, number)
        if is_new:
            is_there()
        is_new = False
        line.writer.write((4 << 20).to_bytes(4, "big"))
        try:
            for _ in range(1_000):
                line.writer.write(b"\0" * 1_000)
                await line.writer.drain()
                if line.reader.at_eof():
                    break
                await asyncio.sleep(0.5)
        except OSError:
            tried["ended"] += 1
        line.writer.close()


async def bad(address: str, number: int, is_there: Callable[[], None]) -> None:
    """What is no frame, or one that nobody understands, as fast as connections can be made."""
    draws = random.Random(number)
    is_there()
    while True:
        try:
            line = await connect(address, number)
            whole = encode(Command(draws.randrange(1 << 15), {"a": "b"}, draws.randbytes(50), serialization=BINARY))
            line.writer.write(draws.choice((draws.randbytes(400), whole * 20, whole[:-9], b"GET / HTTP/1.1\r\n\r\n")))
            line.writer.write_eof()
            while await line.reader.read(1 << 16):
                pass
            line.writer.close()
        except OSError:
            tried["refused"] += 1
        tried["connections"] += 1


async def producers(address: str, number: int, is_there: Callable[[], None], of: int = 1_000) -> None:
    """A producer among many, which together send so many a second."""
    line = await connect(address, number)
    is_there()
    while True:
        message = prepare(bytes(128))
        fields = {
            "a": "crowd", "b": "Crowd", "c": "TBW102", "d": "4", "e": str(number % 4), "f": "0", "g": "1", "h": "0",
            "i": message.properties, "j": "0", "k": "false", "m": "false", "n": "broker-a",
        }  # fmt: skip
        answer = await line.ask(Request.SEND_MESSAGE_V2, fields, message.body)
        tried["sent" if answer is not None and answer.code == 0 else "refused"] += 1
        await asyncio.sleep(random.uniform(0.5, 1.5) * of / PRODUCERS_A_SECOND)


async def unacknowledged(address: str, number: int, is_there: Callable[[], None]) -> None:
    """A consumer that pops for a second at a time and never acknowledges: all comes again and again."""
    line = await connect(address, number)
    is_there()
    fields = {
        "consumerGroup": "never", "topic": TOPIC, "queueId": "-1", "maxMsgNums": "32", "invisibleTime": "1000",
        "pollTime": "1000", "bornTime": "0", "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    while (answer := await line.ask(Request.POP_MESSAGE, fields)) is not None:
        tried["found" if answer.code == 0 else "nothing"] += 1
        if answer.code != 0:
            await asyncio.sleep(0.1)


KINDS: dict[str, Callable[[str, int, Callable[[], None]], Awaitable[None]]] = {
    "idle": idle, "slow": slow, "halves": halves, "bad": bad, "producers": producers, "unacknowledged": unacknowledged,
}  # fmt: skip


def pull_fields(group: str) -> dict[str, str]:
    """Return the fields of a pull from the beginning that does not wait."""
    return {
        "consumerGroup": group, "topic": TOPIC, "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "1",
        "expressionType": "TAG",
    }  # fmt: skip


async def main() -> None:
    """Begin them, some at a time; tell what they did when asked."""
    kind, address, wanted = KINDS[sys.argv[1]], sys.argv[2], int(sys.argv[3])
    all_there, there = asyncio.Event(), count(1)

    def is_there() -> None:
        if next(there) >= wanted:
            all_there.set()

    at_once = asyncio.Semaphore(WINDOW)

    async def one(number: int) -> None:
        is_told = False

        def tell() -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                at_once.release()
                is_there()

        await at_once.acquire()
        await kind(address, number, tell)

    async with asyncio.TaskGroup() as tasks:
        for number in range(wanted):
            tasks.create_task(one(number))
        await all_there.wait()
        print("there", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(tried), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    raise_descriptor_limit()
    uvloop.run(main())
