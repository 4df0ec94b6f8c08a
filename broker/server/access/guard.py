"""Puts the gate before the doors of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...engine.disk.files import Files, join
from ..connection import Server
from ..state import BrokerState
from .accounts import FILE_NAME, AccessBook
from .demands import OPEN_TO_USERS, Demands
from .gate import Gate
from .record_topic import topics_of
from .users import AccessConfig


def guard(state: BrokerState, files: Files, config: AccessConfig, servers: Iterable[Server]) -> Gate:
    """Let nothing through any more but what is signed and allowed; raises AccessUnreadable."""
    book = AccessBook(files, join(state.config.root, "config", FILE_NAME), config.inner)
    book.load()
    demands = Demands(state.config.cluster_name, topics_of(state.engine))
    gate = Gate(book, demands, open_to_all=OPEN_TO_USERS if config.are_routes_open else frozenset())
    doors = list(servers)
    for server in doors:
        server.check = gate.check
        server.admit = gate.strangers.admit
        server.vouch = gate.vouch
        server.on_closed.append(gate.strangers.forget)
        server.express = None  # the short way knows no signatures
    state.may_send = gate.may_send

    def close(name: str, is_less: bool) -> None:
        """What a user may not do any more ends now: pulls that wait would still be answered."""
        if is_less:
            loop = asyncio.get_running_loop()
            for connection in [each for server in doors for each in server.connections if each.user == name]:
                loop.call_soon(connection.close)  # after the answer to the request that changed it

    book.on_changed.append(close)
    return gate
