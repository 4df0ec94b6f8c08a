"""Connections that have shown no valid signature yet: few an address, and not for long."""

from __future__ import annotations

from collections import Counter

from ..connection import Connection

MOST_AN_ADDRESS = 256
PATIENCE_MS = 30_000


class Strangers:
    """Who has not said yet who he is."""

    def __init__(self, *, most_an_address: int = MOST_AN_ADDRESS, patience_ms: int = PATIENCE_MS) -> None:
        self._most = most_an_address
        self._patience_ms = patience_ms
        self._since: dict[Connection, int] = {}
        self._hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._since)

    def admit(self, connection: Connection) -> bool:
        """Tell whether one more may come from where this one comes from, and count it."""
        if self._hosts[connection.host] >= self._most:
            return False
        self._hosts[connection.host] += 1
        self._since[connection] = connection.server.clock()
        return True

    def forget(self, connection: Connection) -> None:
        """He has said who he is, or has gone."""
        if self._since.pop(connection, None) is not None:
            self._hosts[connection.host] -= 1
            if not self._hosts[connection.host]:
                del self._hosts[connection.host]

    def sweep(self, now_ms: int) -> None:
        """Close the connections of those who take too long."""
        late = [each for each, since_ms in self._since.items() if now_ms - since_ms >= self._patience_ms]
        for connection in late:
            connection.close_because(f"no valid signature within {self._patience_ms} ms")
