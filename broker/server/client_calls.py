"""Requests of the broker to its clients that are answered: what a consumer does, a reply handed to who waits for it.

Most requests to clients are told and forgotten (39, 40, 220); these wait for an answer, each with a time of its own.
"""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable
from itertools import count

from ..rocketmq.frame import Command
from .connection import Connection

MOST_WAITING = 10_000
"""Requests without an answer yet; one more is answered as if its client said nothing."""

Answered = Callable[[Command | None], None]
"""Called once: with the client's answer, or None if there was none in time or the connection ended."""


class ClientCalls:
    """All requests to clients that wait for their answers."""

    def __init__(self) -> None:
        self._opaques = count(1)
        self._waiting: dict[Connection, dict[int, tuple[TimerHandle, Answered]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def ask(
        self,
        connection: Connection,
        code: int,
        ext: dict[str, str],
        body: bytes,
        timeout_ms: int,
        answered: Answered,
    ) -> None:
        """Sends a request to a client. A client that does not read what it was sent is not asked."""
        if not connection.is_open or connection.is_paused or self._count >= MOST_WAITING:
            answered(None)
            return
        opaque = next(self._opaques) & 0x7FFFFFFF
        timer = get_running_loop().call_later(timeout_ms / 1000, self._end, connection, opaque, None)
        self._waiting.setdefault(connection, {})[opaque] = (timer, answered)
        self._count += 1
        connection.send(Command(code, ext, body, opaque=opaque, serialization=connection.serialization))

    def answer(self, connection: Connection, command: Command) -> None:
        """Takes a client's answer; one that nobody waits for is dropped."""
        self._end(connection, command.opaque, command)

    def remove_connection(self, connection: Connection) -> None:
        """Answers for a client that is gone."""
        for opaque in list(self._waiting.get(connection, ())):
            self._end(connection, opaque, None)

    def _end(self, connection: Connection, opaque: int, command: Command | None) -> None:
        calls = self._waiting.get(connection, {})
        if opaque not in calls:
            return
        timer, answered = calls.pop(opaque)
        if not calls:
            del self._waiting[connection]
        self._count -= 1
        timer.cancel()
        answered(command)
