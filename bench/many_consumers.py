"""`python -m bench.many_consumers NAMESRV COUNT QUEUES`: how soon a group of consumers has shared out its queues.

A line for each thing that happens, with the seconds it took; "over" at the end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable

import uvloop

from broker.client import AsyncAdmin, AsyncConsumer, MessageQueue
from broker.client._membership import allocate

TOPIC, GROUP = "Shared", "sharers"
LOOK_EVERY_S = 0.02
TIMEOUT_S = 60


async def handle(message: object) -> None:
    """Take a message; none is sent here."""


async def settled(what: str, happening: Awaitable[object], members: list[AsyncConsumer]) -> None:
    """Have it happen, and say how long it takes until each queue has the one reader that it is to have."""
    begin_s = time.monotonic()
    task = asyncio.ensure_future(happening)
    while not is_shared(members):
        if time.monotonic() > begin_s + TIMEOUT_S:
            raise TimeoutError(what)
        await asyncio.sleep(LOOK_EVERY_S)
    took_s = time.monotonic() - begin_s
    await task
    print(f"{what} {took_s:.3f}")


def is_shared(members: list[AsyncConsumer]) -> bool:
    """Tell whether each member reads its share, and nothing else of the topic."""
    ids = [member.client_id for member in members]
    return all(
        {queue for queue in member.queues if queue.topic == TOPIC} == set(allocate(member.client_id, ids, EVERY_QUEUE))
        for member in members
    )


EVERY_QUEUE: list[MessageQueue] = []


def consumer(namesrv: str) -> AsyncConsumer:
    """Make one more member of the group."""
    made = AsyncConsumer(GROUP, namesrv)
    made.subscribe(TOPIC, "*", handle)
    return made


async def main() -> None:
    """Start all, stop one, stop ten, start one."""
    namesrv, count, queues = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    async with AsyncAdmin(namesrv) as admin:
        await admin.create_topic(TOPIC, queues=queues)
        EVERY_QUEUE.extend((await admin.route(TOPIC)).readable())
    members = [consumer(namesrv) for _ in range(count)]
    await settled(f"{count} start", asyncio.gather(*(member.start() for member in members)), members)
    gone, members = members[:1], members[1:]
    await settled("one stops", gone[0].stop(), members)
    gone, members = members[:10], members[10:]
    await settled("ten stop", asyncio.gather(*(member.stop() for member in gone)), members)
    new = consumer(namesrv)
    await settled("one starts", new.start(), [*members, new])
    print("over")


if __name__ == "__main__":
    uvloop.run(main())
