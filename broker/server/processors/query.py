"""Finding messages and looking into queues: 12, 33, 321."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...engine.errors import CorruptRecord, RecordNotFound
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, LONG_MAX, json_body, text, whole
from ...rocketmq.frame import MAX_FRAME_BYTES, Command
from ...rocketmq.subscription import subscription_body
from ..connection import Connection, Handler
from ..state import BrokerState

logger = logging.getLogger(__name__)

#: index type -> what stands before the key in the index
_INDEXED_AS = {"": "", "K": "", "U": "", "T": "T#"}

MOST_FOUND = 256
"""maxMsgsNumBatch, 64 in RocketMQ, where clients ask for no more; who passes over others' messages asks for more."""

MOST_ENTRIES = 10_000
MOST_BYTES = MAX_FRAME_BYTES - 65_536
"""Java clients read no larger frame."""


class QueryProcessor:
    """The requests that read single messages and queue entries."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.QUERY_MESSAGE: self._by_key,
            Request.VIEW_MESSAGE_BY_ID: self._by_position,
            Request.QUERY_CONSUME_QUEUE: self._entries,
        }

    def _by_key(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        prefix = _INDEXED_AS.get(ext.get("indexType", ""))
        if prefix is None:
            raise RequestRefused(
                Answer.INVALID_PARAMETER, "Messages are found by key (K), unique id (U) or tag (T) only."
            )
        positions = self._engine.find(
            text(ext, "topic"),
            prefix + text(ext, "key"),
            begin_ms=whole(ext, "beginTimestamp", 0),
            end_ms=whole(ext, "endTimestamp", LONG_MAX),
            max_count=min(whole(ext, "maxNum", MOST_FOUND, low=1, high=INT_MAX), MOST_FOUND),
            now_ms=self._state.clock(),
        )
        records = self._records(sorted(positions))
        if not records:
            return request.answer(
                {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"},
                code=Answer.QUERY_NOT_FOUND,
                remark="can not find message, maybe time range not correct",
            )
        end = self._engine.health().log_end_position
        ext = {"indexLastUpdateTimestamp": str(self._state.clock()), "indexLastUpdatePhyoffset": str(end)}
        return request.answer(ext, b"".join(records))

    def _records(self, positions: list[int]) -> list[bytes]:
        """Return the records there; a damaged one is logged and left out, it must not hide the others."""
        records: list[bytes] = []
        size = 0
        for position in positions:
            try:
                record = self._engine.record_at(position)
            except (RecordNotFound, CorruptRecord) as error:
                logger.warning("a message found by key is left out: %s", error)
                continue
            size += len(record)
            if size > MOST_BYTES and records:
                break
            records.append(record)
        return records

    def _by_position(self, _: Connection, request: Command) -> Command:
        return request.answer(body=self._engine.look_at(whole(request.ext, "offset", low=0)))

    def _entries(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        name, queue_id = text(ext, "topic"), whole(ext, "queueId", low=0, high=INT_MAX)
        index, count = whole(ext, "index", low=0), whole(ext, "count", low=0, high=INT_MAX)
        topic = self._engine.topics.get(name)
        if topic is None or queue_id >= max(topic.read_queues, topic.write_queues):
            raise RequestRefused(Answer.SYSTEM_ERROR, f"{queue_id}@{name} is not exist!")
        low, high = self._engine.queue_bounds(name, queue_id)
        entries = self._engine.entries(name, queue_id, max(index, low), min(count, MOST_ENTRIES))
        rows = [
            {"eval": False, "physicOffset": entry.position, "physicSize": entry.size, "tagsCode": entry.tags_code}
            for entry in entries
        ]
        body: dict[str, object] = {"maxQueueIndex": high, "minQueueIndex": low, "queueData": rows}
        if ext.get("consumerGroup"):
            body |= self._wanted(ext["consumerGroup"], name)
        return request.answer(body=json_body(body))

    def _wanted(self, group: str, topic: str) -> dict[str, object]:
        """Return what a group wants of a topic, for whoever wonders why it gets no message."""
        consumers = self._state.clients.consumers(group)
        subscription = consumers.subscriptions.get(topic) if consumers is not None else None
        if subscription is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        return {"filterData": "null", "subscriptionData": subscription_body(subscription)}
