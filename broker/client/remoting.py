"""Asking over remoting: one asynchronous client for any number of brokers and name servers.

`Connections` are kept by address: made at the first request to it, and anew after they were lost. All of it belongs to
the event loop in which it is used.

`Forks` is for a process that forks: its child must never write to, or wait for, what belongs to the parent's event
loop. `generation` grows in each child. In the child, the parent's connections are closed without a word to the other
end: descriptors are put over with /dev/null, so whoever still holds one can do no harm with it, nor with its number.
"""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Generic, Protocol, TypeVar, cast
from weakref import WeakSet

from ..rocketmq.codes import ONEWAY_FLAG, RESPONSE_FLAG, Answer
from ..rocketmq.errors import BadFrame, ConnectFailed, ConnectionLost, RemotingError, RequestTimedOut
from ..rocketmq.frame import JSON, Command, FrameBuffer, decode, encode

__all__ = ["MAX_ANSWER_BYTES", "Handler", "RemotingClient", "RemotingError", "Response", "Secure", "Sign"]

logger = logging.getLogger(__name__)

Response = Command
"""What invoke returns: code, remark, ext, body."""

Handler = Callable[[str, Command], "Command | asyncio.Future[Command] | None"]
"""Called with (address, request) for a request that the other end pushes; its result is the answer, now or to come, or
None for none."""

Sign = Callable[[dict[str, str], bytes], dict[str, str]]
"""The header fields of a request with these fields and body, signed."""

Secure = Callable[[str], tuple[ssl.SSLContext | None, str | None]]
"""TLS context and the name expected in the certificate, for a connection to a host; None and None for no TLS."""

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
        """Have `handler` answer requests with this code that a broker pushes to us (40, 39, 220 ...)."""
        self._handlers[code] = handler

    def on_lost(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with the address whenever a connection ended, unless close() ended it."""
        self._on_lost.append(callback)

    async def invoke(
        self, address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"", timeout_ms: int = 3000
    ) -> Command:
        """Send a request and return its answer, whatever its code.

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
        """Send a request that is not answered; returns when it is handed to the operating system or queued."""
        link = await self._link(address)
        await link.send(encode(self._command(code, ext, body, ONEWAY_FLAG)))

    async def close(self) -> None:
        """End all connections; requests that wait for an answer get ConnectionLost."""
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


class Connection(asyncio.Protocol):
    """This end of a connection; Connections makes and keeps it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        #: what a forked child has of its parent's connection: kept, so that nothing of it is tidied up there
        self._inherited: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """False once the connection is ending."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def has_room(self) -> bool:
        """Tell whether the other end keeps up with what was written."""
        return self._room.is_set()

    def let_go(self) -> int | None:
        """Let go of the connection in a forked child, as it is the parent's; return its descriptor."""
        self._inherited, self._transport = self._transport, None
        socket = self._inherited.get_extra_info("socket") if self._inherited is not None else None
        return socket.fileno() if socket is not None else None

    async def room(self) -> None:
        """Wait while the other end does not read what was already written."""
        if not self._room.is_set():
            await self._room.wait()

    def close(self) -> None:
        """End the connection after what was handed over is written."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        # uvloop's transports have the methods but not the base class
        self._transport = cast(asyncio.Transport, transport)
        forks.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended."""
        self._transport = None
        self._room.set()

    def pause_writing(self) -> None:
        """asyncio: the other end reads too slowly."""
        self._room.clear()

    def resume_writing(self) -> None:
        """asyncio: the other end reads again."""
        self._room.set()


class _Link(Connection):
    """A client's connection: requests out, answers matched by opaque, pushed requests handed up."""

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
        """Send a request and wait for its answer."""
        future: asyncio.Future[Command] = self._loop.create_future()
        frame = encode(command)
        self._waiting[command.opaque] = future
        try:
            await self.send(frame)
            return await future
        finally:
            self._waiting.pop(command.opaque, None)

    async def send(self, frame: bytes) -> None:
        """Write a frame, waiting while the other end does not read."""
        await self.room()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(self.address)
        self._transport.write(frame)

    def write(self, frame: bytes) -> None:
        """Write a frame at once; one that has nowhere to go is dropped, as its connection is."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)


# Connections by address.

C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """At most one connection an address ("host:port"); callers of one moment share one attempt.

    `made` makes one for an address; `failed` is the error for an address and the reason why nobody answers there,
    `closed` the one for who waits for a connection while the client is closed.
    """

    def __init__(
        self,
        made: Callable[[str], C],
        *,
        secure: Secure,
        timeout_s: float,
        failed: Callable[[str, str], Exception],
        closed: Callable[[str], Exception],
    ) -> None:
        self._made = made
        self._secure = secure
        self._timeout_s = timeout_s
        self._failed = failed
        self._closed = closed
        self._ready: dict[str, C] = {}
        self._attempts: dict[str, asyncio.Task[C]] = {}
        self._generation = forks.generation

    def ready(self, address: str) -> C | None:
        """Return the connection to `address` if it is there already."""
        one = self._ready.get(address)
        return one if one is not None and one.is_open else None

    async def to(self, address: str) -> C:
        """Return the connection to `address`; raise what `failed` and `closed` make."""
        one = self.ready(address)
        if one is not None:
            return one
        if self._generation != forks.generation:
            raise self._failed(address, "this client was created before the process forked; create one in the child")
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = asyncio.get_running_loop().create_task(self._connect(address))
            self._attempts[address] = attempt
            attempt.add_done_callback(lambda done: self._attempted(address, done))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled():
                raise self._closed(address) from None
            raise

    def forget(self, one: C) -> bool:
        """Forget a connection that has ended, and tell whether it was the one to its address."""
        if self._ready.get(one.address) is not one:
            return False
        del self._ready[one.address]
        return True

    def close(self) -> list[C]:
        """End all, and the attempts under way; returns the connections that there were."""
        for attempt in list(self._attempts.values()):
            attempt.cancel()
        ending, self._ready = list(self._ready.values()), {}
        for one in ending:
            one.close()
        return ending

    def _attempted(self, address: str, attempt: asyncio.Task[C]) -> None:
        self._attempts.pop(address, None)
        if not attempt.cancelled():
            attempt.exception()  # seen, whether or not somebody still waits for it

    async def _connect(self, address: str) -> C:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        context, name = self._secure(host)
        try:
            async with asyncio.timeout(self._timeout_s):
                _, one = await asyncio.get_running_loop().create_connection(
                    lambda: self._made(address), host, int(port), ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise self._failed(address, f"no answer within {self._timeout_s:g} s") from None
        except (OSError, ValueError, OverflowError) as error:
            raise self._failed(address, str(error)) from error
        self._ready[address] = one
        return one


# What a child lets go of after a fork.


class Inherited(Protocol):
    """A connection that a forked child lets go of."""

    def let_go(self) -> int | None:
        """Forget the parent's end; returns its descriptor if there is one."""


class Forks:
    """The connections that this process has to give up when it is a child, and what it has to begin anew."""

    def __init__(self) -> None:
        #: how many forks this process is away from the first
        self.generation = 0
        self._pid = os.getpid()
        self._begun_anew: list[Callable[[], None]] = []
        self._mine: WeakSet[Inherited] = WeakSet()
        self._selectors: list[selectors.BaseSelector] = []
        #: loops and connections of a parent: collected, they would tidy up in a selector that is the parent's too
        self._kept: list[object] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def begin_anew(self, begin: Callable[[], None]) -> None:
        """Have a child call it, behind what it gives up here."""
        self._begun_anew.append(begin)

    def look(self) -> None:
        """Notice a fork of which Python was not told: uWSGI forks by itself."""
        if os.getpid() != self._pid:
            self._in_child()

    def note(self, one: Inherited) -> None:
        """Have a child let go of it; it is not kept alive by this."""
        self._mine.add(one)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop all of whose descriptors a child lets go of."""
        if not hasattr(os, "register_at_fork"):
            return asyncio.new_event_loop()
        selector = selectors.DefaultSelector()
        loop = asyncio.SelectorEventLoop(selector)
        self._selectors.append(selector)
        self._kept.append(loop)
        return loop

    def _in_child(self) -> None:
        self._pid = os.getpid()
        self.generation += 1
        descriptors = [descriptor for one in list(self._mine) if (descriptor := one.let_go()) is not None]
        for selector in self._selectors:
            descriptors += [key.fd for key in list(selector.get_map().values())]
            fileno = getattr(selector, "fileno", None)  # those of epoll and kqueue have one
            if fileno is not None:
                descriptors.append(fileno())
        self._kept += self._mine
        self._mine = WeakSet()
        self._selectors = []
        _close(descriptors)
        for begin in self._begun_anew:
            begin()


def _close(descriptors: Iterable[int]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for descriptor in set(descriptors):
            with suppress(OSError):
                os.dup2(nothing, descriptor, inheritable=False)
    finally:
        os.close(nothing)


forks = Forks()
