"""A proxy between clients and a broker: it passes on what comes, until it is told to cut connections or answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress

READ_BYTES = 1 << 16


class CuttingProxy:
    """Listens on one loopback address for a broker that listens on another, on the same port."""

    def __init__(self, listen: tuple[str, int], to: tuple[str, int]) -> None:
        self._listen, self._to = listen, to
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = self._is_mute = False

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, *self._listen)

    async def close(self) -> None:
        """End all."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End all connections at once, with whatever is on its way."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self, refused: bool) -> None:
        """Whether new connections end at once."""
        self._is_closed = refused

    def mute(self, muted: bool) -> None:
        """Whether what the broker says is thrown away; who has waited for it loses the connection at the end."""
        if self._is_mute and not muted:
            self.cut()
        self._is_mute = muted

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_closed:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(back)
        try:
            await asyncio.gather(self._pass(reader, back, answers=False), self._pass(there, writer, answers=True))
        finally:
            for each in (writer, back):
                self._writers.discard(each)
                each.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool) -> None:
        with suppress(OSError):
            while data := await source.read(READ_BYTES):
                if not (answers and self._is_mute):
                    target.write(data)
                    await target.drain()
        target.transport.abort()
