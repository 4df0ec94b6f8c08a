"""What all requests share: the producer, the admin, the tokens, and a limit of what is under way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from broker.client import AsyncAdmin, AsyncProducer, SimpleConsumers
from broker.client.errors import ClientError

from ..features.groups.rest_receivers import Receivers
from .errors import TooManyRequests
from .grants import Grants
from .recorder import Recorder

MAX_MESSAGES_UNDER_WAY = 20_000
MAX_BYTES_UNDER_WAY = 64 * 1024 * 1024
#: How long a broker's way of flushing is believed.
FLUSH_AGE_S = 30.0
PRODUCER_GROUP = "ESCAPEMENT_REST"


class Room:
    """The state of the REST application in one event loop."""

    def __init__(self, namesrv: str) -> None:
        self.producer = AsyncProducer(PRODUCER_GROUP, namesrv)
        self.admin = AsyncAdmin(namesrv)
        self.receivers = Receivers(SimpleConsumers(namesrv))
        self.grants = Grants(self.admin)
        self.recorder = Recorder()
        self._messages = 0
        self._bytes = 0
        self._flushing: dict[str, tuple[float, bool]] = {}

    @contextmanager
    def under_way(self, messages: int, size_bytes: int) -> Iterator[None]:
        """Count what is being sent; raises TooManyRequests when there is too much already."""
        if self._messages + messages > MAX_MESSAGES_UNDER_WAY or (
            self._bytes and self._bytes + size_bytes > MAX_BYTES_UNDER_WAY
        ):
            raise TooManyRequests
        self._messages += messages
        self._bytes += size_bytes
        try:
            yield
        finally:
            self._messages -= messages
            self._bytes -= size_bytes

    async def flushes_first(self, broker: str) -> bool:
        """Whether the broker answers only when a message is on disk (flushDiskType=SYNC_FLUSH)."""
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
        """End all connections."""
        await self.producer.close()
        await self.admin.close()
        await self.receivers.close()
        self.grants.close()
        self.recorder.close()
