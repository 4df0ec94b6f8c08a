"""Owners of tickets that answer a request when what it asked for is durable."""

from __future__ import annotations

from ..engine.store.ticket import Ticket
from .codec import Command
from .server import Connection


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
