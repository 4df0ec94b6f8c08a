"""Setting a group back or forward: 222 by time or to an offset, 314 to where another group is."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.errors import TopicNotFound
from ...engine.tables.topics import Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, json_body, message_queue, table_with_object_keys, text, truth, whole
from ...rocketmq.frame import Command
from ..connection import Connection, Handler
from ..state import BrokerState


class ResetProcessor:
    """The requests that set offsets and have consumers that are at work go on there."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
            Request.CLONE_GROUP_OFFSET: self._clone,
        }

    def _reset(self, _: Connection, request: Command) -> Command:
        """Reset one queue (`queueId` of 0 or more) or all; to `offset`, or to the first message stored at `timestamp`
        or later, a negative one meaning the end."""
        ext = request.ext
        name, group = text(ext, "topic"), text(ext, "group")
        topic = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        if self._engine.groups.get(group) is None:
            raise RequestRefused(Answer.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        queue_id = whole(ext, "queueId", -1, low=-INT_MAX - 1, high=INT_MAX)
        timestamp_ms = whole(ext, "timestamp")
        if queue_id < 0:
            offsets = {one: self._at_time(name, one, timestamp_ms) for one in range(topic.read_queues)}
        else:
            offsets = {queue_id: self._wanted(topic, queue_id, whole(ext, "offset", -1), timestamp_ms)}
        self._apply(group, name, offsets)
        rows = [(message_queue(self._state.config.broker_name, name, one), at) for one, at in offsets.items()]
        return request.answer(body=json_body({"offsetTable": table_with_object_keys(rows)}))

    def _wanted(self, topic: Topic, queue_id: int, offset: int, timestamp_ms: int) -> int:
        """Return the offset meant for one queue; refused if it has no such offset."""
        if queue_id >= topic.read_queues:
            remark = f"Topic {topic.name!r} has no queue {queue_id} that can be read."
            raise RequestRefused(Answer.INVALID_PARAMETER, remark)
        if offset == -1:
            return self._at_time(topic.name, queue_id, timestamp_ms)
        low, high = self._engine.queue_bounds(topic.name, queue_id)
        if not low <= offset <= high:
            remark = f"Target offset {offset} not in consume queue range [{low}-{high}]"
            raise RequestRefused(Answer.SYSTEM_ERROR, remark)
        return offset

    def _at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0:
            return self._engine.queue_bounds(topic, queue_id)[1]
        return self._engine.offset_at_time(topic, queue_id, timestamp_ms)

    def _apply(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Note the offsets; consumers at work are told with their next pull, those that wait at once."""
        state = self._state
        self._engine.offsets.check_room(group, {topic: offsets})
        is_consumed = state.clients.consumers(group) is not None
        for queue_id, offset in offsets.items():
            self._engine.offsets.reset(group, topic, queue_id, offset)
            if is_consumed:
                state.resets.set(group, (topic, queue_id), offset)
        if is_consumed:
            state.waiting.wake({(topic, queue_id) for queue_id in offsets})

    def _clone(self, _: Connection, request: Command) -> Command:
        """Copy offsets of one topic, or of all that the source group has offsets on; not of those that its consumers
        have given up, unless it is said to be offline."""
        ext = request.ext
        source, target = text(ext, "srcGroup"), text(ext, "destGroup")
        consumers = None if truth(ext, "offline") else self._state.clients.consumers(source)
        read = consumers.subscriptions if consumers is not None else None
        meant = {
            name: offsets
            for name, offsets in self._engine.offsets.of_group(source).items()
            if ext.get("topic") in (None, "", name) and (not read or name in read)
            if self._engine.topics.get(name) is not None
        }
        self._engine.offsets.check_room(target, meant)
        for name, offsets in meant.items():
            self._apply(target, name, offsets)
        return request.answer()
