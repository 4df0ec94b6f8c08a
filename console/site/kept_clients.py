"""Clients that are kept for the process, one an address, and closed together."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar


class _Closes(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closes)


class KeptClients(Generic[Client]):
    """Makes a client when an address is asked for the first time; safe for threads."""

    def __init__(self, make: Callable[[str], Client]) -> None:
        self._make = make
        self._clients: dict[str, Client] = {}
        self._lock = Lock()

    def at(self, address: str) -> Client:
        """Return the client of this address."""
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                client = self._clients[address] = self._make(address)
            return client

    def hang_up(self) -> None:
        """End all connections. A client leaves before it is closed: nobody is handed a closed one, which would open
        connections that nobody closes."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()
