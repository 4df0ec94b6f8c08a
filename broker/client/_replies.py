"""Request and reply over topics: a message that is answered by whoever consumes it.

The asker names himself and his question in properties; the answer goes to the cluster's reply topic, and the broker
hands it over (request 326) on the connection over which the asker's heartbeats come.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import RequestRefused
from ..rocketmq.fields import whole
from ..rocketmq.frame import Command
from ..rocketmq.properties import CLUSTER, CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL, MESSAGE_TYPE
from ..rocketmq.topics import TEMPLATE_TOPIC, reply_topic
from . import names
from ._membership import Heartbeat
from ._outgoing import Outgoing, prepare
from ._session import Deadline, Session
from ._types import Message
from .errors import BrokerRefused, ClientError, InvalidArgument

logger = logging.getLogger(__name__)

MOST_WAITING = 100_000
#: How long a question waits until other brokers know its asker: one that is away must not hold it up.
OTHERS_WAIT_S = 1.0


class Replies:
    """The questions of one producer that have no answer yet."""

    def __init__(self, session: Session, heartbeat: Heartbeat) -> None:
        self._session = session
        self._heartbeat = heartbeat
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._known: set[str] = set()
        #: others that were told, or could not be at that time
        self._tried: set[str] = set()
        session.register(Request.PUSH_REPLY_MESSAGE_TO_CLIENT, self._came)
        session.on_lost(self._known.discard)

    async def introduce(self, address: str) -> None:
        """Make sure that brokers know where answers are to go: who answers sends to any broker of the cluster.

        Raises BrokerUnreachable, Timeout if that of the question cannot be told; others hear of it with a heartbeat.
        """
        others = [asyncio.ensure_future(self._meet_other(each)) for each in await self._new_others(address)]
        await self._meet(address)
        if others:
            await asyncio.wait(others, timeout=OTHERS_WAIT_S)

    async def _new_others(self, address: str) -> list[str]:
        """Brokers that were not told yet, beside this one."""
        try:
            found = {broker.address for broker in await self._session.masters()} - self._tried - {address}
        except ClientError:
            return []
        self._tried |= found
        return sorted(found)

    async def _meet_other(self, address: str) -> None:
        with suppress(ClientError):
            await self._meet(address)

    async def _meet(self, address: str) -> None:
        if address not in self._known:
            self._heartbeat.reach([address])
            await self._heartbeat.beat(address)
            self._known.add(address)

    def ask(self, message: Outgoing, timeout_ms: int) -> tuple[Outgoing, asyncio.Future[Message]]:
        """The message with what makes it a question, and its answer to come."""
        if len(self._waiting) >= MOST_WAITING:
            raise InvalidArgument(f"{MOST_WAITING:,} questions wait for their answers already.", field="topic")
        correlation = secrets.token_hex(16)
        added = {
            CORRELATION_ID: correlation,
            MESSAGE_REPLY_TO_CLIENT: self._heartbeat.client_id,
            MESSAGE_TTL: str(timeout_ms),
        }
        properties = message.properties + "".join(f"{name}\x01{value}\x02" for name, value in added.items())
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(correlation, None))
        return msgspec.structs.replace(message, properties=properties), answer

    def _came(self, _: str, request: Command) -> Command:
        try:
            message = _message(request)
        except (RequestRefused, ValueError) as error:
            logger.warning("an answer cannot be read: %s", error)
            return request.answer(code=Answer.SYSTEM_ERROR, remark="the reply message cannot be read")
        waiting = self._waiting.get(message.properties.get(CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            # its asker has given up; the broker and who answered need not know
            logger.info("an answer came that nobody waits for any more")
        else:
            waiting.set_result(message)
        return request.answer()


async def answer_of(answer: asyncio.Future[Message], topic: str, deadline: Deadline) -> Message:
    """Wait for an answer. Raises Timeout."""
    return await deadline.of(answer, f"an answer of the consumers of {topic}")


#: What an answer says as its question does.
_HANDED_BACK = (CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL)


def reply_to(question: Message, body: bytes | str, properties: Mapping[str, str] | None) -> tuple[str, Outgoing]:
    """The topic that an answer goes to, and the answer. Raises InvalidArgument if nobody asked."""
    about = question.properties
    missing = [name for name in (CLUSTER, CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT) if not about.get(name)]
    if missing:
        raise InvalidArgument(f"The message is no question: it lacks {' and '.join(missing)}.", field="question")
    message = prepare(body, properties=properties)
    added = {
        MESSAGE_TYPE: "reply",
        **{name: about[name] for name in _HANDED_BACK if name in about},
    }
    stored = message.properties + "".join(f"{name}\x01{value}\x02" for name, value in added.items())
    return reply_topic(about[CLUSTER]), Outgoing(message.body, stored, message.unique_id)


async def send_reply(session: Session, group: str, topic: str, message: Outgoing, deadline: Deadline) -> None:
    """Send an answer. Raises BrokerRefused if its asker is gone."""
    names.check_topic(topic)
    route = await deadline.of(session.route(topic), f"the route of topic {topic} from {' or '.join(session.namesrv)}")
    queue = next(iter(route.writable()), None)
    if queue is None:
        raise BrokerRefused(Answer.NO_PERMISSION, f"No broker lets topic {topic} be written now.")
    ext = {
        "a": group, "b": topic, "c": TEMPLATE_TOPIC, "d": "4", "e": str(queue.queue_id), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": message.properties, "j": "0", "k": "false", "m": "false",
        "n": queue.broker,
    }  # fmt: skip
    address = route.addresses[queue.broker]
    await session.ask(address, Request.SEND_REPLY_MESSAGE_V2, ext, message.body, timeout_ms=deadline.left_ms)


def _message(request: Command) -> Message:
    """The message that a broker pushes (ReplyMessageRequestHeader)."""
    ext = request.ext
    pairs = (part.partition("\x01") for part in ext.get("properties", "").split("\x02") if part)
    return Message(
        ext.get("topic", ""), whole(ext, "queueId", 0), 0, 0, 0, request.body,
        {name: value for name, _, value in pairs}, whole(ext, "flag", 0), whole(ext, "sysFlag", 0),
        whole(ext, "bornTimestamp", 0), _host(ext.get("bornHost", "")), whole(ext, "storeTimestamp", 0),
        _host(ext.get("storeHost", "")), whole(ext, "reconsumeTimes", 0), 0,
    )  # fmt: skip


def _host(text: str) -> tuple[str, int]:
    host, _, port = text.lstrip("/").rpartition(":")
    return host, int(port) if port.isdigit() else 0
