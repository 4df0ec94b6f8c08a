"""Topics and what is in them: 17, 18, 21, 351, 202, 300, 305."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...engine.errors import TopicNotFound
from ...engine.tables.topics import Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import body_as, json_body, message_queue, table_with_object_keys, text, truth, whole
from ...rocketmq.frame import Command
from ...rocketmq.topics import SYSTEM_TOPICS
from ..connection import Connection, Handler
from ..state import BrokerState
from ..statistics import TOPIC_PUT_NUMS

MOST_TOPICS_AT_ONCE = 10_000


class TopicBody(msgspec.Struct, rename="camel"):
    """TopicConfig as an administrator gives it: attributes are changes, `{"+name": "value", "-name": ""}`."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class TopicListBody(msgspec.Struct, rename="camel"):
    """The body of request 18 (CreateTopicListRequestBody)."""

    topic_config_list: list[TopicBody] = []


class TopicProcessor:
    """The requests that make, change, delete and describe topics."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_TOPIC: self._put,
            Request.UPDATE_AND_CREATE_TOPIC_LIST: self._put_list,
            Request.GET_ALL_TOPIC_CONFIG: self._all,
            Request.GET_TOPIC_CONFIG: self._one,
            Request.GET_TOPIC_STATS_INFO: self._stats,
            Request.QUERY_TOPIC_CONSUME_BY_WHO: self._consumed_by,
            Request.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system_topics,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        ext = request.ext
        body = TopicBody(
            text(ext, "topic"),
            whole(ext, "readQueueNums"),
            whole(ext, "writeQueueNums"),
            whole(ext, "perm", 6),
            ext.get("topicFilterType") or "SINGLE_TAG",
            whole(ext, "topicSysFlag", 0),
            truth(ext, "order"),
        )
        self._put_all([self._meant(body, ext.get("attributes", ""))])
        return request.answer()

    def _put_list(self, _: Connection, request: Command) -> Command:
        """Make or change all topics of a list, or none."""
        wanted = body_as(TopicListBody, request.body).topic_config_list
        if not 0 < len(wanted) <= MOST_TOPICS_AT_ONCE:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A list holds 1 to {MOST_TOPICS_AT_ONCE:,} topics.")
        changes = (
            ",".join(f"{name}={value}" if value else name for name, value in one.attributes.items()) for one in wanted
        )
        self._put_all([self._meant(one, change) for one, change in zip(wanted, changes, strict=True)])
        return request.answer()

    def _meant(self, body: TopicBody, attribute_changes: str) -> Topic:
        """Return the topic as it shall be; refused if it may not be so."""
        known = self._engine.topics.get(body.topic_name)
        topic = Topic(
            name=body.topic_name,
            read_queues=body.read_queue_nums,
            write_queues=body.write_queue_nums,
            permission=body.perm,
            filter_type=body.topic_filter_type,
            system_flag=body.topic_sys_flag,
            order=body.order,
            attributes=changed_attributes(known.attributes if known is not None else {}, attribute_changes),
        )
        if topic.is_system:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The topic[{topic.name}] is conflict with system topic.")
        return topic

    def _put_all(self, topics: list[Topic]) -> None:
        changed = [topic for topic in topics if topic != self._engine.topics.get(topic.name)]
        if changed:
            self._engine.topics.put_many(changed)

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
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            low, high = self._engine.queue_bounds(topic.name, queue_id)
            last_ms = self._engine.store_ms(topic.name, queue_id, high - 1) if high > low else None
            rows.append(
                (
                    message_queue(self._state.config.broker_name, topic.name, queue_id),
                    {"lastUpdateTimestamp": last_ms or 0, "maxOffset": high, "minOffset": low},
                )
            )
        rate = self._state.statistics.per_second(TOPIC_PUT_NUMS, topic.name, self._state.clock())
        return request.answer(body=json_body({"offsetTable": table_with_object_keys(rows), "topicPutTps": rate}))

    def _consumed_by(self, _: Connection, request: Command) -> Command:
        topic = text(request.ext, "topic")
        groups = set(self._engine.offsets.groups_of_topic(topic)) | set(self._state.clients.groups_of_topic(topic))
        return request.answer(body=json_body({"groupList": sorted(groups)}))

    def _system_topics(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body({"topicList": sorted(SYSTEM_TOPICS)}))


def changed_attributes(known: Mapping[str, str], changes: str) -> dict[str, str]:
    """Return attributes after changes of the form `+name=value,-name` (AttributeParser)."""
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
