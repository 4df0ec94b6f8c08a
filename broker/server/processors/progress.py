"""How far groups are: 208 of one, 317 of all, 303 in time, 308 the least of all; what they read: 343, 345."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...engine.errors import TopicNotFound
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body, message_queue, table_with_object_keys, text, truth
from ...rocketmq.frame import Command
from ...rocketmq.subscription import subscription_body
from ..connection import Connection, Handler
from ..state import BrokerState
from ..statistics import GROUP_GET_NUMS

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
        topic = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
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
