"""The web process's own server in a test's event loop, and bytes to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from console.site.bounds import Bounds
from console.site.web import configuration
from tests.waiting import until_true

DEADLINE_S = 30.0


class Serving:
    """A running server."""

    def __init__(self, server: uvicorn.Server, port: int) -> None:
        self.server, self.port = server, port
        self._lines: list[Line] = []

    @property
    def under_way(self) -> int:
        """Requests that the application has and has not answered yet."""
        return len(self.server.server_state.tasks)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when it holds."""
        await until_true(condition, DEADLINE_S, every_s=0.01)

    async def connect(self, sent: bytes = b"") -> Line:
        """A connection that has sent this."""
        line = Line(*await asyncio.open_connection("127.0.0.1", self.port))
        self._lines.append(line)
        line.send(sent)
        return line

    async def ask(self, sent: bytes) -> bytes:
        """The whole of what is answered to a request that ends its connection."""
        return await (await self.connect(sent)).rest()

    async def hang_up(self) -> None:
        """All clients go away."""
        for line in self._lines:
            await line.close()


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        if data:
            self._writer.write(data)

    async def head(self) -> bytes:
        """Status and headers of the next answer."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def rest(self) -> bytes:
        """All that comes until the server ends the connection."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        """Go away."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def serving(application: Any, bounds: Bounds | None = None, **named: Any) -> AsyncIterator[Serving]:
    """The server with this application, on a port of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = configuration(application, bounds=bounds, lifespan="off", **named)
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve([listening]))
    made = Serving(server, listening.getsockname()[1])
    await made.until(lambda: server.started)
    try:
        yield made
    finally:
        await made.hang_up()
        server.should_exit = True
        await running
