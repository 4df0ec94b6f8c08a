"""Asking over remoting: one asynchronous client for any number of brokers and name servers.

Connections are made at the first request to an address and made anew after they were lost. All of it belongs to the
event loop in which it is used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count

from ..rocketmq.codes import ONEWAY_FLAG, RESPONSE_FLAG, Answer
from ..rocketmq.errors import (
    BadFrame,
    ConnectFailed,
    ConnectionLost,
    RemotingError,
    RequestTimedOut,
)
from ..rocketmq.frame import JSON, Command, FrameBuffer, decode, encode
from .connections import Connection, Connections, Secure

logger = logging.getLogger(__name__)

Response = Command
"""What invoke returns: code, remark, ext, body."""

Handler = Callable[[str, Command], "Command | asyncio.Future[Command] | None"]
"""Called with (address, request) for a request that the other end pushes; its result is the answer, now or to come, or
None for none."""

Sign = Callable[[dict[str, str], bytes], dict[str, str]]
"""The header fields of a request with these fields and body, signed."""

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Largest answer read: a pull may carry more than a request may."""


class RemotingClient:
    """Sends requests to addresses ("host:port") and waits for their answers."""

    def __init__(
        self, *, connect_timeout_ms: int = 3000, serialization: int = JSON, sign: Sign | None = None,
        secure: Secure = lambda _: (None, None),
    ) -> None:  # fmt: skip
        self._sign = sign
        self._serialization = serialization
        self._opaques = count(1)
        self._links = Connections(
            lambda address: _Link(address, self._pushed, self._lost),
            secure=secure,
            timeout_s=connect_timeout_ms / 1000,
            failed=ConnectFailed,
            closed=ConnectionLost,
        )
        self._handlers: dict[int, Handler] = {}
        #: answers to come
        self._answering: set[asyncio.Future[Command]] = set()
        self._on_lost: list[Callable[[str], None]] = []
        self._closed = False

    def register(self, code: int, handler: Handler) -> None:
        """Answers requests with this code that a broker pushes to us (40, 39, 220 ...)."""
        self._handlers[code] = handler

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Calls back with the address whenever a connection ended, unless close() ended it."""
        self._on_lost.append(callback)

    async def invoke(
        self, address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"", timeout_ms: int = 3000
    ) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Raises ConnectFailed, ConnectionLost or RequestTimedOut; `timeout_ms` includes making the connection.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                link = await self._link(address)
                command = self._command(code, ext, body, 0)
                return await link.ask(command)
        except TimeoutError:
            raise RequestTimedOut(address, code, timeout_ms) from None

    async def oneway(self, address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Sends a request that is not answered; returns when it is handed to the operating system or queued."""
        link = await self._link(address)
        await link.send(encode(self._command(code, ext, body, ONEWAY_FLAG)))

    async def close(self) -> None:
        """Ends all connections; requests that wait for an answer get ConnectionLost."""
        self._closed = True
        for answer in list(self._answering):
            answer.cancel()
        await asyncio.gather(*(link.ended for link in self._links.close()))

    def _command(self, code: int, ext: dict[str, str] | None, body: bytes, flag: int) -> Command:
        fields = ext or {}
        if self._sign is not None:
            fields = self._sign(fields, body)
        opaque = next(self._opaques) & 0x7FFFFFFF
        return Command(code, fields, body, flag=flag, opaque=opaque, serialization=self._serialization)

    async def _link(self, address: str) -> _Link:
        if self._closed:
            raise ConnectionLost(address)
        return self._links.ready(address) or await self._links.to(address)

    def _lost(self, link: _Link) -> None:
        if self._links.forget(link):
            for callback in self._on_lost:
                callback(link.address)

    def _pushed(self, link: _Link, request: Command) -> None:
        handler = self._handlers.get(request.code)
        if handler is None:
            remark = f"request type {request.code} not supported"
            _answer(link, request, request.answer(code=Answer.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
            return
        answer = handler(link.address, request)
        if isinstance(answer, asyncio.Future):
            self._answering.add(answer)
            answer.add_done_callback(lambda done: self._answered(link, request, done))
        else:
            _answer(link, request, answer)

    def _answered(self, link: _Link, request: Command, done: asyncio.Future[Command]) -> None:
        self._answering.discard(done)
        if done.cancelled():
            return
        failure = done.exception()
        if failure is not None:
            logger.error("request %s of %s failed", request.code, link.address, exc_info=failure)
            _answer(link, request, request.answer(code=Answer.SYSTEM_ERROR, remark=type(failure).__name__))
        else:
            _answer(link, request, done.result())


def _answer(link: _Link, request: Command, answer: Command | None) -> None:
    if answer is not None and not request.is_oneway:
        answer.opaque, answer.flag = request.opaque, answer.flag | RESPONSE_FLAG
        link.write(encode(answer))


class _Link(Connection):
    """One connection: requests out, answers matched by opaque, pushed requests handed up."""

    def __init__(self, address: str, pushed: Callable[[_Link, Command], None], lost: Callable[[_Link], None]) -> None:
        super().__init__(address)
        self._pushed = pushed
        self._lost = lost
        self._frames = FrameBuffer(MAX_ANSWER_BYTES)
        self._waiting: dict[int, asyncio.Future[Command]] = {}
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._received(decode(frame))
        except BadFrame as error:
            logger.error("closing the connection to %s: %s", self.address, error)
            self.close()

    def _received(self, command: Command) -> None:
        if not command.is_response:
            self._pushed(self, command)
            return
        future = self._waiting.pop(command.opaque, None)
        if future is not None and not future.done():
            future.set_result(command)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost(self.address))
        self._lost(self)
        if not self.ended.done():
            self.ended.set_result(None)

    async def ask(self, command: Command) -> Command:
        """Sends a request and waits for its answer."""
        future: asyncio.Future[Command] = self._loop.create_future()
        frame = encode(command)
        self._waiting[command.opaque] = future
        try:
            await self.send(frame)
            return await future
        finally:
            self._waiting.pop(command.opaque, None)

    async def send(self, frame: bytes) -> None:
        """Writes a frame, waiting while the other end does not read."""
        await self.room()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self.address)
        self._transport.write(frame)

    def write(self, frame: bytes) -> None:
        """Writes a frame at once; one that has nowhere to go is dropped, as its connection is."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)


__all__ = ["Handler", "RemotingClient", "RemotingError", "Response"]
