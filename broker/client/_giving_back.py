"""Giving back a message that its handler could not do: for another attempt, or as a dead letter.

- Again, in the broker's steps: CONSUMER_SEND_MSG_BACK; the broker copies the record to the level of the attempt.
- Again after a time: a copy to %RETRY%group that is a timer; where the broker takes none, in its steps.
- Dead: a copy to %RETRY%group that was tried too often, which the broker puts to %DLQ%group; ESC_DEAD_REASON says why.
"""

from __future__ import annotations

import logging
import time

from ..rocketmq.codes import Answer, Request
from ..rocketmq.properties import (
    DEAD_REASON,
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    OWN_PREFIX,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TRANSACTION_PREPARED,
)
from ..rocketmq.topics import INNER_GROUP, RETRY_PREFIX, TEMPLATE_TOPIC
from ._reader import QueueReader, as_delivered
from ._session import Session
from ._types import Message, MessageQueue
from ._verdicts import Verdict
from .errors import BrokerRefused, RouteNotFound

logger = logging.getLogger(__name__)

#: The level of the first delay (as for messages that are sent back).
FIRST_LEVEL = 3

_REASON_CHARACTERS = 1_000
#: What the record says of its own way, and not of the message.
_OWN = frozenset({TRANSACTION_PREPARED, RECONSUME_TIME, MAX_RECONSUME_TIMES, DELAY, REAL_TOPIC, REAL_QUEUE_ID})
_OF_TIMERS = "TIMER_"


async def give_back(
    session: Session, group: str, reader: QueueReader, message: Message, most_times: int, verdict: Verdict
) -> None:
    """Give back a message without order; raises ClientError."""
    if verdict.dead is not None:
        await bury(session, group, reader.queue, message, verdict.dead)
        return
    if verdict.retry_ms is not None and message.reconsume_times < most_times:
        try:
            timer = {TIMER_DELAY_MS: str(verdict.retry_ms)}
            await _send(session, group, reader.queue, message, most_times, timer)
            return
        except (BrokerRefused, RouteNotFound) as error:
            logger.info("%s is retried at the broker's intervals, it accepts no timer: %s", message.unique_key, error)
    await reader.send_back(message, most_times)


async def bury(session: Session, group: str, queue: MessageQueue, message: Message, reason: str) -> None:
    """Make a dead letter of a message, whatever its attempts; raises ClientError."""
    told = " ".join(reason.replace("\x01", " ").replace("\x02", " ").split())[:_REASON_CHARACTERS]
    origin = message.properties.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
    properties = {DLQ_ORIGIN_TOPIC: as_delivered(message).topic, DLQ_ORIGIN_MESSAGE_ID: origin, DEAD_REASON: told}
    await _send(session, group, queue, message, 0, properties)


async def send_to_retry(session: Session, group: str, queue: MessageQueue, message: Message, most_times: int) -> None:
    """Send the message to the group's retry topic, if it can be on its own broker; raises ClientError."""
    await _send(session, group, queue, message, most_times, {DELAY: str(FIRST_LEVEL + message.reconsume_times)})


async def _send(
    session: Session, group: str, queue: MessageQueue, message: Message, most_times: int, added: dict[str, str]
) -> None:
    topic = f"{RETRY_PREFIX}{group}"
    route = await session.route(topic)
    places = sorted(route.writable(), key=lambda place: place.broker != queue.broker)
    if not places:
        raise BrokerRefused(Answer.NO_PERMISSION, f"Topic {topic} cannot be written to now.")
    properties = {
        name: value
        for name, value in message.properties.items()
        if name not in _OWN and not name.startswith((OWN_PREFIX, _OF_TIMERS))
    }
    properties[ORIGIN_MESSAGE_ID] = properties.get(ORIGIN_MESSAGE_ID) or message.offset_message_id
    properties[RETRY_TOPIC] = as_delivered(message).topic
    properties |= added
    ext = {
        "a": INNER_GROUP, "b": topic, "c": TEMPLATE_TOPIC, "d": "4", "e": str(places[0].queue_id), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": str(message.flag),
        "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        "j": str(message.reconsume_times + 1), "k": "false", "l": str(most_times), "m": "false", "n": places[0].broker,
    }  # fmt: skip
    await session.ask(route.addresses[places[0].broker], Request.SEND_MESSAGE_V2, ext, message.body)
