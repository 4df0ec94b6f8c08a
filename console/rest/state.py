"""The state that all requests share: the producer, the admin, the receivers, the tokens, and limits of what is under
way."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from broker.client import AsyncAdmin, AsyncProducer, AsyncSimpleConsumer, ClientError, Received, SimpleConsumers
from broker.client.remoting import Response
from console.rest.database import Grants, Recorder
from console.rest.idempotency import Keys
from console.site.slow_requests import AskingBroker

from .errors import TooManyRequests

logger = logging.getLogger(__name__)

MAX_MESSAGES_UNDER_WAY = 20_000
MAX_BYTES_UNDER_WAY = 64 * 1024 * 1024
#: requests that wait for messages
MOST_WAITING = 1_000
#: How long a broker's way of flushing is believed.
FLUSH_AGE_S = 30.0
PRODUCER_GROUP = "ESCAPEMENT_REST"


class TimedAdmin(AsyncAdmin):
    """An admin whose questions count, in the log of slow requests, as waited for brokers."""

    async def _ask(self, *asked: Any, **more: Any) -> Response:
        with AskingBroker():
            return await super()._ask(*asked, **more)

    async def _change(self, *asked: Any, **more: Any) -> Response:
        with AskingBroker():
            return await super()._change(*asked, **more)


@dataclass(slots=True)
class UnderWay:
    """The messages and bytes that all requests are sending."""

    messages: int = 0
    size_bytes: int = 0


class Sending:
    """A block in which messages are being sent, counted with those of all others."""

    __slots__ = ("_messages", "_size_bytes", "_under_way")

    def __init__(self, under_way: UnderWay, messages: int, size_bytes: int) -> None:
        self._under_way = under_way
        self._messages = messages
        self._size_bytes = size_bytes

    def __enter__(self) -> None:
        """Count it; raises TooManyRequests when there is too much already."""
        all_of_it, size_bytes = self._under_way, self._size_bytes
        if all_of_it.messages + self._messages > MAX_MESSAGES_UNDER_WAY or (
            all_of_it.size_bytes and all_of_it.size_bytes + size_bytes > MAX_BYTES_UNDER_WAY
        ):
            raise TooManyRequests
        all_of_it.messages += self._messages
        all_of_it.size_bytes += size_bytes

    def __exit__(self, *failed: object) -> None:
        """Have sent it, or failed."""
        self._under_way.messages -= self._messages
        self._under_way.size_bytes -= self._size_bytes


class ApiState:
    """The state that all requests of one event loop share."""

    def __init__(self, namesrv: str) -> None:
        self.producer = AsyncProducer(PRODUCER_GROUP, namesrv)
        self.admin = TimedAdmin(namesrv)
        self._namesrv = namesrv
        #: by the name of their broker
        self._admins: dict[str, AsyncAdmin] = {}
        self.receivers = Receivers(SimpleConsumers(namesrv))
        self.grants = Grants(self.admin)
        self.recorder = Recorder()
        self.keys = Keys()
        self._under_way = UnderWay()
        self._flushing: dict[str, tuple[float, bool]] = {}

    def sending(self, messages: int, size_bytes: int) -> Sending:
        """Return the block in which so much is being sent; its begin raises TooManyRequests where it is too much."""
        return Sending(self._under_way, messages, size_bytes)

    def admin_of(self, broker: str) -> AsyncAdmin:
        """Return the admin of one broker; kept, so only for names that are known."""
        if broker not in self._admins:
            self._admins[broker] = TimedAdmin(self._namesrv, broker)
        return self._admins[broker]

    async def flushes_first(self, broker: str) -> bool:
        """Return whether the broker answers only when a message is on disk (flushDiskType=SYNC_FLUSH)."""
        known = self._flushing.get(broker)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        try:
            config = await self.admin.broker_config(address=await self.admin.address_of(broker))
        except ClientError:
            # unknown is answered as not flushed: 201 must never say too much
            return False
        is_sync = config.get("flushDiskType") == "SYNC_FLUSH"
        self._flushing[broker] = (time.monotonic() + FLUSH_AGE_S, is_sync)
        return is_sync

    async def close(self) -> None:
        """End all connections and threads."""
        await self.producer.close()
        for admin in (self.admin, *self._admins.values()):
            await admin.close()
        await self.receivers.close()
        await self.keys.close()
        self.grants.close()
        self.recorder.close()


class Receivers:
    """Consumers of any group, and the requests that wait for messages."""

    def __init__(self, consumers: SimpleConsumers) -> None:
        self._consumers = consumers
        self._waiting = 0
        self._returning: set[asyncio.Task[None]] = set()

    def of(self, group: str, *, in_order: bool = False) -> AsyncSimpleConsumer:
        """Return a consumer of the group; raises InvalidArgument."""
        return self._consumers.of(group, in_order=in_order)

    async def receive(
        self,
        request: Request,
        consumer: AsyncSimpleConsumer,
        topic: str,
        *,
        max_messages: int,
        invisible_ms: int,
        wait_ms: int,
        expression: str,
    ) -> list[Received]:
        """Receive as AsyncSimpleConsumer does; if the caller hangs up meanwhile, what still comes is given back.

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
    """Wait until the caller is gone; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
