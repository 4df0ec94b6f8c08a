"""Simple consumers of many groups over one set of connections: for who receives in the name of others."""

from __future__ import annotations

from typing import Unpack

from .credentials import Access
from .session import Session
from .simple_async import AsyncSimpleConsumer


class SimpleConsumers:
    """Gives out simple consumers that share their connections. It belongs to one event loop."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", **access: Unpack[Access]) -> None:
        self._namesrv = namesrv
        self._session = Session(namesrv, **access)

    def of(self, group: str, *, in_order: bool = False) -> AsyncSimpleConsumer:
        """A consumer of the group, which need not be closed; raises InvalidArgument."""
        return AsyncSimpleConsumer(group, self._namesrv, in_order=in_order, session=self._session)

    async def close(self) -> None:
        """End all connections; what is held comes to others when its time is over."""
        await self._session.close()
