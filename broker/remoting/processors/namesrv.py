"""The name service: where topics and brokers are (105, 106, 206, 216). It knows one broker, the one beside it."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.store.topics import Topic
from ..codec import Command
from ..codes import Answer, Request
from ..errors import RequestRefused
from ..fields import text
from ..jsonbody import json_body
from ..server import Connection, Handler
from ..state import BrokerState

DEFAULT_TOPIC = "TBW102"
"""Whose route producers take for a topic that does not exist yet and may be made by its first message."""

_FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
_INHERIT = 1


class NameService:
    """Answers for the name server."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_ROUTEINFO_BY_TOPIC: self._route,
            Request.GET_BROKER_CLUSTER_INFO: self._cluster,
            Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            Request.DELETE_TOPIC_IN_NAMESRV: self._delete,
        }

    def _route(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "topic")
        topic = self._known(name)
        if topic is None:
            raise RequestRefused(
                Answer.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}\n{_FAQ}"
            )
        queues = {
            "brokerName": self._state.config.broker_name,
            "perm": topic.permission,
            "readQueueNums": topic.read_queues,
            "topicSysFlag": topic.system_flag,
            "writeQueueNums": topic.write_queues,
        }
        body = {"brokerDatas": [self._broker()], "filterServerTable": {}, "queueDatas": [queues]}
        return request.answer(body=json_body(body))

    def _known(self, name: str) -> Topic | None:
        config = self._state.config
        if name == DEFAULT_TOPIC:
            queues = config.default_topic_queues
            return Topic(name, queues, queues, 6 | _INHERIT) if config.auto_create_topics else None
        if name in {config.cluster_name, config.broker_name}:
            return self._engine.topics.get(name) or Topic(name, 1, 1, 6)
        return self._engine.topics.get(name)

    def _broker(self) -> dict[str, object]:
        config = self._state.config
        return {
            "brokerAddrs": {str(config.broker_id): self._state.address},
            "brokerName": config.broker_name,
            "cluster": config.cluster_name,
            "enableActingMaster": False,
        }

    def _cluster(self, _: Connection, request: Command) -> Command:
        config = self._state.config
        body = {
            "brokerAddrTable": {config.broker_name: self._broker()},
            "clusterAddrTable": {config.cluster_name: [config.broker_name]},
        }
        return request.answer(body=json_body(body))

    def _topics(self, _: Connection, request: Command) -> Command:
        config = self._state.config
        names = {topic.name for topic in self._engine.topics.all()} | {config.cluster_name, config.broker_name}
        return request.answer(body=json_body({"topicList": sorted(names)}))

    def _delete(self, _: Connection, request: Command) -> Command:
        """A topic leaves the name service when it is deleted in the broker (215): there is nothing left to do."""
        text(request.ext, "topic")
        return request.answer()
