"""`python -m bench.flood SECONDS WARM_S BROKER=ADDRESS ...`: sends without a pause, as few steps a send as possible.

One connection to each of the brokers named (one named twice has two), IN_FLIGHT sends under way on each: for each
answer another one leaves. Frames are encoded before; of an answer only its length and its code are read. Says "ready",
begins at a line on standard input, and prints one JSON object: sends a second by broker after the warm-up, how many
were answered in all, how many of them refused, and what this process took of a core.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from collections import Counter, defaultdict
from functools import partial
from itertools import cycle
from typing import cast

import uvloop

from broker.client import prepare
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import BINARY, Command, encode

TOPIC, QUEUES = "Flood", 4
IN_FLIGHT, BODY = 32, bytes(range(128))
#: different messages that are sent in turn
PREPARED = 4_096
LENGTH = struct.Struct(">I")


def frames(broker: str) -> list[bytes]:
    """Return encoded sends, each with an id of its own, to all queues in turn."""
    return [encode(send(broker, number)) for number in range(PREPARED)]


def send(broker: str, number: int) -> Command:
    """Return a send as the official client's binary one."""
    message = prepare(BODY)
    fields = {
        "a": "flood", "b": TOPIC, "c": "TBW102", "d": "4", "e": str(number % QUEUES), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": message.properties, "j": "0", "k": "false", "m": "false",
        "n": broker,
    }  # fmt: skip
    return Command(Request.SEND_MESSAGE_V2, fields, message.body, opaque=number, language="JAVA", serialization=BINARY)


class Flooding(asyncio.Protocol):
    """A connection with so many sends under way."""

    def __init__(self, broker: str) -> None:
        self.answered = 0
        self.refused: Counter[int] = Counter()
        self._ready = cycle(frames(broker))
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note where to write."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say that the broker hung up, if it did."""
        if exc is not None:
            sys.exit(f"the connection was lost: {exc}")

    def begin(self) -> None:
        """Send the first ones."""
        self._more(IN_FLIGHT)

    def data_received(self, data: bytes) -> None:
        """Count the answers, and send as many."""
        data = self._held + data if self._held else data
        at = count = 0
        while at + 4 <= len(data):
            end = at + 4 + LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                break
            # the binary header begins with the code
            if data[at + 8] | data[at + 9]:
                self.refused[int.from_bytes(data[at + 8 : at + 10], "big")] += 1
            at, count = end, count + 1
        self._held = data[at:]
        self.answered += count
        self._more(count)

    def _more(self, count: int) -> None:
        assert self._transport is not None
        ready = self._ready
        self._transport.write(b"".join([next(ready) for _ in range(count)]))


async def main() -> None:
    """Connect, wait for the word, send, tell."""
    seconds, warm_s = float(sys.argv[1]), float(sys.argv[2])
    named = [argument.split("=") for argument in sys.argv[3:]]
    loop = asyncio.get_running_loop()
    connections: list[tuple[str, Flooding]] = []
    for broker, address in named:
        host, _, port = address.rpartition(":")
        _, protocol = await loop.create_connection(partial(Flooding, broker), host, int(port))
        connections.append((broker, protocol))
    print("ready", flush=True)
    sys.stdin.readline()
    for _, each in connections:
        each.begin()
    await asyncio.sleep(warm_s)
    before, begin_s, used_s = [each.answered for _, each in connections], time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    took_s, used_s = time.monotonic() - begin_s, time.process_time() - used_s
    rates: dict[str, float] = defaultdict(float)
    for (broker, each), count in zip(connections, before, strict=True):
        rates[broker] += (each.answered - count) / took_s
    refused = sum((each.refused for _, each in connections), Counter[int]())
    answered = sum(each.answered for _, each in connections)
    told = {"rates": rates, "answered": answered, "refused": refused, "core": used_s / took_s}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
