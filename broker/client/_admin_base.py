"""What the parts of the asynchronous admin stand on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

from ..rocketmq.codes import Answer
from ._event_loop import AsyncClosing
from ._session import DEFAULT_TIMEOUT_MS
from ._types import Broker
from .remoting import Response


class Questions(AsyncClosing):
    """Asks brokers; a part adds what it asks about."""

    @abstractmethod
    async def _chosen(self) -> tuple[Broker, ...]:
        """The brokers that are asked."""

    @abstractmethod
    async def _ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, topic: str | None = None,
        accept: Collection[int] = (Answer.SUCCESS,), address: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Response:  # fmt: skip
        """Ask the broker at `address`, or the one of this admin."""
