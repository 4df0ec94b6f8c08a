"""The permissions that each request needs.

The table is that of Apache RocketMQ 5.5.0 (its RocketMQAction and RocketMQResource annotations and
DefaultAuthorizationContextBuilder). More is needed where that asks for nothing or believes what the client says:

- a record that is named by its position (33, 36, 37, 309) is asked for by the topic it is really of;
- a message that is given back through a retry topic needs the group of that topic, whatever group the sender claims;
- what RocketMQ leaves open to every user (25, 26, 28, 43, 45, 200 ...) needs the cluster or the group;
- what is in no table needs Update on the cluster, as do those who register brokers (103, 104, 217, 904): a name
  service sends all clients where they say.

Bodies are read as far as they name topics and groups; the rest of them is their processor's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from ...rocketmq.acl import Action, Demand, Kind, demand_on
from ...rocketmq.codes import Request
from ...rocketmq.fields import body_as
from ...rocketmq.frame import Command
from ...rocketmq.ids import BadHandle, read_handle
from ...rocketmq.message import parse_offset_message_id
from ..processors.clients import ClientConfigBody, HeartbeatBody
from ..processors.groups import LockBody
from ..processors.timers import NamedTarget, read_steering, read_target

#: The topic that the record at a position of the log is of (a parked one: is meant for); None if there is no record.
TopicAt = Callable[[int], str | None]

_PUB, _SUB, _GET = Action.PUB, Action.SUB, Action.GET
_UPDATE, _CREATE, _DELETE, _LIST = Action.UPDATE, Action.CREATE, Action.DELETE, Action.LIST


@dataclass(frozen=True, slots=True)
class Field:
    """A header field that names a resource, or several with something between them."""

    kind: Kind
    name: str
    actions: tuple[Action, ...]
    separator: str = ""


def _topic(name: str, *actions: Action, separator: str = "") -> Field:
    return Field(Kind.TOPIC, name, actions, separator)


def _group(name: str, *actions: Action, separator: str = "") -> Field:
    return Field(Kind.GROUP, name, actions, separator)


_SUB_BOTH = (_group("consumerGroup", _SUB), _topic("topic", _SUB))
_GET_TOPIC = (_topic("topic", _GET),)
_GET_GROUP = (_group("consumerGroup", _GET),)
_GET_BOTH = (_group("group", _GET), _topic("topic", _GET))
_PUB_V2 = (_topic("b", _PUB),)

FIELDS: dict[int, tuple[Field, ...]] = {
    10: (_topic("topic", _PUB), _topic("b", _PUB)),
    11: _SUB_BOTH,
    12: (_topic("topic", _SUB, _GET),),
    14: (_group("consumerGroup", _SUB, _GET), _topic("topic", _SUB, _GET)),
    15: (_group("consumerGroup", _SUB, _UPDATE), _topic("topic", _SUB, _UPDATE)),
    17: (_topic("topic", _CREATE),),
    29: _GET_TOPIC,
    30: _GET_TOPIC,
    31: _GET_TOPIC,
    32: _GET_TOPIC,
    38: (_group("consumerGroup", _SUB, _GET),),
    202: _GET_TOPIC,
    203: _GET_GROUP,
    207: (_group("groupName", _DELETE),),
    208: (*_GET_GROUP, *_GET_TOPIC, _topic("topicList", _GET, separator=";")),
    215: (_topic("topic", _DELETE),),
    222: (_group("group", _UPDATE), _topic("topic", _UPDATE)),
    223: _GET_BOTH,
    300: _GET_TOPIC,
    303: _GET_BOTH,
    307: _GET_GROUP,
    308: (_group("filterGroups", _GET, separator=","), _group("compareGroup", _GET), *_GET_TOPIC),
    310: _PUB_V2,
    314: (_group("srcGroup", _GET), _group("destGroup", _UPDATE), _topic("topic", _UPDATE)),
    320: _PUB_V2,
    321: (*_GET_TOPIC, *_GET_GROUP),
    324: (_topic("topic", _PUB), _topic("b", _PUB)),
    325: _PUB_V2,
    343: (_group("group", _GET),),
    345: _GET_BOTH,
    351: _GET_TOPIC,
    352: (_group("group", _GET),),
    353: (_group("group", _UPDATE), _topic("topic", _UPDATE)),
    354: _GET_TOPIC,
    361: _SUB_BOTH,
    Request.GET_TOPIC_WAITING: _GET_TOPIC,
    370: (_topic("topic", _PUB),),
    200050: _SUB_BOTH,
    200051: _SUB_BOTH,
    200052: _SUB_BOTH,
    200053: _SUB_BOTH,
    200054: _SUB_BOTH,
    200055: (*_GET_GROUP, *_GET_TOPIC),
    200056: _SUB_BOTH,
}

_CLUSTER_GET = (
    21, 22, 23, 26, 28, 43, 45, 47, 60, 61, 101, 106, 201, 204, 206, 219, 224, 304, 305, 311, 312, 313, 315, 317, 319,
    322, 328, 355, 402, 901, 907, 2003, 3004, 3005, 3009, 3010,
    Request.GET_CHANGES, Request.GET_SCHEDULE_STATUS, Request.LIST_TIMERS, Request.GET_TIMER_WHEEL,
    Request.GET_TIMER_STATUS, Request.GET_TIMER_FORECAST, Request.LIST_TRANSACTIONS, Request.GET_TRANSACTION,
    Request.GET_TRANSACTION_STATUS,
)  # fmt: skip
#: Requests that tell names of topics or groups are also open to users who may list these.
_CLUSTER_LIST = frozenset({21, 22, 23, 106, 201, 206, 224, 304, 305, 311, 312, 313})

#: Everybody with a valid signature: without routes nobody comes as far as being told what he may not do.
OPEN_TO_USERS = frozenset({105})


class Demands:
    """The permissions that each request needs."""

    def __init__(self, cluster: str, topic_at: TopicAt) -> None:
        self._topic_at = topic_at
        self._everything = (Demand(Kind.CLUSTER, cluster, (_UPDATE,)),)
        look = Demand(Kind.CLUSTER, cluster, (_GET,))
        names = Demand(Kind.CLUSTER, cluster, (_GET, _LIST))
        self._of_cluster = {int(code): (names if code in _CLUSTER_LIST else look,) for code in _CLUSTER_GET}
        self._of_cluster[int(Request.GET_ADMINISTRATION)] = self._everything
        self._special: dict[int, Callable[[Command], Iterable[Demand]]] = {
            18: _topics_of_list,
            33: lambda request: self._of_record(request.ext.get("offset"), _SUB, _GET),
            34: _of_heartbeat,
            35: _of_farewell,
            36: self._of_return,
            37: lambda request: self._of_record(request.ext.get("commitLogOffset"), _PUB),
            41: _of_locks,
            42: _of_locks,
            46: _of_client_config,
            200: _of_group,
            309: self._of_direct,
            225: _of_groups,
            400: _of_assignment,
            200151: _of_acks,
            int(Request.STEER_TIMERS): self._of_timers,
            int(Request.GET_TIMER): self._of_timer,
        }

    @property
    def codes(self) -> frozenset[int]:
        """The request codes that need something of their own."""
        return frozenset({*FIELDS, *self._of_cluster, *self._special, *OPEN_TO_USERS})

    def of(self, request: Command) -> Iterable[Demand]:
        """Return all permissions that a request needs; raises RequestRefused for a body that cannot be read."""
        fields = FIELDS.get(request.code)
        if fields is not None:
            return list(_of_fields(fields, request.ext)) or self._everything
        special = self._special.get(request.code)
        if special is not None:
            return special(request)
        if request.code in OPEN_TO_USERS:
            return ()
        return self._of_cluster.get(request.code, self._everything)

    def _of_record(self, position: str | None, *actions: Action) -> Iterable[Demand]:
        """Return what reading a position needs: a permission for the topic of its record, or, where there is none, for
        the cluster."""
        is_number = position is not None and position.isascii() and position.isdigit() and len(position) < 20
        topic = self._topic_at(int(position)) if position is not None and is_number else None
        return self._everything if topic is None else (demand_on(Kind.TOPIC, topic, actions),)

    def _of_return(self, request: Command) -> Iterable[Demand]:
        """Return what 36 needs: the group may get the record again, but only one that its user may read."""
        group = request.ext.get("group", "")
        return (demand_on(Kind.GROUP, group, (_SUB,)), *self._of_record(request.ext.get("offset"), _SUB))

    def _of_direct(self, request: Command) -> Iterable[Demand]:
        """Return what 309 needs: as 36, for the record that the offset message id names."""
        try:
            _, _, position = parse_offset_message_id(request.ext.get("msgId", ""))
        except ValueError:
            return self._everything
        return (*_of_fields(_SUB_BOTH, request.ext), *self._of_record(str(position), _SUB))

    def _of_timers(self, request: Command) -> Iterable[Demand]:
        """Return what 14005 needs: to send to the topics by which timers are named, or to change the cluster."""
        return self._of_targets(read_steering(request.body).targets, _PUB)

    def _of_timer(self, request: Command) -> Iterable[Demand]:
        return self._of_targets([read_target(request.body)], _PUB, _GET)

    def _of_targets(self, targets: Iterable[NamedTarget], *actions: Action) -> Iterable[Demand]:
        topics = {_topic_of(target) for target in targets}
        return [demand_on(Kind.TOPIC, topic, actions) for topic in topics if topic] if all(topics) else self._everything


def _topic_of(target: NamedTarget) -> str | None:
    """Return the topic of a timer that is named by it; None for one named by a position or an offset id."""
    if target.handle is not None:
        try:
            return read_handle(target.handle).topic
        except BadHandle:
            return None
    return target.topic if target.schedule_key is not None or target.unique_key is not None else None


def _of_fields(fields: tuple[Field, ...], ext: Mapping[str, str]) -> Iterable[Demand]:
    for field in fields:
        value = ext.get(field.name)
        if value:
            names = value.split(field.separator) if field.separator else (value,)
            for name in filter(None, names):
                yield demand_on(field.kind, name, field.actions)


def _of_heartbeat(request: Command) -> Iterable[Demand]:
    return {
        demand_on(kind, name, (_SUB,))
        for consumer in body_as(HeartbeatBody, request.body).consumers
        for kind, name in [
            (Kind.GROUP, consumer.group_name),
            *((Kind.TOPIC, each.topic) for each in consumer.subscription_data_set),
        ]
    }


def _of_farewell(request: Command) -> Iterable[Demand]:
    group = request.ext.get("consumerGroup")
    return [demand_on(Kind.GROUP, group, (_PUB, _SUB))] if group else []


def _of_locks(request: Command) -> Iterable[Demand]:
    locks = body_as(LockBody, request.body)
    topics = {queue.topic for queue in locks.mq_set}
    group = demand_on(Kind.GROUP, locks.consumer_group, (_SUB,))
    return [group, *(demand_on(Kind.TOPIC, topic, (_SUB,)) for topic in topics)]


def _of_client_config(request: Command) -> Iterable[Demand]:
    if not request.body:
        return []
    config = body_as(ClientConfigBody, request.body)
    groups = [demand_on(Kind.GROUP, config.group, (_SUB,))] if config.group else []
    return [*groups, demand_on(Kind.TOPIC, config.subscription_data.topic, (_SUB,))]


def _of_groups(request: Command) -> Iterable[Demand]:
    """Return what 225 needs: what 200 needs for each of its groups."""
    groups = body_as(GroupList, request.body).group_config_list
    return [demand_on(Kind.GROUP, each.group_name, (_CREATE, _UPDATE)) for each in groups]


def _of_group(request: Command) -> Iterable[Demand]:
    """Return what 200 needs, for which RocketMQ asks nothing."""
    return [demand_on(Kind.GROUP, body_as(GroupConfig, request.body).group_name, (_CREATE, _UPDATE))]


def _of_assignment(request: Command) -> Iterable[Demand]:
    wanted = body_as(Assignment, request.body)
    return [demand_on(Kind.GROUP, wanted.consumer_group, (_SUB,)), demand_on(Kind.TOPIC, wanted.topic, (_SUB,))]


def _of_acks(request: Command) -> Iterable[Demand]:
    acks = body_as(AckBatch, request.body).acks
    named = {(Kind.GROUP, each.group) for each in acks} | {(Kind.TOPIC, each.topic) for each in acks}
    return [demand_on(kind, name, (_SUB,)) for kind, name in named]


def _topics_of_list(request: Command) -> Iterable[Demand]:
    return [
        demand_on(Kind.TOPIC, each.topic_name, (_CREATE,))
        for each in body_as(TopicList, request.body).topic_config_list
    ]


# Bodies of requests, as far as they name topics and groups.


class GroupConfig(msgspec.Struct, rename="camel"):
    """The body of request 200 (SubscriptionGroupConfig)."""

    group_name: str


class GroupList(msgspec.Struct, rename="camel"):
    """The body of request 225 (SubscriptionGroupList)."""

    group_config_list: list[GroupConfig]


class TopicName(msgspec.Struct, rename="camel"):
    """The name in a TopicConfig of RocketMQ."""

    topic_name: str


class TopicList(msgspec.Struct, rename="camel"):
    """The body of request 18 (CreateTopicListRequestBody)."""

    topic_config_list: list[TopicName]


class Assignment(msgspec.Struct, rename="camel"):
    """The body of requests 400 and 401 (QueryAssignmentRequestBody, SetMessageRequestModeRequestBody)."""

    topic: str
    consumer_group: str = ""


class Ack(msgspec.Struct):
    """An entry of a batch of acknowledgements (BatchAck)."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")


class AckBatch(msgspec.Struct):
    """The body of request 200151 (BatchAckMessageRequestBody)."""

    acks: list[Ack]
