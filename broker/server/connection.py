"""The broker's end of remoting connections: frames in, handlers, answers out; and the limits of what one peer may ask.

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
from dataclasses import dataclass
from typing import Protocol, cast

from msgspec.structs import replace

from ..engine.disk import NO_DESCRIPTOR
from ..engine.errors import BrokerError
from ..rocketmq.codes import RESPONSE_FLAG, Answer
from ..rocketmq.errors import BadFrame, HeaderRefused, RequestRefused
from ..rocketmq.frame import MAX_FRAME_BYTES, Command, decode, encode
from ..rocketmq.message import pack_host
from .budgets import HELD_S, LEAST_BYTES, Budget, Refused, Unread, without_answers, without_frames
from .incoming import Incoming, RefusedFrame
from .listener import Listener, Places
from .refusals import refusal_code, refusal_fields
from .slow_requests import SLOW_MS, SlowRequests
from .statistics import CallTimes

logger = logging.getLogger(__name__)

Handler = Callable[["Connection", Command], Command | None]
"""Handles one request; None if it answers later, or never."""

Express = Callable[["Connection", bytes, int], bool]
"""Handles a frame without decoding it as a whole, or holds it back to handle it with others; False if it is not of the
kind it knows. (connection, frame, now)"""

Held = Callable[["Connection", int], None]
"""Handles what `Express` held back: after the frames of one read, and before a frame that goes the long way."""

LONGEST_REMARK = 4096

MOST_FRAMES_A_TURN = 128
"""Frames of one connection handled before others have their turn."""

MOST_MS_A_TURN = 10
"""... or as many as begin within this time: a few that take long are enough to keep others waiting."""

MOST_WAITING_FRAMES = 8 * MOST_FRAMES_A_TURN
"""With more frames of one connection waiting for their turn, no more of it is read."""

STRANGER_WRITE_BYTES = 64 * 1024
"""The most that waits to be written to a client without a valid signature, where access is controlled."""

MOST_CORKED_BYTES = 128 * 1024
"""So much waits for the other answers of the same read; a peer that asks more is stopped by what it does not read."""

SHORT_FRAME_BYTES = 4 * 1024
"""What goes the short way and is no longer than this takes no longer than a look at the clock is worth."""


class Gatekeeper(Protocol):
    """Decides, where access is controlled, who may connect and what each may ask."""

    def admit(self, connection: Connection) -> bool:
        """Tell whether a new connection may stay."""

    def vouch(self, request: Command) -> bool:
        """Tell, of a stranger's long frame of which only the header is there, whether it names somebody whose signature
        is to be checked. Raises BadFrame if it names nobody."""

    def check(self, connection: Connection, request: Command) -> None:
        """Raise RequestRefused unless the request may be handled."""

    def forget(self, connection: Connection) -> None:
        """Take note that a connection has ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what one peer may ask of the server."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    most_partial_bytes: int = 64 * 1024 * 1024
    """What all connections together may hold of frames that are not whole yet."""
    max_connections: int = 10_000
    """Of one server; all together have as many as descriptors allow (listener.py)."""
    frame_timeout_ms: int = 30_000
    """A frame that was begun must be whole after this time."""
    idle_timeout_ms: int = 120_000
    """serverChannelMaxIdleTimeSeconds of RocketMQ; clients send a heartbeat every 30 s."""
    write_pause_bytes: int = 4 * 1024 * 1024
    """Above this many bytes waiting to be written, no more requests are read."""
    most_unread_bytes: int = 256 * 1024 * 1024
    """What may wait to be written to all connections together."""
    sweep_interval_ms: int = 3_000
    """How often all connections are looked at: that much later one is closed, at most."""
    slow_ms: int = SLOW_MS
    """Requests that take as long are logged; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The functions that a server calls beside its handlers."""

    express: Express | None = None
    held: Held = lambda _connection, _now_ms: None
    gate: Gatekeeper | None = None
    connection: Callable[[Server], Connection] | None = None
    """Makes the object for a new connection; None: a plain `Connection`."""
    answered: Callable[[Connection, Command], None] = lambda _connection, _command: None
    """Takes what a client answers to a request of the broker."""
    after_read: Callable[[], None] = lambda: None
    """Called after the frames of a read were handled."""
    closed: tuple[Callable[[Connection], None], ...] = ()
    """Called with each connection that has ended."""


NO_HOOKS = Hooks()


@dataclass(frozen=True, slots=True)
class Shared:
    """The counts that servers of one broker share: requests, bytes of unfinished frames and unread answers,
    connections, and those that were refused something."""

    slow: SlowRequests
    times: CallTimes
    budget: Budget
    unread: Unread
    places: Places
    no_frames: Refused
    no_answers: Refused

    @classmethod
    def within(cls, limits: Limits, sync_ms: Callable[[], int] = lambda: 0) -> Shared:
        """Begin to count from nothing; `sync_ms`: how long the last write to the disk took."""
        slow = SlowRequests(limits.slow_ms, sync_ms)
        budget, unread = Budget(limits.most_partial_bytes), Unread(limits.most_unread_bytes)
        return cls(slow, CallTimes(slow), budget, unread, Places(), without_frames(), without_answers())


class Server:
    """A listening port: its connections, handlers and limits."""

    def __init__(
        self,
        name: str,
        handlers: Mapping[int, Handler],
        clock: Callable[[], int],
        limits: Limits,
        hooks: Hooks = NO_HOOKS,
        shared: Shared | None = None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.clock = clock
        self.connections: set[Connection] = set()
        self.codes: Collection[int] = handlers.keys()
        """The requests that it answers, as of now."""
        self.hooks = hooks
        self.express, self.held = hooks.express, hooks.held
        self.gate = hooks.gate
        self.after_read = hooks.after_read
        shared = shared or Shared.within(limits)
        self.times, self.budget, self.unread, self.places = shared.times, shared.budget, shared.unread, shared.places
        self.no_frames, self.no_answers = shared.no_frames, shared.no_answers
        self._connection = hooks.connection or Connection
        self._handlers = handlers
        self._listeners: list[Listener] = []
        self._connecting: set[asyncio.Task[None]] = set()

    async def start(self, *listening: socket.socket) -> None:
        """Begin to accept connections on bound sockets, and on some more later: it makes no difference which one is
        used.

        Raises OSError if another program listens there.
        """
        wanting = self.places.make_room
        self._listeners += [Listener(self.name, each, self._accepted, wanting) for each in listening]

    def _accepted(self, connected: socket.socket) -> None:
        connection = self._connection(self)
        if not self.places.enter(connection):
            connected.close()
            return
        task = asyncio.get_running_loop().create_task(self._connect(connection, connected))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: Connection, connected: socket.socket) -> None:
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, connected)
        except OSError as error:
            logger.debug("%s: a connection was lost while it was made: %s", self.name, error)
            connected.close()
            self.places.leave(connection)

    def stop_accepting(self) -> None:
        """Accept no new connections; those that are there go on."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def stop_reading(self) -> None:
        """Read no new requests; what was asked is still answered."""
        for connection in self.connections:
            connection.stop_reading()

    def close_connections(self) -> None:
        """End all connections once what was written to them is sent."""
        for connection in list(self.connections):
            connection.close()

    def abort_connections(self) -> None:
        """End all connections at once."""
        for connection in list(self.connections):
            connection.abort()

    def sweep(self, now_ms: int) -> None:
        """Close connections with a frame begun too long ago, and those that were silent for too long."""
        for connection in list(self.connections):
            connection.close_if_overdue(now_ms)

    def respond(self, connection: Connection, request: Command) -> Command | None:
        """Return the answer to one request: what its handler returns, or the error that it raised; None if it comes
        later."""
        handler = self._handlers.get(request.code, self._not_supported)
        try:
            if self.gate is not None:
                self.gate.check(connection, request)
            return handler(connection, request)
        except BrokerError as error:
            return request.answer(refusal_fields(error), code=refusal_code(error), remark=str(error)[:LONGEST_REMARK])
        except RequestRefused as error:
            return request.answer(code=error.code, remark=error.remark[:LONGEST_REMARK])
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                remark = "No more files can be opened now; nothing was changed, retry shortly."
                return request.answer(code=Answer.SYSTEM_BUSY, remark=remark)
            logger.error("%s: request %d failed: %s", self.name, request.code, error)
            return request.answer(code=Answer.SYSTEM_ERROR, remark=f"The disk failed: {error}; nothing was changed.")
        except Exception:
            # The last resort, as strangers may ask anything: a fault in one handler must not end other connections.
            logger.exception("%s: request %d of %s failed", self.name, request.code, connection.address)
            return request.answer(code=Answer.SYSTEM_ERROR, remark="The broker failed; its log says why.")

    def _not_supported(self, connection: Connection, request: Command) -> Command:
        code = request.code
        level = connection.refusal_level()
        logger.log(level, "%s: request code %d of %s is not supported", self.name, code, connection.address)
        return request.answer(code=Answer.REQUEST_CODE_NOT_SUPPORTED, remark=f"request type {code} not supported")


class Connection(asyncio.Protocol):
    """A client's connection, and what is read from it and waits to be written."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.address = self.host = "?"
        self.user = ""  # whose signature its requests carry, where they must carry one
        self.is_noted = False  # whether it was logged that it asks for what it may not or nobody knows
        self.born_host = b"\0" * 8
        self.is_unauthenticated = False  # where access is controlled: until its first valid signature
        self.is_open = self.is_paused = self._is_stopped = False
        self.serialization = 0
        self._frames = Incoming(server.limits.max_frame_bytes)
        self._is_silent = self._is_reading = True
        self._goes_on = self._is_late = False
        self._backlog: deque[bytes] = deque()
        self._corked: list[bytes] | None = None
        self._corked_bytes = 0
        self._last_read_ms = self._frame_begun_ms = self.begun_ms = server.clock()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, or end it at once if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("0.0.0.0", 0))[:2]  # noqa: S104 (gone already) # nosec B104
        self.address, self.host = f"{host}:{port}", host
        server = self.server
        if len(server.connections) >= server.limits.max_connections:
            logger.error("%s: refusing %s, %d connections there", server.name, self.address, len(server.connections))
            self._transport.abort()
            return
        gate = server.gate
        if gate is not None and not gate.admit(self):
            logger.warning("%s: refusing %s, too many from there have not signed yet", server.name, self.address)
            self._transport.abort()
            return
        write_bytes = server.limits.write_pause_bytes
        if gate is not None:
            self.is_unauthenticated = True
            self._frames.be_short(lambda beginning: gate.vouch(decode(beginning)))
            write_bytes = min(write_bytes, STRANGER_WRITE_BYTES)
        self.born_host = pack_host(host.partition("%")[0], port)
        self.is_open = True
        server.connections.add(self)
        server.places.has_come(self)
        self._transport.set_write_buffer_limits(high=write_bytes)

    def identify(self, user: str) -> None:
        """Note whose valid signature the requests carry: from the first one on they may be longer."""
        self.user = user
        if self.is_unauthenticated:
            self.is_unauthenticated = False
            self._frames.be_usual()
            self._has_spoken()
            if self._transport is not None:
                self._transport.set_write_buffer_limits(high=self.server.limits.write_pause_bytes)

    def _has_spoken(self) -> None:
        if not self.is_unauthenticated:
            self._is_silent = False
            self.server.places.has_spoken(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and tell those who asked to know."""
        self.is_open = False
        self._backlog.clear()
        self._frames.drop()
        self.server.budget.release(self)
        self.server.unread.forget(self)
        self.server.places.leave(self)
        if self in self.server.connections:
            self.server.connections.discard(self)
            if self.server.gate is not None:
                self.server.gate.forget(self)
            for closed in self.server.hooks.closed:
                closed(self)

    def data_received(self, data: bytes) -> None:
        """Handle all frames that are whole now."""
        now_ms = self.server.clock()
        self._last_read_ms = now_ms
        buffer = self._frames
        was_partial = buffer.is_partial
        try:
            frames = buffer.feed(data)
            if not was_partial or frames:
                self._frame_begun_ms = now_ms
            if was_partial or buffer.is_partial:
                self._note_partial(has_ended=was_partial and bool(frames))
            if frames:
                if self._is_silent:
                    self._has_spoken()
                if self._backlog:
                    self._backlog.extend(frames)
                    self._regulate()
                else:
                    self._handle(frames, now_ms)
        except BadFrame as error:
            self._end_badly(str(error))
        except Exception as error:
            self._end_at(error)
        self.server.after_read()

    def _note_partial(self, *, has_ended: bool) -> None:
        budget = self.server.budget
        if has_ended:
            budget.release(self)
        if counted_bytes := self._frames.counted_bytes:
            budget.hold(self, counted_bytes)

    def give_up_partial(self, reason: str) -> None:
        """End the connection: what it holds of an unfinished frame is needed for others."""
        self._frames.drop()
        self.close_because(reason)

    def make_room(self) -> None:
        """End the connection: its place is needed for one that is in use."""
        logger.debug("%s: closing the connection of %s, which is silent", self.server.name, self.address)
        self.abort()

    def _handle(self, frames: list[bytes], now_ms: int) -> None:
        express, clock = self.server.express, self.server.clock
        self._is_late = False
        self.begun_ms = now_ms
        self._corked = []
        try:
            for index, frame in enumerate(frames):
                if self.is_paused or self._is_late or index >= MOST_FRAMES_A_TURN:
                    self._backlog.extendleft(reversed(frames[index:]))
                    return
                if express is None or not express(self, frame, now_ms):
                    self.server.held(self, now_ms)
                    self.take(frame, now_ms)
                else:
                    self.serialization = frame[0]
                    if len(frame) <= SHORT_FRAME_BYTES:
                        continue
                self.begun_ms = clock()
                self._is_late = self.begun_ms - now_ms >= MOST_MS_A_TURN
        finally:
            try:
                self.server.held(self, now_ms)
            finally:
                self._uncork()
                self._corked = None
            if self._backlog:
                self._regulate()
                if not (self.is_paused or self._goes_on):
                    self._goes_on = True
                    asyncio.get_running_loop().call_soon(self._go_on)

    def take(self, frame: bytes, now_ms: int) -> None:
        """Handle a frame the long way."""
        try:
            if type(frame) is RefusedFrame:
                raise frame.refusal
            command = decode(frame)
        except HeaderRefused as refusal:
            self._refuse(refusal)
        else:
            command.asked_ms = now_ms
            self._handle_one(command)

    def _refuse(self, refusal: HeaderRefused) -> None:
        """Answer a header that is not taken, and go on with the frames after it."""
        if refusal.is_final or self.is_unauthenticated:
            raise refusal
        logger.log(self.refusal_level(), "%s: a request of %s is refused: %s", self.server.name, self.address, refusal)
        if refusal.opaque is not None:
            remark = f"The request is refused: {refusal}."
            self.send(Command(
                Answer.INVALID_PARAMETER, remark=remark, flag=RESPONSE_FLAG, opaque=refusal.opaque,
                serialization=refusal.serialization,
            ))  # fmt: skip

    def refusal_level(self) -> int:
        """Return the level to log a refused request at: a warning the first time, unless too many connections have
        theirs, then only in detail."""
        if self.is_noted:
            return logging.DEBUG
        self.is_noted = True
        server = self.server
        return logging.DEBUG if server.no_answers.is_one_too_many(server.clock()) else logging.WARNING

    def _go_on(self) -> None:
        """Handle the next slice of what was read: disk, answers and other clients had their turn in between."""
        self._goes_on = False
        if self._backlog and self.is_open and not self.is_paused:
            self._handle_backlog()
            self.server.after_read()

    def _handle_backlog(self) -> None:
        backlog = self._backlog
        frames = [backlog.popleft() for _ in range(min(len(backlog), MOST_FRAMES_A_TURN))]
        try:
            self._handle(frames, self.server.clock())
        except BadFrame as error:
            self._end_badly(str(error))
        except Exception as error:
            self._end_at(error)
        self._regulate()

    def _end_at(self, error: Exception) -> None:
        """End this connection and no other after a fault in reading; what was answered before is still sent."""
        logger.error("%s: a frame from %s could not be read", self.server.name, self.address, exc_info=error)
        self._end_badly("the broker failed to handle it")

    def _handle_one(self, command: Command) -> None:
        if command.is_response:
            self.server.hooks.answered(self, command)
            return
        self.serialization = command.serialization
        answer = self.server.respond(self, command)
        if answer is not None and not command.is_oneway:
            self.send(answer)

    def send(self, command: Command) -> None:
        """Write an answer or a pushed request; for an answer that does not fit a frame, one that says so."""
        frame = frame_of(command)
        if command.asked_ms:
            server = self.server
            server.times.answered(
                self, command.asked_code, command.code, command.asked_ms, server.clock(), is_later=self._corked is None
            )
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
        """Write whole frames; they are dropped where the connection has ended."""
        if self.is_open and self._transport is not None:
            self._transport.write(data)
            if len(data) >= LEAST_BYTES:
                self.server.unread.note(self)

    def unread_bytes(self) -> int:
        """Return how much waits to be written."""
        return self._transport.get_write_buffer_size() if self.is_open and self._transport is not None else 0

    def give_up_unread(self, reason: str) -> None:
        """End the connection: what waits in it is too much with that of others."""
        self.close_because(reason)

    def _regulate(self) -> None:
        """Read on, or pause, as far as what was read is handled and answers are taken."""
        # frames that take long may be long, too: of those no more is taken than one read brings
        most = 0 if self._is_late else MOST_WAITING_FRAMES
        is_reading = not (self.is_paused or self._is_stopped or len(self._backlog) > most)
        if is_reading is not self._is_reading and self._transport is not None and self.is_open:
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Stop reading: the peer does not read its answers."""
        self.is_paused = True
        self._regulate()
        self.server.unread.note(self)

    def resume_writing(self) -> None:
        """Read on, first what was asked before: the peer reads its answers again."""
        self.is_paused = False
        self.server.unread.forget(self)
        if self._backlog:
            self._handle_backlog()
        self._regulate()
        self.server.after_read()

    def stop_reading(self) -> None:
        """Read no new requests of this client."""
        self._is_stopped = True
        self._regulate()

    def close_if_overdue(self, now_ms: int) -> None:
        """End this connection if a frame takes too long, or nothing comes; silence is not logged, clients come
        again."""
        limits = self.server.limits
        if self._frames.is_partial and now_ms - self._frame_begun_ms >= limits.frame_timeout_ms:
            self.close_because(f"a frame was begun and not finished within {limits.frame_timeout_ms} ms")
        elif now_ms - self._last_read_ms >= limits.idle_timeout_ms:
            self.close_because(f"nothing was received for {limits.idle_timeout_ms} ms", logging.DEBUG)

    def close_because(self, reason: str, level: int = logging.WARNING) -> None:
        """Log the reason and end this connection alone."""
        self._give_up(reason, level)
        self.abort()

    def _end_badly(self, reason: str) -> None:
        """End this connection alone for what it sent; what was answered before is still sent."""
        is_held = self.server.no_frames.is_one_too_many(self.server.clock())
        self._give_up(reason, logging.DEBUG if is_held else logging.WARNING)
        self.stop_reading()
        if is_held:
            asyncio.get_running_loop().call_later(HELD_S, self.close)
        else:
            self.close()

    def _give_up(self, reason: str, level: int) -> None:
        logger.log(level, "%s: closing the connection of %s: %s", self.server.name, self.address, reason)
        self._backlog.clear()
        self._frames.drop()

    def close(self) -> None:
        """End the connection once what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()


def frame_of(command: Command) -> bytes:
    """Return the frame of an answer or a pushed request; for an answer that does not fit one, a frame that says so."""
    try:
        return encode(command)
    except BadFrame as error:
        if not command.is_response:
            raise
        logger.error("The answer to request %d cannot be written: %s", command.asked_code, error)
        return encode(replace(command, code=Answer.SYSTEM_ERROR, ext={}, body=b"", remark=f"No answer: {error}."))
