"""Many topics and groups at brokers, some created at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from broker.client import AsyncAdmin

WINDOW = 32


async def create_topics(
    namesrv: str, names: Iterable[str], queues: int, broker: str | None = None, *, window: int = WINDOW
) -> None:
    """Make topics at all brokers, or at this one."""
    async with AsyncAdmin(namesrv, broker=broker) as admin:
        await each_of(names, lambda name: admin.create_topic(name, queues=queues), window)


async def create_groups(namesrv: str, names: Iterable[str], broker: str | None = None, *, window: int = WINDOW) -> None:
    """Make groups at all brokers, or at this one."""
    async with AsyncAdmin(namesrv, broker=broker) as admin:
        await each_of(names, admin.create_group, window)


async def each_of(things: Iterable[str], do: Callable[[str], Awaitable[object]], window: int = WINDOW) -> None:
    """Do something with each of these, so many at a time."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await do(thing)

    await asyncio.gather(*(worker() for _ in range(window)))
