"""Where groups have got to, and where queues begin and end: 14, 15, 29, 30, 31, 32, 43."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.errors import TopicNotFound
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, json_body, text, whole
from ...rocketmq.frame import Command
from ..connection import Connection, Handler
from ..state import BrokerState


class OffsetProcessor:
    """The requests about offsets of queues and of groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.QUERY_CONSUMER_OFFSET: self._query,
            Request.UPDATE_CONSUMER_OFFSET: self._update,
            Request.GET_MAX_OFFSET: self._max,
            Request.GET_MIN_OFFSET: self._min,
            Request.SEARCH_OFFSET_BY_TIMESTAMP: self._at_time,
            Request.GET_EARLIEST_MSG_STORETIME: self._earliest,
            Request.GET_ALL_CONSUMER_OFFSET: self._all,
        }

    def _queue(self, request: Command) -> tuple[str, int]:
        """Return topic and queue id of a request about one queue that exists."""
        name, queue_id = text(request.ext, "topic"), whole(request.ext, "queueId", low=0, high=INT_MAX)
        topic = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        if queue_id >= max(topic.read_queues, topic.write_queues):
            raise RequestRefused(Answer.INVALID_PARAMETER, f"Topic {name!r} has no queue {queue_id}.")
        return name, queue_id

    def _query(self, _: Connection, request: Command) -> Command:
        """Answer a group's offset. One without begins at 0 while the queue's first message is still there; otherwise it
        is told that nothing is known and applies its own rule."""
        group, topic = text(request.ext, "consumerGroup"), text(request.ext, "topic")
        queue_id = whole(request.ext, "queueId", low=0, high=INT_MAX)
        offset = self._engine.offsets.get(group, topic, queue_id)
        if offset is None:
            if request.ext.get("setZeroIfNotFound", "").lower() == "false":
                raise RequestRefused(
                    Answer.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
                )
            low, high = self._bounds(topic, queue_id)
            if low > 0 or high == 0:
                raise RequestRefused(
                    Answer.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                )
            offset = 0
        return request.answer({"offset": str(offset)})

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        known = self._engine.topics.get(topic)
        if known is None or queue_id >= max(known.read_queues, known.write_queues):
            return 0, 0
        return self._engine.queue_bounds(topic, queue_id)

    def _update(self, _: Connection, request: Command) -> Command:
        group = text(request.ext, "consumerGroup")
        topic, queue_id = self._queue(request)
        if self._engine.groups.get(group) is None:
            raise RequestRefused(Answer.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        if self._state.resets.has(group, (topic, queue_id)):
            return request.answer(remark="Offset has been previously reset")
        self._engine.offsets.commit(group, topic, queue_id, whole(request.ext, "commitOffset", low=0))
        return request.answer()

    def _max(self, _: Connection, request: Command) -> Command:
        return request.answer({"offset": str(self._engine.queue_bounds(*self._queue(request))[1])})

    def _min(self, _: Connection, request: Command) -> Command:
        return request.answer({"offset": str(self._engine.queue_bounds(*self._queue(request))[0])})

    def _at_time(self, _: Connection, request: Command) -> Command:
        topic, queue_id = self._queue(request)
        timestamp_ms = whole(request.ext, "timestamp")
        return request.answer({"offset": str(self._engine.offset_at_time(topic, queue_id, timestamp_ms))})

    def _earliest(self, _: Connection, request: Command) -> Command:
        topic, queue_id = self._queue(request)
        store_ms = self._engine.store_ms(topic, queue_id, self._engine.queue_bounds(topic, queue_id)[0])
        return request.answer({"timestamp": str(-1 if store_ms is None else store_ms)})

    def _all(self, _: Connection, request: Command) -> Command:
        table = {
            f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in queues.items()}
            for (group, topic), queues in self._engine.offsets.all().items()
        }
        return request.answer(body=json_body({"offsetTable": table}))
