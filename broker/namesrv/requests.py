"""The requests to a name service.

- where topics and brokers are: 105, 106, 206, 216, 224, 304, 311 to 313, 901;
- brokers that come, stay and leave: 103, 104, 217, 322, 904;
- what may be written: 205, 327;
- what is set: 318, 319;
- values that are kept for whoever asks the name service: 100, 101, 102, 219.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.errors import InvalidValue, RequestRefused
from ..rocketmq.fields import body_as, json_body, text
from ..rocketmq.frame import Command
from .registration import (
    QueueData,
    TopicBody,
    VersionBody,
    checked_name,
    queue_data,
    read_address,
    read_name,
    read_registration,
    read_version,
)
from .routes import BrokerGroup, Peer, RouteTable

Handler = Callable[[Peer, Command], Command | None]
"""Answers one request of a peer."""

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The values that brokers are told when they register (NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG)."""

MOST_NAMES_AT_ONCE = 1_024
"""Broker names in one request 217."""

_FAQ = "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
# bits of a topic's system flag (TopicSysFlag): it is of a unit, units subscribe to it
_UNIT, _UNIT_SUB = 1, 2


class Values(Protocol):
    """Named values by namespace. A change is durable when the call returns."""

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value of a key, None without one."""

    def all(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace; empty if there is none."""

    def put(self, namespace: str, key: str, value: str) -> None:
        """Make or change a value. Raises InvalidValue, OSError; then nothing has changed."""

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value; one that is not there is fine. Raises OSError."""


class NameService:
    """The requests about topics and brokers.

    `settings`: names and values that 319 tells. `own_prefix`: namespaces of values that begin so are nobody's business.
    """

    def __init__(
        self,
        table: RouteTable,
        values: Values,
        clock: Callable[[], int],
        settings: Mapping[str, object],
        own_prefix: str,
    ) -> None:
        self.table = table
        self._values = values
        self._clock = clock
        self._named_values = KeyValueProcessor(values, own_prefix)
        self._registrations = RegistrationProcessor(table, values, clock)
        self._settings = settings

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
            Request.GET_NAMESRV_CONFIG: self._tell_settings,
            Request.UPDATE_NAMESRV_CONFIG: self._change_settings,
            **self._registrations.handlers(),
            **self._named_values.handlers(),
        }

    def expire(self, now_ms: int) -> None:
        """Forget the brokers of which nothing was heard for too long, and end their connections."""
        for peer in self.table.expire(now_ms):
            peer.close()

    def connection_ended(self, peer: Peer) -> None:
        """Forget the brokers that registered over a connection which has ended."""
        self.table.connection_ended(peer)

    def _route(self, _: Peer, request: Command) -> Command:
        name = text(request.ext, "topic")
        found = self.table.route(name)
        if not found:
            raise RequestRefused(
                Answer.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}\n{_FAQ}"
            )
        servers: dict[str, list[str]] = {}
        for group, _queues in found:
            servers |= self.table.filter_servers(group)
        body = {
            "brokerDatas": [_broker_data(group) for group, _ in found],
            "filterServerTable": servers,
            "queueDatas": [_queue_data(queues) for _, queues in found],
        }
        return request.answer(body=json_body(body))

    def _cluster(self, _: Peer, request: Command) -> Command:
        groups = self.table.groups()
        clusters: dict[str, list[str]] = {}
        for group in groups:
            clusters.setdefault(group.cluster, []).append(group.name)
        brokers = {group.name: _broker_data(group) for group in groups}
        return request.answer(body=json_body({"brokerAddrTable": brokers, "clusterAddrTable": clusters}))

    def _topics(self, _: Peer, request: Command) -> Command:
        return request.answer(body=json_body({"topicList": sorted(self.table.topics())}))

    def _topics_of_cluster(self, _: Peer, request: Command) -> Command:
        names = self.table.topics(text(request.ext, "cluster"))
        return request.answer(body=json_body({"topicList": sorted(names)}))

    def _system_topics(self, _: Peer, request: Command) -> Command:
        """Return the names of clusters and brokers, which are topics, too, and an address to ask more of."""
        groups = self.table.groups()
        names = dict.fromkeys(name for group in groups for name in (group.cluster, group.name))
        addresses = [group.addresses[group.least_id] for group in groups if group.least_id is not None]
        body = {"brokerAddr": addresses[0]} if addresses else {}
        return request.answer(body=json_body({**body, "topicList": list(names)}))

    def _unit_topics(self, _: Peer, request: Command) -> Command:
        bit = _UNIT if request.code == Request.GET_UNIT_TOPIC_LIST else _UNIT_SUB
        topics = [(name, flag) for name, flag in self.table.flags() if flag & bit]
        if request.code == Request.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST:
            topics = [(name, flag) for name, flag in topics if not flag & _UNIT]
        return request.answer(body=json_body({"topicList": sorted(name for name, _ in topics)}))

    def _wipe(self, _: Peer, request: Command) -> Command:
        """Say of all topics of a broker that they may not be written, or that they may again."""
        is_wiped = request.code == Request.WIPE_WRITE_PERM_OF_BROKER
        count = self.table.set_writable(text(request.ext, "brokerName"), is_writable=not is_wiped)
        return request.answer({"wipeTopicCount" if is_wiped else "addTopicCount": str(count)})

    def _tell_settings(self, _: Peer, request: Command) -> Command:
        lines = (f"{name}={value}\n" for name, value in self._settings.items())
        return request.answer(body="".join(lines).encode())

    def _change_settings(self, _: Peer, request: Command) -> Command:
        raise RequestRefused(
            Answer.INVALID_PARAMETER,
            "The name service has no settings that can be changed while it runs; docs/SETTINGS.md lists what it "
            "starts with.",
        )

    def _delete(self, _: Peer, request: Command) -> Command:
        """Forget a topic of registered brokers; one of the broker beside this service leaves when it is deleted there
        (215)."""
        self.table.delete_topic(text(request.ext, "topic"), request.ext.get("clusterName") or None)
        return request.answer()


def _broker_data(group: BrokerGroup) -> dict[str, object]:
    return {
        "brokerAddrs": {str(number): address for number, address in sorted(group.addresses.items())},
        "brokerName": group.name,
        "cluster": group.cluster,
        "enableActingMaster": group.is_acting_enabled,
    }


def _queue_data(queues: QueueData) -> dict[str, object]:
    return {
        "brokerName": queues.broker_name,
        "perm": queues.permission,
        "readQueueNums": queues.read_queues,
        "topicSysFlag": queues.system_flag,
        "writeQueueNums": queues.write_queues,
    }


# Brokers that come, stay and leave.


class _QueuesBody(msgspec.Struct, rename="camel"):
    """An entry in the body of request 217 (QueueData)."""

    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


class _RouteBody(msgspec.Struct, rename="camel"):
    """The body of request 217 (TopicRouteData)."""

    queue_datas: list[_QueuesBody] | None = None


class RegistrationProcessor:
    """The requests of brokers. A broker is known by cluster and address, as in RocketMQ."""

    def __init__(self, table: RouteTable, values: Values, clock: Callable[[], int]) -> None:
        self._table = table
        self._values = values
        self._clock = clock

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.REGISTER_BROKER: self._register,
            Request.UNREGISTER_BROKER: self._leave,
            Request.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            Request.QUERY_DATA_VERSION: self._version,
            Request.BROKER_HEARTBEAT: self._heartbeat,
            Request.GET_BROKER_MEMBER_GROUP: self._members,
        }

    def _register(self, peer: Peer, request: Command) -> Command:
        new = read_registration(request.ext, request.body)
        master = self._table.register(new, peer, self._clock())
        told = {"haServerAddr": master.ha_address, "masterAddr": master.address}
        orders = self._values.all(ORDER_NAMESPACE)
        return request.answer(
            {name: value for name, value in told.items() if value},
            body=json_body({"table": orders}) if orders else b"",
        )

    def _leave(self, _: Peer, request: Command) -> Command:
        ext = request.ext
        cluster, address = read_name(ext, "clusterName"), read_address(ext, "brokerAddr")
        self._table.leave(cluster, address, read_name(ext, "brokerName"))
        return request.answer()

    def _register_topic(self, _: Peer, request: Command) -> Command:
        """Take one topic of brokers that are there; as in RocketMQ, brokers that are not are no error."""
        topic = read_name(request.ext, "topic")
        said = body_as(_RouteBody, request.body).queue_datas or []
        if len(said) > MOST_NAMES_AT_ONCE:
            raise InvalidValue("The topic", f"has queues of more than {MOST_NAMES_AT_ONCE:,} brokers")
        queues: dict[str, QueueData] = {}
        for each in said:
            name = checked_name("The name of a broker", each.broker_name)
            body = TopicBody(topic, each.read_queue_nums, each.write_queue_nums, each.perm, each.topic_sys_flag)
            queues[name] = queue_data(name, body)
        self._table.put_topic(topic, queues)
        return request.answer()

    def _version(self, _: Peer, request: Command) -> Command:
        """Say whether the topics of a broker have another version than those that it registered; it lives."""
        ext = request.ext
        cluster, address = read_name(ext, "clusterName"), read_address(ext, "brokerAddr")
        said = read_version(body_as(VersionBody, request.body or b"{}"))
        known = self._table.version(cluster, address)
        self._table.heard(cluster, address, self._clock())
        body = b"" if known is None else json_body(known.to_json())
        return request.answer({"changed": "false" if known == said else "true"}, body=body)

    def _heartbeat(self, _: Peer, request: Command) -> Command:
        ext = request.ext
        self._table.heard(read_name(ext, "clusterName"), read_address(ext, "brokerAddr"), self._clock())
        return request.answer()

    def _members(self, _: Peer, request: Command) -> Command:
        cluster, name = read_name(request.ext, "clusterName"), read_name(request.ext, "brokerName")
        group = self._table.group(name)
        addresses = {} if group is None else {str(number): one for number, one in sorted(group.addresses.items())}
        members = {"brokerAddrs": addresses, "brokerName": name, "cluster": cluster}
        return request.answer(body=json_body({"brokerMemberGroup": members}))


# Values that are kept.


class KeyValueProcessor:
    """The requests that read and write values."""

    def __init__(self, values: Values, own_prefix: str) -> None:
        self._values = values
        self._own_prefix = own_prefix

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.PUT_KV_CONFIG: self._put,
            Request.GET_KV_CONFIG: self._get,
            Request.DELETE_KV_CONFIG: self._delete,
            Request.GET_KVLIST_BY_NAMESPACE: self._all,
        }

    def _put(self, _: Peer, request: Command) -> Command:
        namespace, key, value = (text(request.ext, name) for name in ("namespace", "key", "value"))
        self._refuse_own(namespace)
        self._values.put(namespace, key, value)
        return request.answer()

    def _get(self, _: Peer, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        value = None if namespace.startswith(self._own_prefix) else self._values.get(namespace, key)
        if value is None:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
        return request.answer({"value": value})

    def _delete(self, _: Peer, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        self._refuse_own(namespace)
        self._values.delete(namespace, key)
        return request.answer()

    def _all(self, _: Peer, request: Command) -> Command:
        namespace = text(request.ext, "namespace")
        values = {} if namespace.startswith(self._own_prefix) else self._values.all(namespace)
        if not values:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return request.answer(body=json_body({"table": values}))

    def _refuse_own(self, namespace: str) -> None:
        if namespace.startswith(self._own_prefix):
            raise RequestRefused(
                Answer.INVALID_PARAMETER, f"Namespaces that begin with {self._own_prefix} are the broker's own."
            )
