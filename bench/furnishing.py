"""Many topics and groups at brokers, some created at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from broker.client import AsyncAdmin

WINDOW = 32


async def create_topics(namesrv: str, names: Iterable[str], queues: int, broker: str | None = None) -> None:
    """Make topics at all brokers, or at this one."""
    async with AsyncAdmin(namesrv, broker=broker) as admin:
        await each_of(names, lambda name: admin.create_topic(name, queues=queues))


async def create_groups(namesrv: str, names: Iterable[str], broker: str | None = None) -> None:
    """Make groups at all brokers, or at this one."""
    async with AsyncAdmin(namesrv, broker=broker) as admin:
        await each_of(names, admin.create_group)


async def each_of(things: Iterable[str], do: Callable[[str], Awaitable[object]]) -> None:
    """Do something with each of these, WINDOW at a time."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await do(thing)

    await asyncio.gather(*(worker() for _ in range(WINDOW)))
