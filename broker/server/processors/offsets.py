"""The progress of groups, the ends of queues, and setting groups back or forward.

- `OffsetProcessor`: offsets of groups and queues (14, 15, 29, 30, 31, 32, 43);
- `ProgressProcessor`: how far groups are, 208 of one, 317 of all, 303 in time, 308 the least of all; what they read:
  343, 345;
- `ResetProcessor`: 222 by time or to an offset, 314 to where another group is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...engine.errors import TopicNotFound
from ...engine.tables.topics import Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, json_body, message_queue, table_with_object_keys, text, truth, whole
from ...rocketmq.frame import Command
from ...rocketmq.subscription import subscription_body
from ..connection import Connection, Handler
from ..state import BrokerState
from ..statistics import GROUP_GET_NUMS


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


MOST_ROWS = 200_000
"""Queues in one answer: Java clients read no frame above 16 MiB."""

_LONG_MAX = (1 << 63) - 1


class ProgressProcessor:
    """The requests that compare what groups have consumed with what there is."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine
        self._broker_name = state.config.broker_name

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_CONSUME_STATS: self._of_group,
            Request.GET_BROKER_CONSUME_STATS: self._of_all,
            Request.QUERY_CONSUME_TIME_SPAN: self._time_span,
            Request.QUERY_CORRECTION_OFFSET: self._least,
            Request.QUERY_TOPICS_BY_CONSUMER: self._topics,
            Request.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
        }

    def _of_group(self, _: Connection, request: Command) -> Command:
        """Answer for the topics asked for (`topicList`, joined by `;`), else for those that the group has offsets
        on."""
        group, only = text(request.ext, "consumerGroup"), request.ext.get("topic")
        asked = [name for name in request.ext.get("topicList", "").split(";") if name]
        if asked:
            topics = asked
        else:
            known = [only] if only else sorted(self._engine.offsets.of_group(group))
            topics = [topic for topic in known if self._is_read(group, topic)]
        rows = [row for topic in topics for row in self._rows(group, topic)]
        rate = self._rate(group, topics)
        return request.answer(body=json_body({"consumeTps": rate, "offsetTable": table_with_object_keys(rows)}))

    def _is_read(self, group: str, topic: str) -> bool:
        """Tell whether a group reads a topic, which its consumers, if there are any, have not given up."""
        consumers = self._state.clients.consumers(group)
        return consumers is None or not consumers.subscriptions or topic in consumers.subscriptions

    def _rows(self, group: str, topic: str) -> Iterable[tuple[object, dict[str, int]]]:
        known = self._engine.topics.get(topic)
        committed = self._engine.offsets.of_topic(group, topic)
        for queue_id in range(known.read_queues if known is not None else 0):
            offset = committed.get(queue_id, 0)
            last_ms = self._engine.store_ms(topic, queue_id, offset - 1) if offset > 0 else None
            given_out = self._engine.pops.given_out_to(group, topic, queue_id)
            progress = {
                "brokerOffset": self._engine.queue_bounds(topic, queue_id)[1],
                "consumerOffset": offset,
                "lastTimestamp": last_ms or 0,
                # beyond it if some of what was popped is not over yet
                "pullOffset": max(offset, given_out or 0),
            }
            yield message_queue(self._broker_name, topic, queue_id), progress

    def _rate(self, group: str, topics: Iterable[str]) -> float:
        now_ms, statistics = self._state.clock(), self._state.statistics
        rates = (statistics.per_second(GROUP_GET_NUMS, f"{topic}@{group}", now_ms) for topic in topics)
        return sum(rates, start=0.0)

    def _of_all(self, _: Connection, request: Command) -> Command:
        is_order = truth(request.ext, "isOrder")
        stats: list[dict[str, list[object]]] = []
        behind = total = 0
        for group in self._engine.groups.all():
            of_group: list[object] = []
            for topic in sorted(self._engine.offsets.of_group(group.name)):
                known = self._engine.topics.get(topic)
                if known is None or (is_order and not known.order) or not self._is_read(group.name, topic):
                    continue
                rows = list(self._rows(group.name, topic))
                total += len(rows)
                if total > MOST_ROWS:
                    remark = f"There are more than {MOST_ROWS:,} queues to tell of; ask for one group (208)."
                    raise RequestRefused(Answer.SYSTEM_ERROR, remark)
                behind += sum(row["brokerOffset"] - row["consumerOffset"] for _, row in rows)
                table = {"consumeTps": self._rate(group.name, [topic]), "offsetTable": table_with_object_keys(rows)}
                of_group.append(table)
            stats.append({group.name: of_group})
        body = {
            "brokerAddr": self._state.address,
            "consumeStatsList": stats,
            "totalDiff": behind,
            "totalInflightDiff": 0,
        }
        return request.answer(body=json_body(body))

    def _time_span(self, _: Connection, request: Command) -> Command:
        """Answer from when to when each queue holds messages, and of what time those are that the group is at."""
        name, group = text(request.ext, "topic"), text(request.ext, "group")
        topic = self._state.topic(name)
        committed = self._engine.offsets.of_topic(group, name)
        now_ms, stored_ms = self._state.clock(), self._engine.store_ms
        spans = []
        for queue_id in range(topic.write_queues):
            low, high = self._engine.queue_bounds(name, queue_id)
            offset = committed.get(queue_id, 0)
            first_ms = stored_ms(name, queue_id, low) if high > low else None
            consumed_ms = stored_ms(name, queue_id, offset - 1) if offset > 0 else first_ms
            next_ms = stored_ms(name, queue_id, max(offset, low)) if offset < high else None
            last_ms = stored_ms(name, queue_id, high - 1) if high > low else None
            spans.append(
                {
                    "consumeTimeStamp": _or_none(consumed_ms),
                    "delayTime": max(0, now_ms - next_ms) if next_ms is not None else 0,
                    "maxTimeStamp": _or_none(last_ms),
                    "messageQueue": message_queue(self._broker_name, name, queue_id),
                    "minTimeStamp": _or_none(first_ms),
                }
            )
        return request.answer(body=json_body({"consumeTimeSpanSet": spans}))

    def _least(self, _: Connection, request: Command) -> Command:
        """Return the lowest offset that any group has on each queue of a topic
        (ConsumerOffsetManager.queryMinOffset)."""
        topic, compared = text(request.ext, "topic"), text(request.ext, "compareGroup")
        left_out = set(request.ext.get("filterGroups", "").split(","))
        least: dict[int, int] = {}
        for group in self._engine.offsets.groups_of_topic(topic):
            if group not in left_out:
                for queue_id, offset in self._engine.offsets.of_topic(group, topic).items():
                    least[queue_id] = min(offset, least.get(queue_id, _LONG_MAX))
        for queue_id, offset in self._engine.offsets.of_topic(compared, topic).items():
            if least.get(queue_id, 0) > offset:
                least[queue_id] = _LONG_MAX
        body = {"correctionOffsets": {str(queue_id): offset for queue_id, offset in least.items()}}
        return request.answer(body=json_body(body))

    def _topics(self, _: Connection, request: Command) -> Command:
        topics = sorted(self._engine.offsets.of_group(text(request.ext, "group")))
        return request.answer(body=json_body({"brokerAddr": self._state.address, "topicList": topics}))

    def _subscription(self, _: Connection, request: Command) -> Command:
        group, topic = text(request.ext, "group"), text(request.ext, "topic")
        consumers = self._state.clients.consumers(group)
        known = consumers.subscriptions.get(topic) if consumers is not None else None
        body: dict[str, object] = {"group": group, "topic": topic}
        if known is not None:
            body["subscriptionData"] = subscription_body(known)
        return request.answer(body=json_body(body))


def _or_none(moment_ms: int | None) -> int:
    """Return the moment, or RocketMQ's -1 where there is no message."""
    return -1 if moment_ms is None else moment_ms


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
        topic = self._state.topic(name)
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
