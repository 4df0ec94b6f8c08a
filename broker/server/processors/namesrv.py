"""The name service. It knows one broker, the one beside it.

- where topics and brokers are: 105, 106, 206, 216, 224, 304, 311 to 313;
- what may be written: 205, 327;
- what is set: 318, 319;
- values that are kept for whoever asks the name service: 100, 101, 102, 219.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.tables.key_values import OWN_PREFIX
from ...engine.tables.topics import WRITE, Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.topics import TEMPLATE_TOPIC, reply_topic
from ..connection import Connection, Handler
from ..state import BrokerState

"""Whose route producers take for a topic that does not exist yet and may be made by its first message."""

_FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
_INHERIT = 1
# bits of a topic's system flag (TopicSysFlag): it is of a unit, units subscribe to it
_UNIT, _UNIT_SUB = 1, 2


class NameService:
    """The requests to the name service."""

    def __init__(self, state: BrokerState, port: int = 9876) -> None:
        self._state = state
        self._port = port
        self._engine = state.engine
        self._key_values = KeyValueProcessor(state)
        self._is_wiped = False
        """Routes say that nothing may be written: clients send elsewhere, until the next start or 327."""

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_ROUTEINFO_BY_TOPIC: self._route,
            Request.GET_BROKER_CLUSTER_INFO: self._cluster,
            Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._topics,
            Request.DELETE_TOPIC_IN_NAMESRV: self._delete,
            Request.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            Request.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            Request.GET_UNIT_TOPIC_LIST: self._unit_topics,
            Request.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_topics,
            Request.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_topics,
            Request.WIPE_WRITE_PERM_OF_BROKER: self._wipe,
            Request.ADD_WRITE_PERM_OF_BROKER: self._wipe,
            Request.GET_NAMESRV_CONFIG: self._settings,
            Request.UPDATE_NAMESRV_CONFIG: self._change_settings,
            **self._key_values.handlers(),
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
            "perm": topic.permission & ~WRITE if self._is_wiped else topic.permission,
            "readQueueNums": topic.read_queues,
            "topicSysFlag": topic.system_flag,
            "writeQueueNums": topic.write_queues,
        }
        body = {"brokerDatas": [self._broker()], "filterServerTable": {}, "queueDatas": [queues]}
        return request.answer(body=json_body(body))

    def _known(self, name: str) -> Topic | None:
        config = self._state.config
        if name == TEMPLATE_TOPIC:
            queues = config.default_topic_queues
            return Topic(name, queues, queues, 6 | _INHERIT) if config.auto_create_topics else None
        if name in {config.cluster_name, config.broker_name, reply_topic(config.cluster_name)}:
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

    def _names(self) -> set[str]:
        """Return the names of all topics that have a route but the template; those of cluster and broker are topics,
        too."""
        config = self._state.config
        return {topic.name for topic in self._engine.topics.all()} | {config.cluster_name, config.broker_name}

    def _topics(self, _: Connection, request: Command) -> Command:
        return request.answer(body=json_body({"topicList": sorted(self._names())}))

    def _topics_of_cluster(self, _: Connection, request: Command) -> Command:
        names = self._names() if text(request.ext, "cluster") == self._state.config.cluster_name else ()
        return request.answer(body=json_body({"topicList": sorted(names)}))

    def _system_topics(self, _: Connection, request: Command) -> Command:
        config = self._state.config
        body = {"brokerAddr": self._state.address, "topicList": [config.cluster_name, config.broker_name]}
        return request.answer(body=json_body(body))

    def _unit_topics(self, _: Connection, request: Command) -> Command:
        bit = _UNIT if request.code == Request.GET_UNIT_TOPIC_LIST else _UNIT_SUB
        topics = [topic for topic in self._engine.topics.all() if topic.system_flag & bit]
        if request.code == Request.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST:
            topics = [topic for topic in topics if not topic.system_flag & _UNIT]
        return request.answer(body=json_body({"topicList": sorted(topic.name for topic in topics)}))

    def _wipe(self, _: Connection, request: Command) -> Command:
        """Say of all topics of the broker that they may not be written, or that they may again."""
        is_wiped = request.code == Request.WIPE_WRITE_PERM_OF_BROKER
        count = 0
        if text(request.ext, "brokerName") == self._state.config.broker_name:
            self._is_wiped = is_wiped
            count = len(self._names())
        return request.answer({"wipeTopicCount" if is_wiped else "addTopicCount": str(count)})

    def _settings(self, _: Connection, request: Command) -> Command:
        lines = (f"listenPort={self._port}", f"rocketmqHome={self._state.config.root}", "enableTopicList=true")
        return request.answer(body="".join(f"{line}\n" for line in lines).encode())

    def _change_settings(self, _: Connection, request: Command) -> Command:
        raise RequestRefused(
            Answer.INVALID_PARAMETER,
            "The name service has no settings that can be changed while it runs; docs/SETTINGS.md lists what it "
            "starts with.",
        )

    def _delete(self, _: Connection, request: Command) -> Command:
        """Succeed: a topic leaves the name service when it is deleted in the broker (215), there is nothing left to
        do."""
        text(request.ext, "topic")
        return request.answer()


class KeyValueProcessor:
    """The requests that read and write values; namespaces of the broker's own are nobody's business."""

    def __init__(self, state: BrokerState) -> None:
        self._values = state.engine.key_values

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.PUT_KV_CONFIG: self._put,
            Request.GET_KV_CONFIG: self._get,
            Request.DELETE_KV_CONFIG: self._delete,
            Request.GET_KVLIST_BY_NAMESPACE: self._all,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        namespace, key, value = (text(request.ext, name) for name in ("namespace", "key", "value"))
        _refuse_own(namespace)
        self._values.put(namespace, key, value)
        return request.answer()

    def _get(self, _: Connection, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        value = None if namespace.startswith(OWN_PREFIX) else self._values.get(namespace, key)
        if value is None:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
        return request.answer({"value": value})

    def _delete(self, _: Connection, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        _refuse_own(namespace)
        self._values.delete(namespace, key)
        return request.answer()

    def _all(self, _: Connection, request: Command) -> Command:
        namespace = text(request.ext, "namespace")
        values = {} if namespace.startswith(OWN_PREFIX) else self._values.all(namespace)
        if not values:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return request.answer(body=json_body({"table": values}))


def _refuse_own(namespace: str) -> None:
    if namespace.startswith(OWN_PREFIX):
        raise RequestRefused(Answer.INVALID_PARAMETER, f"Namespaces that begin with {OWN_PREFIX} are the broker's own.")
