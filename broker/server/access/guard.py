"""Put the gate before the processors of a broker; a record asked for by its position belongs to its own topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ...engine.disk.files import Files, join
from ...engine.engine import Engine
from ...engine.errors import BrokerError
from ...rocketmq.acl import AccessConfig
from ...rocketmq.message import decode
from ...rocketmq.properties import REAL_TOPIC
from ...rocketmq.topics import HALF_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..connection import Connection
from .accounts import FILE_NAME, AccessBook
from .demands import OPEN_TO_USERS, Demands, TopicAt
from .gate import Gate


def guard(engine: Engine, files: Files, config: AccessConfig, connections: Callable[[], Iterable[Connection]]) -> Gate:
    """Return the gate of a broker, its users and policies read; raises AccessUnreadable.

    `connections` returns those of all its servers: a user's are closed when he may do less than before.
    """

    def changed(name: str, is_less: bool) -> None:
        gate.forget_decisions()
        if is_less:
            # pulls that wait would still be answered
            loop = asyncio.get_running_loop()
            for connection in [each for each in connections() if each.user == name]:
                loop.call_soon(connection.close)  # after the answer to the request that changed it

    book = AccessBook(files, join(engine.config.root, "config", FILE_NAME), config.inner, changed)
    book.load()
    demands = Demands(engine.config.cluster_name, topics_of(engine))
    gate = Gate(book, demands, open_to_all=OPEN_TO_USERS if config.are_routes_open else frozenset())
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
