"""Queues that orderly consumers hold: 41, 42."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...rocketmq.codes import Request
from ...rocketmq.fields import body_as, json_body, message_queue
from ...rocketmq.frame import Command
from ...rocketmq.topics import check_group_name
from ...rocketmq.values import check_text
from ..clients import LONGEST_CLIENT_ID
from ..connection import Connection, Handler
from ..state import BrokerState


class QueueBody(msgspec.Struct, rename="camel"):
    """A queue as RocketMQ names one (MessageQueue)."""

    topic: str
    queue_id: int
    broker_name: str = ""


class LockBody(msgspec.Struct, rename="camel"):
    """The body of requests 41 and 42 (LockBatchRequestBody, UnlockBatchRequestBody)."""

    consumer_group: str
    client_id: str
    mq_set: list[QueueBody] = []

    def queues(self, broker_name: str) -> list[tuple[str, int]]:
        """Return the queues of this broker."""
        return [(queue.topic, queue.queue_id) for queue in self.mq_set if queue.broker_name in {"", broker_name}]


class LockProcessor:
    """The requests that lock queues for one consumer and unlock them; only queues that exist."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._broker_name = state.config.broker_name

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.LOCK_BATCH_MQ: self._lock, Request.UNLOCK_BATCH_MQ: self._unlock}

    def _lock(self, _: Connection, request: Command) -> Command:
        body = body_as(LockBody, request.body)
        check_group_name(body.consumer_group)
        check_text("The client id", body.client_id, most=LONGEST_CLIENT_ID)
        queues = [queue for queue in body.queues(self._broker_name) if self._exists(*queue)]
        granted = self._state.locks.lock(body.consumer_group, body.client_id, queues, self._state.live_clock())
        held = [message_queue(self._broker_name, topic, queue_id) for topic, queue_id in granted]
        return request.answer(body=json_body({"lockOKMQSet": held}))

    def _unlock(self, _: Connection, request: Command) -> Command:
        body = body_as(LockBody, request.body)
        self._state.locks.unlock(body.consumer_group, body.client_id, body.queues(self._broker_name))
        return request.answer()

    def _exists(self, topic: str, queue_id: int) -> bool:
        known = self._state.engine.topics.get(topic)
        return known is not None and 0 <= queue_id < known.read_queues
