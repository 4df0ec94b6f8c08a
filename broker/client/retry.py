"""Giving up a message that was handled in order too often (ConsumeMessageOrderlyService.sendMessageBack of 5.5.0).

It is sent, not copied by the broker as request 36 does, so that it has the attempts that only this client counted.
Brokers make a dead letter of it while the group holds locks; after that it is delivered again with a delay.
"""

from __future__ import annotations

import time

from ..rocketmq.codes import Answer, Request
from ..rocketmq.message import Message
from .errors import BrokerRefused
from .reader import as_delivered
from .session import Session
from .types import MessageQueue

#: The level of the first delay (as for messages that are sent back).
FIRST_LEVEL = 3
#: CLIENT_INNER_PRODUCER_GROUP, which the official client sends such messages for.
INNER_GROUP = "CLIENT_INNER_PRODUCER"
_OWN = ("TRAN_MSG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES")


async def send_to_retry(session: Session, group: str, queue: MessageQueue, message: Message, most_times: int) -> None:
    """Send the message to the group's retry topic, if it can be on its own broker; raises ClientError."""
    topic = f"%RETRY%{group}"
    route = await session.route(topic)
    places = sorted(route.writable(), key=lambda place: place.broker != queue.broker)
    if not places:
        raise BrokerRefused(Answer.NO_PERMISSION, f"Topic {topic} cannot be written now.")
    properties = {name: value for name, value in message.properties.items() if name not in _OWN}
    properties["ORIGIN_MESSAGE_ID"] = properties.get("ORIGIN_MESSAGE_ID") or message.offset_message_id
    properties["RETRY_TOPIC"] = as_delivered(message).topic
    properties["DELAY"] = str(FIRST_LEVEL + message.reconsume_times)
    ext = {
        "a": INNER_GROUP, "b": topic, "c": "TBW102", "d": "4", "e": str(places[0].queue_id), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": str(message.flag),
        "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        "j": str(message.reconsume_times + 1), "k": "false", "l": str(most_times), "m": "false", "n": places[0].broker,
    }  # fmt: skip
    await session.ask(route.addresses[places[0].broker], Request.SEND_MESSAGE_V2, ext, message.body)
