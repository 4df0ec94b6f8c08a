"""Many topics and groups at brokers, some created at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress

from broker.client import AsyncAdmin, RouteNotFound

WINDOW = 32
#: a broker tells name servers of new topics from time to time
ROUTES_S, LOOK_EVERY_S = 120, 0.2


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


async def await_routes(namesrv: str, names: Iterable[str], brokers: Collection[str]) -> None:
    """Wait until the name servers say that all these brokers have these topics."""
    async with AsyncAdmin(namesrv) as admin, asyncio.timeout(ROUTES_S):

        async def known(name: str) -> None:
            while True:
                with suppress(RouteNotFound):
                    if {queue.broker for queue in (await admin.route(name)).queues} >= set(brokers):
                        return
                await asyncio.sleep(LOOK_EVERY_S)

        await each_of(names, known)


async def each_of(things: Iterable[str], do: Callable[[str], Awaitable[object]], window: int = WINDOW) -> None:
    """Do something with each of these, so many at a time."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await do(thing)

    await asyncio.gather(*(worker() for _ in range(window)))
