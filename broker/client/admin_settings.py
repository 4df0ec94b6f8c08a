"""The part of the asynchronous admin that reads and changes the settings of topics and groups.

Fields are RocketMQ's own; what is not named stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..rocketmq.codes import Answer, Request
from . import names
from .admin_base import Questions
from .answers import Fields, fields
from .errors import BrokerRefused, NotSupported
from .leniency import read_object

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

    async def topic_settings(self, name: str) -> Fields | None:
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
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(now["readQueueNums"]),
            "writeQueueNums": str(now["writeQueueNums"]), "perm": str(now["perm"]),
            "topicFilterType": str(now["topicFilterType"]), "topicSysFlag": str(now["topicSysFlag"]),
            "order": "true" if now["order"] else "false", "attributes": ",".join(attributes), "force": "false",
        }  # fmt: skip
        for broker in await self._chosen():
            await self._ask(Request.UPDATE_AND_CREATE_TOPIC, ext, address=broker.address)

    async def group_settings(self, name: str) -> Fields | None:
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
