"""The broker's end of remoting connections: frames in, handlers, answers out.

All frames of one read are handled in one go, without a task or an await each; their answers leave in one write.
A connection that does not read its answers is not read from; one that sends half a frame and stops, or nothing at
all, is closed by sweep(); one that sends what is no frame is closed alone.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import cast

from ..engine.errors import EngineError
from ..engine.message import pack_host
from .calltimes import CallTimes
from .codec import Command, FrameBuffer, decode, encode
from .codes import Answer
from .errors import BadFrame, RequestRefused
from .limits import Limits
from .refusals import refusal_code, refusal_fields

logger = logging.getLogger(__name__)

Handler = Callable[["Connection", Command], Command | None]
"""Handles one request; None if it answers later, or never."""

Express = Callable[["Connection", bytes, int], bool]
"""Handles a frame without decoding it as a whole; False if it is not of the kind it knows. (connection, frame, now)"""

LONGEST_REMARK = 4096

MOST_FRAMES_A_TURN = 128
"""Frames of one connection handled before others have their turn."""

MOST_CORKED_BYTES = 128 * 1024
"""So much waits for the other answers of the same read; a peer that asks more is stopped by what it does not read."""


class Server:
    """One listening port: its connections, handlers and limits."""

    def __init__(
        self,
        name: str,
        handlers: Mapping[int, Handler],
        clock: Callable[[], int],
        limits: Limits,
        *,
        express: Express | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.clock = clock
        self.express = express
        self.times = CallTimes()
        self.connections: set[Connection] = set()
        self.on_closed: list[Callable[[Connection], None]] = []
        self.on_answer: Callable[[Connection, Command], None] = lambda _connection, _command: None
        self.after_read: Callable[[], None] = lambda: None
        self.check: Callable[[Connection, Command], None] | None = None
        """Called before the handler; raises RequestRefused if it may not be called."""
        self.admit: Callable[[Connection], bool] | None = None
        """Called for a new connection: whether it may stay."""
        self.make: Callable[[Server], Connection] = Connection
        self.codes: Collection[int] = handlers.keys()
        """The requests that it answers, as of now."""
        self._handlers = handlers
        self._listener: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Begins to accept connections on a bound socket."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: self.make(self), sock=listening, backlog=1024)

    def stop_accepting(self) -> None:
        """Takes no new connections; those there are live on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def stop_reading(self) -> None:
        """Takes no new requests; what was asked is still answered."""
        for connection in self.connections:
            connection.stop_reading()

    def close_connections(self) -> None:
        """Ends all connections once what was written to them is sent."""
        for connection in list(self.connections):
            connection.close()

    def abort_connections(self) -> None:
        """Ends all connections at once."""
        for connection in list(self.connections):
            connection.abort()

    def sweep(self, now_ms: int) -> None:
        """Closes connections with a frame begun too long ago, and those that were silent for too long."""
        for connection in list(self.connections):
            connection.close_if_overdue(now_ms)

    def respond(self, connection: Connection, request: Command) -> Command | None:
        """The answer to one request: what its handler says, or the error that came of it."""
        handler = self._handlers.get(request.code, self._not_supported)
        try:
            if self.check is not None:
                self.check(connection, request)
            return handler(connection, request)
        except EngineError as error:
            return request.answer(refusal_fields(error), code=refusal_code(error), remark=str(error)[:LONGEST_REMARK])
        except RequestRefused as error:
            return request.answer(code=error.code, remark=error.remark[:LONGEST_REMARK])
        except OSError as error:
            logger.error("%s: request %d failed: %s", self.name, request.code, error)
            return request.answer(code=Answer.SYSTEM_ERROR, remark=f"The disk failed: {error}; nothing was changed.")
        except Exception:
            # The last resort of a door open to strangers: a fault in one handler must not end other connections.
            logger.exception("%s: request %d of %s failed", self.name, request.code, connection.address)
            return request.answer(code=Answer.SYSTEM_ERROR, remark="The broker failed; its log says why.")

    def _not_supported(self, connection: Connection, request: Command) -> Command:
        code = request.code
        logger.warning("%s: request code %d of %s is not supported", self.name, code, connection.address)
        return request.answer(code=Answer.REQUEST_CODE_NOT_SUPPORTED, remark=f"request type {code} not supported")


class Connection(asyncio.Protocol):
    """One connected client."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.address = self.host = "?"
        self.user = ""  # whose signature its requests carry, where they must carry one
        self.is_noted = False  # whether it was logged that it asks for what it may not
        self.born_host = b"\0" * 8
        self.is_open = self.is_paused = self._is_stopped = False
        self.serialization = 0
        self._frames = FrameBuffer(server.limits.max_frame_bytes)
        self._backlog: deque[bytes] = deque()
        self._corked: list[bytes] | None = None
        self._corked_bytes = 0
        self._last_read_ms = self._frame_begun_ms = server.clock()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts the connection, or ends it at once if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("0.0.0.0", 0))[:2]  # noqa: S104 (gone already)
        self.address, self.host = f"{host}:{port}", host
        server = self.server
        if len(server.connections) >= server.limits.max_connections:
            logger.error("%s: refusing %s, %d connections there", server.name, self.address, len(server.connections))
            self._transport.abort()
            return
        if server.admit is not None and not server.admit(self):
            logger.warning("%s: refusing %s, too many from there have not signed yet", server.name, self.address)
            self._transport.abort()
            return
        self.born_host = pack_host(host.partition("%")[0], port)
        self.is_open = True
        server.connections.add(self)
        self._transport.set_write_buffer_limits(high=server.limits.write_pause_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection and tells those who asked to know."""
        self.is_open = False
        self._backlog.clear()
        if self in self.server.connections:
            self.server.connections.discard(self)
            for callback in self.server.on_closed:
                callback(self)

    def data_received(self, data: bytes) -> None:
        """Handles all frames that are whole now."""
        now_ms = self.server.clock()
        self._last_read_ms = now_ms
        buffer = self._frames
        begins = not buffer.partial_bytes
        try:
            frames = buffer.feed(data)
            if begins or frames:
                self._frame_begun_ms = now_ms
            if self._backlog:
                self._backlog.extend(frames)
            elif frames:
                self._handle(frames, now_ms)
        except BadFrame as error:
            self.close_because(str(error))
        self.server.after_read()

    def _handle(self, frames: list[bytes], now_ms: int) -> None:
        express = self.server.express
        self._corked = []
        try:
            for index, frame in enumerate(frames):
                if self.is_paused or index >= MOST_FRAMES_A_TURN:
                    self._backlog.extend(frames[index:])
                    if not self.is_paused:
                        asyncio.get_running_loop().call_soon(self._go_on)
                    return
                if express is None or not express(self, frame, now_ms):
                    self._handle_one(decode(frame), now_ms)
        finally:
            self._uncork()
            self._corked = None

    def _go_on(self) -> None:
        """The next slice of what was read: disk, answers and other clients had their turn in between."""
        if self._backlog and self.is_open and not self.is_paused:
            self._handle_backlog()
            self.server.after_read()

    def _handle_backlog(self) -> None:
        frames, self._backlog = list(self._backlog), deque()
        try:
            self._handle(frames, self.server.clock())
        except BadFrame as error:
            self.close_because(str(error))

    def _handle_one(self, command: Command, now_ms: int) -> None:
        if command.is_response:
            self.server.on_answer(self, command)
            return
        command.asked_ms = now_ms
        self.serialization = command.serialization
        answer = self.server.respond(self, command)
        if answer is not None and not command.is_oneway:
            self.send(answer)

    def send(self, command: Command) -> None:
        """Writes an answer or a pushed request."""
        frame = encode(command)
        if command.asked_ms:
            self.server.times.answered(command, self.server.clock(), is_later=self._corked is None)
        if self._corked is None:
            self.write(frame)
        else:
            self._corked.append(frame)
            self._corked_bytes += len(frame)
            if self._corked_bytes > MOST_CORKED_BYTES:
                self._uncork()

    def _uncork(self) -> None:
        waiting, self._corked, self._corked_bytes = self._corked, [], 0
        if waiting:
            self.write(b"".join(waiting))

    def write(self, data: bytes) -> None:
        """Writes whole frames; what has nowhere to go is dropped, as its connection is."""
        if self.is_open and self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        """The peer does not read: neither do we."""
        self.is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer reads again: first what it asked before."""
        self.is_paused = False
        while self._backlog and not self.is_paused:
            self._handle_backlog()
        if self._transport is not None and self.is_open and not self.is_paused and not self._is_stopped:
            self._transport.resume_reading()
        self.server.after_read()

    def stop_reading(self) -> None:
        """Takes no new requests from this client."""
        self._is_stopped = True
        if self._transport is not None:
            self._transport.pause_reading()

    def close_if_overdue(self, now_ms: int) -> None:
        """Ends this connection if a frame takes too long, or nobody speaks; silence is no news, clients come again."""
        limits = self.server.limits
        if self._frames.partial_bytes and now_ms - self._frame_begun_ms >= limits.frame_timeout_ms:
            self.close_because(f"a frame was begun and not finished within {limits.frame_timeout_ms} ms")
        elif now_ms - self._last_read_ms >= limits.idle_timeout_ms:
            self.close_because(f"nothing was received for {limits.idle_timeout_ms} ms", logging.DEBUG)

    def close_because(self, reason: str, level: int = logging.WARNING) -> None:
        """Logs the reason and ends this connection alone."""
        logger.log(level, "%s: closing the connection of %s: %s", self.server.name, self.address, reason)
        self._backlog.clear()
        self.abort()

    def close(self) -> None:
        """Ends the connection once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()
