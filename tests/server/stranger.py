"""A bare socket: it says what no client would say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from broker.rocketmq.frame import Command, FrameBuffer, decode

PATIENCE_S = 5


class Stranger:
    """A socket that may send anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameBuffer()
        self._heard: list[Command] = []

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def hear(self) -> Command | None:
        """The next frame, None if the connection was closed."""
        while not self._heard:
            try:
                data = await asyncio.wait_for(self._reader.read(65536), PATIENCE_S)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._heard += [decode(frame) for frame in self._frames.feed(data)]
        return self._heard.pop(0)

    async def answers(self, count: int) -> dict[int, Command]:
        """The next answers, so many of them, by the numbers of their requests."""
        found: dict[int, Command] = {}
        while len(found) < count:
            answer = await self.hear()
            assert answer is not None
            found[answer.opaque] = answer
        return found

    async def is_closed(self) -> bool:
        return await self.hear() is None

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


@asynccontextmanager
async def stranger_at(address: str) -> AsyncIterator[Stranger]:
    """A stranger connected to host:port, gone at the end."""
    host, _, port = address.rpartition(":")
    stranger = Stranger(*await asyncio.open_connection(host, int(port)))
    try:
        yield stranger
    finally:
        await stranger.close()
