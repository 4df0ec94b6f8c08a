"""Consumers of the demonstration: groups of different speed and temper, so that some keep up and some lag."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from broker.client import AsyncConsumer, ClientError, Message

from .plan import ARRIVAL, BOARDING, CANCELLED, DEPARTURE, GATE

logger = logging.getLogger(__name__)


class RefundRefused(Exception):
    """The refund system said no; the message comes again later."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One group: what it takes, how long a message takes it, with how many handlers, and every how many-th it fails."""

    group: str
    topics: tuple[str, ...]
    work_s: float
    handlers: int
    fails_every: int = 0


LISTENERS = (
    Listener("gate-displays", (GATE, BOARDING), 0.02, 8),
    Listener("departure-board", (DEPARTURE, CANCELLED), 0.1, 2),
    Listener("crew-pager", (DEPARTURE, ARRIVAL), 0.7, 1),
    Listener("refunds", (CANCELLED,), 0.5, 1, fails_every=3),
)


async def start(namesrv: str) -> list[AsyncConsumer]:
    """All listeners, joined; one that cannot join yet is left out with a line in the log."""
    joined = []
    for listener in LISTENERS:
        consumer = AsyncConsumer(listener.group, namesrv, from_where="first", handlers=listener.handlers)
        for topic in listener.topics:
            consumer.subscribe(topic, "*", _handler(listener))
        try:
            await consumer.start()
        except ClientError as error:
            logger.warning("group %s cannot join: %s", listener.group, error)
            await consumer.stop(0)
            continue
        joined.append(consumer)
    return joined


def _handler(listener: Listener) -> Callable[[Message], Awaitable[None]]:
    async def handle(message: Message) -> None:
        await asyncio.sleep(listener.work_s)
        choice = zlib.crc32((message.unique_key or "").encode())
        if listener.fails_every and message.reconsume_times == 0 and choice % listener.fails_every == 0:
            raise RefundRefused

    return handle
