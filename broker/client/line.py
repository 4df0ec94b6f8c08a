"""One connection to a broker on which many sends are under way at once.

The general RemotingClient serves every kind of request; a Line serves the one that must be quick. A caller hands over
the header's fields ready encoded, all requests of one turn of the event loop leave in one write, and answers are
matched by opaque. Nothing is awaited per message but the answer itself. Headers are RocketMQ's binary ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from struct import Struct
from typing import cast

from ..remoting.client import MAX_ANSWER_BYTES, Response
from ..remoting.codec import BINARY, LANGUAGES, FrameBuffer, decode
from ..remoting.codes import ONEWAY_FLAG, PROTOCOL_VERSION
from ..remoting.errors import BadFrame
from .credentials import Security, Signer
from .errors import BrokerUnreachable, ClientError, Timeout
from .stored import Stored, read_stored

CONNECT_TIMEOUT_S = 3.0
#: Written ahead of a broker that reads slowly; asyncio's 64 KiB would make large batches take turns.
WRITE_AHEAD_BYTES = 4 << 20
#: How often requests without an answer are looked through: a timeout is at most this late.
SWEEP_S = 0.25

#: frame length, serialisation and header length, code, language, version, opaque, flag, remark length, fields length
_START = Struct(">IIhbhiiii").pack
_HEADER_OWN_BYTES = 21
_LANGUAGE = LANGUAGES.index("PYTHON")

#: The answer, or why there is none.
Outcome = Stored | Response | ClientError
Answered = Callable[[Outcome], None]


class Line(asyncio.Protocol):
    """One connection; made by Lines."""

    def __init__(self, address: str, lost: Callable[[Line], None], signer: Signer | None = None) -> None:
        self.address = address
        self._lost = lost
        self._signer = signer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer(MAX_ANSWER_BYTES)
        self._opaques = count(1)
        self._waiting: dict[int, tuple[float, int, Answered]] = {}
        self._outgoing: list[bytes] = []
        self._flush_planned = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_open(self) -> bool:
        """False once the connection is ending."""
        return self._transport is not None and not self._transport.is_closing()

    async def room(self) -> None:
        """Wait while the broker does not read what was already written."""
        await self._room.wait()

    def ask(self, code: int, fields: bytes, body: bytes, timeout_ms: int, answered: Answered) -> None:
        """Send a request with these encoded header fields; `answered` is called exactly once."""
        if not self.is_open:
            answered(BrokerUnreachable(self.address, "the connection is closed"))
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        self._waiting[opaque] = (self._loop.time() + timeout_ms / 1000, timeout_ms, answered)
        self._write(code, 0, opaque, fields, body)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def tell(self, code: int, fields: bytes, body: bytes) -> None:
        """Send a request that is not answered."""
        if not self.is_open:
            raise BrokerUnreachable(self.address, "the connection is closed")
        self._write(code, ONEWAY_FLAG, next(self._opaques) & 0x7FFFFFFF, fields, body)

    def _write(self, code: int, flag: int, opaque: int, fields: bytes, body: bytes) -> None:
        if self._signer is not None:
            fields = self._signer.sign_encoded(fields, body)
        header = _HEADER_OWN_BYTES + len(fields)
        start = _START(
            4 + header + len(body),
            header | BINARY << 24,
            code,
            _LANGUAGE,
            PROTOCOL_VERSION,
            opaque,
            flag,
            0,
            len(fields),
        )
        self._outgoing += (start, fields, body)
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was handed over now, instead of at the end of this turn of the loop."""
        self._flush_planned = False
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))

    def _sweep(self) -> None:
        now = self._loop.time()
        late = [opaque for opaque, (deadline, _, _) in self._waiting.items() if deadline <= now]
        for opaque in late:
            _, timeout_ms, answered = self._waiting.pop(opaque)
            answered(Timeout(self.address, timeout_ms))
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep) if self._waiting else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        # uvloop's transports have the methods but not the base class
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_AHEAD_BYTES)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came; every whole answer goes to who waits for it."""
        try:
            for frame in self._frames.feed(data):
                stored = read_stored(frame)
                if stored is None:
                    self._answered(decode(frame))
                else:
                    waiting = self._waiting.pop(stored[0], None)
                    if waiting is not None:
                        waiting[2](stored[1])
        except BadFrame:
            self.close()

    def _answered(self, command: Response) -> None:
        waiting = self._waiting.pop(command.opaque, None) if command.is_response else None
        if waiting is not None:
            waiting[2](command)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection ended; who waits is told."""
        self._transport = None
        self._room.set()
        if self._sweeper is not None:
            self._sweeper.cancel()
        waiting, self._waiting = self._waiting, {}
        for _, _, answered in waiting.values():
            answered(BrokerUnreachable(self.address, "the connection ended before the answer came"))
        self._lost(self)

    def pause_writing(self) -> None:
        """asyncio: the other end reads too slowly."""
        self._room.clear()

    def resume_writing(self) -> None:
        """asyncio: the other end reads again."""
        self._room.set()

    def close(self) -> None:
        """End the connection after what was handed over is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()


class Lines:
    """The lines of one producer, one per address, made at first use and anew after a loss."""

    def __init__(self, security: Security | None = None) -> None:
        self._security = security or Security()
        self._lines: dict[str, Line] = {}
        self._connecting: dict[str, asyncio.Task[Line]] = {}

    def ready(self, address: str) -> Line | None:
        """The line to `address` if it is there already."""
        line = self._lines.get(address)
        return line if line is not None and line.is_open else None

    async def to(self, address: str) -> Line:
        """The line to `address`; raises BrokerUnreachable. Callers of one moment share one attempt."""
        line = self.ready(address)
        if line is not None:
            return line
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._connected(address, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise BrokerUnreachable(address, "the client was closed") from None
            raise

    def _connected(self, address: str, task: asyncio.Task[Line]) -> None:
        self._connecting.pop(address, None)
        if not task.cancelled():
            task.exception()

    async def _connect(self, address: str) -> Line:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        loop, signer = asyncio.get_running_loop(), self._security.signer
        context, name = self._security.of_host(host)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, line = await loop.create_connection(
                    lambda: Line(address, self._lost, signer), host, int(port), ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise BrokerUnreachable(address, f"no answer within {CONNECT_TIMEOUT_S:g} s") from None
        except (OSError, ValueError, OverflowError) as error:
            raise BrokerUnreachable(address, str(error)) from error
        self._lines[address] = line
        return line

    def _lost(self, line: Line) -> None:
        if self._lines.get(line.address) is line:
            del self._lines[line.address]

    def close(self) -> None:
        """End all lines."""
        for task in list(self._connecting.values()):
            task.cancel()
        for line in list(self._lines.values()):
            line.close()
