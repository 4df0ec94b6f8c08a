"""Request and reply: the answer to a message goes back to the client that asked (324, 325; 326 to that client).

Whoever asks sends a message like any other, with properties that name him and his question (REPLY_TO_CLIENT,
CORRELATION_ID, TTL). Who consumes it sends the answer to the cluster's reply topic; the broker hands it to the asker at
once and keeps it in that topic, as RocketMQ does. An answer that its asker did not take is refused, and not kept.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...engine.errors import BrokerError
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.frame import Command
from ...rocketmq.properties import (
    CLUSTER,
    MESSAGE_REPLY_TO_CLIENT,
    PUSH_REPLY_TIME,
    format_properties,
    parse_properties,
)
from ...rocketmq.sends import SendHeader, read_send_header
from ...rocketmq.topics import TEMPLATE_TOPIC, reply_topic
from ..connection import Connection, Handler
from ..state import BrokerState
from .send import SendProcessor

logger = logging.getLogger(__name__)


CLIENT_TIMEOUT_MS = 3_000
"""As long as the asker has to take it."""


class ReplyProcessor:
    """The requests that hand replies to those who wait for them."""

    def __init__(self, state: BrokerState, send: SendProcessor) -> None:
        self._state = state
        self._send = send

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.SEND_REPLY_MESSAGE: self._reply, Request.SEND_REPLY_MESSAGE_V2: self._reply}

    def _reply(self, connection: Connection, request: Command) -> None:
        is_v1 = request.code == Request.SEND_REPLY_MESSAGE and "b" not in request.ext
        header = read_send_header(request.ext, is_v1=is_v1)
        properties = parse_properties(header.properties)
        client_id = properties.get(MESSAGE_REPLY_TO_CLIENT)
        if not client_id:
            raise RequestRefused(
                Answer.SYSTEM_ERROR, f"{MESSAGE_REPLY_TO_CLIENT} is missing: nobody is named who asked."
            )
        asker = self._state.clients.producer(client_id)
        if asker is None:
            remark = f"push reply message to {client_id} fail, channel of {client_id} not found."
            raise RequestRefused(Answer.SYSTEM_ERROR, remark)

        def answered(answer: Command | None) -> None:
            if answer is not None and answer.code == Answer.SUCCESS:
                self._keep(connection, request, header)
            elif not request.is_oneway:
                remark = f"push reply message to {client_id} fail."
                connection.send(request.answer(code=Answer.SYSTEM_ERROR, remark=remark))

        ext = self._pushed(connection, header, properties)
        push = Request.PUSH_REPLY_MESSAGE_TO_CLIENT
        self._state.calls.ask(asker.connection, push, ext, request.body, CLIENT_TIMEOUT_MS, answered)

    def _pushed(self, connection: Connection, header: SendHeader, properties: dict[str, str]) -> dict[str, str]:
        """Return the fields of the pushed reply (ReplyMessageRequestHeader)."""
        now_ms, config = self._state.clock(), self._state.config
        properties |= {PUSH_REPLY_TIME: str(now_ms), CLUSTER: config.cluster_name}
        return {
            "producerGroup": header.group,
            "topic": header.topic,
            "defaultTopic": TEMPLATE_TOPIC,
            "defaultTopicQueueNums": str(header.default_queues),
            "queueId": str(header.queue_id),
            "sysFlag": str(header.sys_flag),
            "bornTimestamp": str(header.born_ms),
            "flag": str(header.flag),
            "properties": format_properties(properties).decode(errors="surrogateescape"),
            "reconsumeTimes": str(header.reconsume_times),
            "unitMode": "false",
            "bornHost": connection.address,
            "storeHost": self._state.address,
            "storeTimestamp": str(now_ms),
        }

    def _keep(self, connection: Connection, request: Command, header: SendHeader) -> None:
        """Keep the reply in its topic. The asker has it already: that it could not be kept is no failure of the
        reply."""
        try:
            if header.topic == reply_topic(self._state.config.cluster_name):
                self._state.engine.topics.ensure(header.topic, 1)
            self._send.take(connection, request, header)
        except (RequestRefused, BrokerError) as error:
            logger.warning("a reply was handed over but not kept: %s", error)
            if not request.is_oneway:
                ext = {"msgId": "", "queueId": str(header.queue_id), "queueOffset": "0"}
                connection.send(request.answer(ext))
        else:
            self._state.kick()
