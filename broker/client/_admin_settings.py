"""Parts of the asynchronous admin: settings of topics and groups, how far groups are, and traces.

- `SettingQuestions` reads and changes settings. Fields are RocketMQ's own; what is not named stays as it is.
- `ProgressQuestions` looks for places in queues, and moves groups to them.
- `TraceQuestions` reads what clients with tracing have told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.topics import TEMPLATE_TOPIC, TRACE_TOPIC
from ..rocketmq.traces import Trace, read_traces
from . import names
from ._admin_base import Questions
from ._answers import Fields, fields, read_object
from ._types import Message
from .errors import BadAnswer, BrokerRefused, NotSupported, RouteNotFound

_NEW_TOPIC: Fields = {
    "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
    "order": False, "attributes": {},
}  # fmt: skip
_NEW_GROUP: Fields = {
    "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
    "consumeMessageOrderly": False, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True, "groupSysFlag": 0,
    "consumeTimeoutMinute": 15,
}  # fmt: skip

_ABSENT = (Answer.TOPIC_NOT_EXIST, Answer.SUBSCRIPTION_GROUP_NOT_EXIST)


class SettingQuestions(Questions):
    """Settings of topics and groups."""

    async def topic_settings(self, name: str) -> dict[str, Any] | None:
        """A topic's TopicConfig as the (first) broker keeps it; None: there is no such topic."""
        try:
            return read_object((await self._ask(Request.GET_TOPIC_CONFIG, {"topic": name})).body)
        except BrokerRefused as refusal:
            return await self._one_of_all(refusal, Request.GET_ALL_TOPIC_CONFIG, "topicConfigTable", name)

    async def set_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the topic everywhere, or make it; `attributes` holds name -> value, None removes."""
        names.check_writable_topic(name)
        now = {**_NEW_TOPIC, **(await self.topic_settings(name) or {}), **changes}
        given = changes.get("attributes") or {}
        attributes = [f"-{each}" if value is None else f"+{each}={value}" for each, value in given.items()]
        ext = {
            "topic": name, "defaultTopic": TEMPLATE_TOPIC, "readQueueNums": str(now["readQueueNums"]),
            "writeQueueNums": str(now["writeQueueNums"]), "perm": str(now["perm"]),
            "topicFilterType": str(now["topicFilterType"]), "topicSysFlag": str(now["topicSysFlag"]),
            "order": "true" if now["order"] else "false", "attributes": ",".join(attributes), "force": "false",
        }  # fmt: skip
        for broker in await self._chosen():
            await self._ask(Request.UPDATE_AND_CREATE_TOPIC, ext, address=broker.address)

    async def group_settings(self, name: str) -> dict[str, Any] | None:
        """A group's SubscriptionGroupConfig as the (first) broker keeps it; None: there is no such group."""
        try:
            # a broker makes a group that it is asked for; ours does not for who only looks
            ext = {"group": name, "escLook": "true"}
            return read_object((await self._ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, ext)).body)
        except BrokerRefused as refusal:
            code = Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            return await self._one_of_all(refusal, code, "subscriptionGroupTable", name)

    async def _one_of_all(self, refusal: BrokerRefused, code: int, table: str, name: str) -> Fields | None:
        """What brokers that do not know the question for one tell of all; None where the refusal says there is none."""
        if refusal.code in _ABSENT:
            return None
        if not isinstance(refusal, NotSupported):
            raise refusal
        found = fields(read_object((await self._ask(code)).body).get(table)).get(name)
        return None if found is None else fields(found)

    async def set_group(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the group on every broker, or make it."""
        names.check_group(name)
        config = {**_NEW_GROUP, **(await self.group_settings(name) or {}), **changes, "groupName": name}
        for broker in await self._chosen():
            code = Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            await self._ask(code, body=msgspec.json.encode(config), address=broker.address)

    async def delete_group(self, name: str) -> None:
        """Delete the group on every broker, with how far it has read."""
        names.check_group(name)
        ext = {"groupName": name, "cleanOffset": "true"}
        for broker in await self._chosen():
            await self._ask(Request.DELETE_SUBSCRIPTIONGROUP, ext, address=broker.address)


class ProgressQuestions(Questions):
    """What an admin can ask and change about how far groups are."""

    async def offset_at(self, topic: str, queue_id: int, at_ms: int) -> int:
        """The offset of the first message of a queue stored at `at_ms` or later; the queue's end if there is none."""
        ext = {"topic": topic, "queueId": str(queue_id), "timestamp": str(at_ms), "boundaryType": "LOWER"}
        answer = await self._ask(Request.SEARCH_OFFSET_BY_TIMESTAMP, ext, topic=topic)
        try:
            return int(answer.ext["offset"])
        except (KeyError, ValueError):
            raise BadAnswer("The broker did not say an offset.") from None

    async def move_group(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have a group go on at `offset` of a queue, also consumers that are at work (request 222).

        Raises BrokerRefused for an offset that the queue does not have, or an unknown group or topic.
        """
        ext = {
            "topic": topic, "group": group, "queueId": str(queue_id), "offset": str(offset), "timestamp": "-1",
            "isForce": "true",
        }  # fmt: skip
        await self._ask(Request.INVOKE_BROKER_TO_RESET_OFFSET, ext, topic=topic)


class TraceQuestions(ABC):
    """What an admin can ask about the way of a message."""

    @abstractmethod
    async def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
        """Messages of the topic with this key, newest first."""

    async def traces(self, unique_id: str, *, topic: str = TRACE_TOPIC, max_count: int = 64) -> list[Trace]:
        """What was told of a message, oldest first; nothing if its clients do not trace. `topic`: where they tell it.

        A client tells within some seconds. A message's events may come twice, as every message may.
        """
        try:
            told = await self.messages_by_key(topic, unique_id, max_count)
        except RouteNotFound:
            return []
        events = [each for message in told for each in read_traces(message.body) if each.unique_id == unique_id]
        return sorted(dict.fromkeys(events), key=lambda each: (each.at_ms or 0, _ORDER[each.kind]))


_ORDER = {"sent": 0, "ended": 1, "recalled": 2, "delivered": 3, "handled": 4}
