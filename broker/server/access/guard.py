"""Put the gate before the processors of a broker; a record asked for by its position belongs to its own topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...engine.disk.files import Files, join
from ...engine.engine import Engine
from ...engine.errors import BrokerError
from ...rocketmq.acl import AccessConfig
from ...rocketmq.message import decode
from ...rocketmq.properties import REAL_TOPIC
from ...rocketmq.topics import HALF_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..connection import Server
from ..state import BrokerState
from .accounts import FILE_NAME, AccessBook
from .demands import OPEN_TO_USERS, Demands, TopicAt
from .gate import Gate


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


#: What lies here is meant for another topic.
_PARKED = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, PARKED_HALF_TOPIC})


def topics_of(engine: Engine) -> TopicAt:
    """The topic of the record at a position, of a parked one the real topic; None where no record is."""

    def topic_at(position: int) -> str | None:
        try:
            message = decode(engine.look_at(position), verify=False)
        except (BrokerError, OSError):
            return None
        topic = message.properties.get(REAL_TOPIC) if message.topic in _PARKED else None
        return topic or message.topic

    return topic_at
