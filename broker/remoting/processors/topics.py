"""Topics and what is in them: 17, 215, 21, 351, 202, 300."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.errors import TopicNotFound
from ...engine.store.topics import Topic
from ..codec import Command
from ..codes import Answer, Request
from ..errors import RequestRefused
from ..fields import INT_MAX, text, truth, whole
from ..jsonbody import json_body, message_queue, table_with_object_keys
from ..server import Connection, Handler
from ..state import BrokerState

MOST_QUEUES = 16_384
"""Queues that a topic may be given: requests about a topic name each of them."""


class TopicProcessor:
    """Makes, changes, deletes and describes topics."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_TOPIC: self._put,
            Request.DELETE_TOPIC_IN_BROKER: self._delete,
            Request.GET_ALL_TOPIC_CONFIG: self._all,
            Request.GET_TOPIC_CONFIG: self._one,
            Request.GET_TOPIC_STATS_INFO: self._stats,
            Request.QUERY_TOPIC_CONSUME_BY_WHO: self._consumed_by,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        name = text(ext, "topic")
        read_queues = whole(ext, "readQueueNums", low=1, high=MOST_QUEUES)
        write_queues = whole(ext, "writeQueueNums", low=1, high=MOST_QUEUES)
        known = self._engine.topics.get(name)
        topic = Topic(
            name=name,
            read_queues=read_queues,
            write_queues=write_queues,
            permission=whole(ext, "perm", 6, low=0, high=7),
            filter_type=ext.get("topicFilterType") or "SINGLE_TAG",
            system_flag=whole(ext, "topicSysFlag", 0, low=0, high=INT_MAX),
            order=truth(ext, "order"),
            attributes=changed_attributes(known.attributes if known is not None else {}, ext.get("attributes", "")),
        )
        if topic.is_system:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
        if topic != known:
            self._engine.topics.put(topic)
        return request.answer()

    def _delete(self, _: Connection, request: Command) -> Command:
        topic = self._topic(request)
        if topic.is_system:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The topic[{topic.name}] is conflict with system topic.")
        self._engine.delete_topic(topic.name)
        return request.answer()

    def _topic(self, request: Command) -> Topic:
        name = text(request.ext, "topic")
        topic = self._engine.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def _one(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body(self._topic(request).to_json()))

    def _all(self, _: Connection, request: Command) -> Command:
        topics = self._engine.topics
        every = topics.all()
        start = whole(request.ext, "topicSeq", 0, low=0)
        count = whole(request.ext, "maxTopicNum", len(every), low=0) or len(every)
        body = {
            "dataVersion": {"counter": topics.data_version, "stateVersion": 0, "timestamp": topics.changed_ms},
            "topicConfigTable": {topic.name: topic.to_json() for topic in every[start : start + count]},
        }
        return request.answer({"totalTopicNum": str(len(every))}, json_body(body))

    def _stats(self, _: Connection, request: Command) -> Command:
        topic = self._topic(request)
        rows: list[tuple[object, object]] = []
        total = 0
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            low, high = self._engine.queue_bounds(topic.name, queue_id)
            last_ms = self._engine.store_ms(topic.name, queue_id, high - 1) if high > low else None
            total += high
            rows.append(
                (
                    message_queue(self._state.config.broker_name, topic.name, queue_id),
                    {"lastUpdateTimestamp": last_ms or 0, "maxOffset": high, "minOffset": low},
                )
            )
        rate = self._state.rates.per_second(("put", topic.name), total, self._state.clock())
        return request.answer(body=json_body({"offsetTable": table_with_object_keys(rows), "topicPutTps": rate}))

    def _consumed_by(self, _: Connection, request: Command) -> Command:
        topic = text(request.ext, "topic")
        groups = set(self._engine.offsets.groups_of_topic(topic)) | set(self._state.clients.groups_of_topic(topic))
        return request.answer(body=json_body({"groupList": sorted(groups)}))


def changed_attributes(known: Mapping[str, str], changes: str) -> dict[str, str]:
    """Attributes after changes of the form `+name=value,-name` (AttributeParser)."""
    attributes = dict(known)
    for change in filter(None, (part.strip() for part in changes.split(","))):
        sign, (name, _, value) = change[0], change[1:].partition("=")
        if sign == "+" and name and value:
            attributes[name] = value
        elif sign == "-" and name and not value:
            attributes.pop(name, None)
        else:
            raise RequestRefused(
                Answer.INVALID_PARAMETER, f"The attribute change {change[:80]!r} is neither +name=value nor -name."
            )
    return attributes
