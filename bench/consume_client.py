"""`python -m bench.consume_client NAMESRV COUNT WINDOW`: what one process of our client sends and receives, as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from broker.client import AsyncConsumer, AsyncProducer

TOPIC = "PythonFlow"
BODY = bytes(range(128))


async def send(namesrv: str, count: int, window: int) -> float:
    """Messages a second, each a request of its own."""
    producer = AsyncProducer("python-flow", namesrv)
    left = count

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(TOPIC, BODY)

    try:
        await producer.send(TOPIC, BODY)  # connected, and the topic known
        begin_s = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(window)))
        return count / (time.perf_counter() - begin_s)
    finally:
        await producer.close()


async def receive(namesrv: str, count: int) -> float:
    """Return the messages a second from the first call of a handler to the last."""
    consumer = AsyncConsumer("python-readers", namesrv, from_where="first")
    moments: list[float] = []
    done = asyncio.Event()

    async def handle(message: object) -> None:
        moments.append(time.perf_counter())
        if len(moments) >= count:
            done.set()

    consumer.subscribe(TOPIC, "*", handle)
    await consumer.start()
    try:
        async with asyncio.timeout(300):
            await done.wait()
    finally:
        await consumer.stop()
    return (len(moments) - 1) / (moments[-1] - moments[0])


async def main() -> None:
    """Print how fast messages were sent, and how fast received."""
    namesrv, count, window = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sent = await send(namesrv, count, window)
    json.dump({"sent": sent, "received": await receive(namesrv, count)}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
