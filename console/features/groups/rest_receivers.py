"""Receiving in the name of REST clients: how many may wait at once, and what becomes of what comes too late."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request

from broker.client import AsyncSimpleConsumer, ClientError, Received, SimpleConsumers

from ...rest.errors import TooManyRequests

logger = logging.getLogger(__name__)

MOST_WAITING = 1_000


class Receivers:
    """Consumers of any group, and the requests that wait for messages."""

    def __init__(self, consumers: SimpleConsumers) -> None:
        self._consumers = consumers
        self._waiting = 0
        self._returning: set[asyncio.Task[None]] = set()

    def of(self, group: str, *, in_order: bool = False) -> AsyncSimpleConsumer:
        """A consumer of the group; raises InvalidArgument."""
        return self._consumers.of(group, in_order=in_order)

    async def receive(
        self, request: Request, consumer: AsyncSimpleConsumer, topic: str, *, max_messages: int, invisible_ms: int,
        wait_ms: int, expression: str,
    ) -> list[Received]:  # fmt: skip
        """As AsyncSimpleConsumer.receive. If whoever asks hangs up meanwhile, what still comes is given back.

        Raises TooManyRequests.
        """
        if self._waiting >= MOST_WAITING:
            raise TooManyRequests(f"{MOST_WAITING:,} requests wait for messages already.")
        self._waiting += 1
        received = asyncio.ensure_future(
            consumer.receive(
                topic, max_messages=max_messages, invisible_ms=invisible_ms, wait_ms=wait_ms, expression=expression
            )
        )
        received.add_done_callback(self._ended)
        gone = asyncio.ensure_future(_hang_up(request))
        try:
            await asyncio.wait((received, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not received.done():
                self._give_back(received, consumer)
        return received.result() if received.done() else []

    def _ended(self, _: asyncio.Future[list[Received]]) -> None:
        self._waiting -= 1

    def _give_back(self, received: asyncio.Future[list[Received]], consumer: AsyncSimpleConsumer) -> None:
        async def give_back() -> None:
            try:
                for each in await received:
                    await consumer.nack(each)
            except ClientError as error:
                logger.info(
                    "messages for %s, who hung up, come again when their time is over: %s", consumer.group, error
                )

        task = asyncio.get_running_loop().create_task(give_back())
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def close(self) -> None:
        """End all connections; what waits ends with ClientClosed."""
        await self._consumers.close()
        if self._returning:
            await asyncio.wait(self._returning)


async def _hang_up(request: Request) -> None:
    """Return when whoever asks is gone; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
