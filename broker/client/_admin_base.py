"""What the parts of the asynchronous admin stand on: its connections, and which broker is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Unpack

from ..rocketmq.codes import Answer
from . import names
from ._event_loop import AsyncClosing
from ._session import DEFAULT_TIMEOUT_MS, Session
from ._types import Broker
from .credentials import Access
from .errors import BrokerUnreachable
from .remoting import Response


class Questions(AsyncClosing):
    """The way to ask; each part of the admin adds its questions."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", broker: str | None = None, **access: Unpack[Access]) -> None:
        self._session = Session(namesrv, **access)
        self._broker = broker

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the master of every broker that the name server lists, by name; empty if there is none."""
        return await self._session.masters()

    async def close(self) -> None:
        """End all connections; idempotent."""
        await self._session.close()

    async def _chosen(self) -> tuple[Broker, ...]:
        found = await self.brokers()
        chosen = tuple(each for each in found if self._broker in (None, each.name))
        if not chosen:
            raise BrokerUnreachable(self._broker or "any broker", "the name server lists none")
        return chosen

    async def _ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, topic: str | None = None,
        accept: Collection[int] = (Answer.SUCCESS,), address: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Response:  # fmt: skip
        """Ask the broker at `address`, or the one of this admin; of a topic's question, one that has the topic."""
        if address is not None:
            return await self._session.ask(address, code, ext, body, accept=accept, timeout_ms=timeout_ms)
        chosen = await self._chosen()
        address = chosen[0].address
        if self._broker is None and len(chosen) > 1 and topic is not None and topic not in names.BROKER_TOPICS:
            address = (await self._addresses_of(topic) or [address])[0]
        return await self._session.ask(address, code, ext, body, accept=accept, timeout_ms=timeout_ms)

    async def _addresses_of(self, topic: str) -> list[str]:
        if topic in names.BROKER_TOPICS:
            return [broker.address for broker in await self.brokers()]
        return sorted((await self._session.route(topic)).addresses.values())
