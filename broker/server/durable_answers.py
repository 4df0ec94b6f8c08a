"""Owners of tickets that answer a request when what it asked for is durable."""

from __future__ import annotations

from ..engine.log.ticket import Ticket
from ..rocketmq.codes import RESPONSE_FLAG, Answer
from ..rocketmq.frame import BINARY, Command, encode
from .connection import Connection

_OPAQUE_AT = 13
_SUCCESS = encode(Command(Answer.SUCCESS, flag=RESPONSE_FLAG, serialization=BINARY))
_BEFORE, _AFTER = _SUCCESS[:_OPAQUE_AT], _SUCCESS[_OPAQUE_AT + 4 :]


class AnsweredOwner:
    """Answers once ``wanted`` tickets are durable: with plain success, or the body given."""

    __slots__ = ("_body", "_connection", "_request", "wanted")

    def __init__(self, connection: Connection, request: Command, wanted: int = 1, body: bytes = b"") -> None:
        self._connection = connection
        self._request = request
        self._body = body
        self.wanted = wanted

    def stored(self, _: Ticket) -> None:
        """One more is durable."""
        self.wanted -= 1
        if not self.wanted:
            self._connection.send(self._request.answer(body=self._body))

    def refused(self, code: int, remark: str) -> None:
        """One may be lost; the first such news is the answer."""
        if self.wanted > 0:
            self.wanted = 0
            self._connection.send(self._request.answer(code=code, remark=remark))

    def say(self, body: bytes) -> None:
        """Set the body of the answer."""
        self._body = body


class BriefOwner:
    """Answers a request with a binary header with plain success once what it asked for is durable."""

    __slots__ = ("_asked_code", "_asked_ms", "_connection", "_opaque")

    def __init__(self, connection: Connection, opaque: int, asked_code: int, asked_ms: int) -> None:
        self._connection = connection
        self._opaque = opaque
        self._asked_code = asked_code
        self._asked_ms = asked_ms

    def stored(self, _: Ticket) -> None:
        """It is durable."""
        self.answer()

    def answer(self) -> None:
        """Say that it succeeded."""
        server = self._connection.server
        server.times.note(self._asked_code, Answer.SUCCESS, server.clock() - self._asked_ms)
        self._connection.write(_BEFORE + self._opaque.to_bytes(4, "big", signed=True) + _AFTER)

    def refused(self, code: int, remark: str) -> None:
        """It may be lost."""
        command = Command(code, {}, b"", remark, RESPONSE_FLAG, self._opaque, serialization=BINARY)
        command.asked_code, command.asked_ms = self._asked_code, self._asked_ms
        self._connection.send(command)
