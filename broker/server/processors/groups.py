"""Consumer groups and their queues: 200, 201, 207, 225, 352, 353; who gets which queue, and who holds it.

- `AssignmentProcessor`: which queues a consumer gets, decided by the broker (400), and whether its group pulls or pops
  them (401);
- `LockProcessor`: queues that orderly consumers hold (41, 42).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ...engine.errors import GroupNotFound
from ...engine.pop.service import RequestMode
from ...engine.tables.groups import FIELDS, Group
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, body_as, json_body, message_queue, text, truth, whole
from ...rocketmq.frame import Command
from ...rocketmq.topics import RETRY_PREFIX, check_group_name
from ...rocketmq.values import check_text
from ..connection import Connection, Handler
from ..state import LONGEST_CLIENT_ID, BrokerState

MOST_GROUPS_AT_ONCE = 10_000


class GroupListBody(msgspec.Struct, rename="camel"):
    """The body of request 225 (SubscriptionGroupList)."""

    group_config_list: list[dict[str, Any]] = []


class GroupProcessor:
    """The requests that make, change, delete and describe consumer groups."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put,
            Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._put_list,
            Request.DELETE_SUBSCRIPTIONGROUP: self._delete,
            Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            Request.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            Request.UPDATE_AND_GET_GROUP_FORBIDDEN: self._forbid,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        self._put_all([_group(body_as(dict[str, Any], request.body))])
        return request.answer()

    def _put_list(self, _: Connection, request: Command) -> Command:
        """Make or change all groups of a list, or none."""
        wanted = body_as(GroupListBody, request.body).group_config_list
        if not 0 < len(wanted) <= MOST_GROUPS_AT_ONCE:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A list holds 1 to {MOST_GROUPS_AT_ONCE:,} groups.")
        self._put_all([_group(value) for value in wanted])
        return request.answer()

    def _put_all(self, groups: list[Group]) -> None:
        changed = [group for group in groups if group != self._engine.groups.get(group.name)]
        if changed:
            self._engine.groups.put_many(changed)

    def _delete(self, _: Connection, request: Command) -> Command:
        """Delete a group; deleting one that is not there succeeds, as deleting a topic does."""
        name = text(request.ext, "groupName")
        if self._engine.groups.get(name) is not None:
            self._engine.groups.delete(name)
        if truth(request.ext, "removeOffset") or truth(request.ext, "cleanOffset"):
            self._engine.offsets.remove(name)
        return request.answer()

    def _one(self, _: Connection, request: Command) -> Command:
        """Answer one group; one that is not there is made, as by Apache RocketMQ, but not for who only looks
        (`escLook`)."""
        name = text(request.ext, "group")
        if truth(request.ext, "escLook"):
            group = self._engine.groups.find(name, may_make=False)
        else:
            group = self._state.group(name)
        return request.answer(body=json_body(group.to_json()))

    def _all(self, _: Connection, request: Command) -> Command:
        groups = self._engine.groups
        every = groups.all()
        start = whole(request.ext, "groupSeq", 0, low=0)
        count = whole(request.ext, "maxGroupNum", len(every), low=0) or len(every)
        body = {
            "dataVersion": {"counter": groups.data_version, "stateVersion": 0, "timestamp": 0},
            "forbiddenTable": groups.forbidden(),
            "subscriptionGroupTable": {group.name: group.to_json() for group in every[start : start + count]},
        }
        return request.answer({"totalGroupNum": str(len(every))}, json_body(body))

    def _forbid(self, _: Connection, request: Command) -> Command:
        """Answer, and where `readable` is given change, whether a group may read a topic."""
        group, topic = text(request.ext, "group"), text(request.ext, "topic")
        groups = self._engine.groups
        if request.ext.get("readable"):
            if groups.get(group) is None:
                raise GroupNotFound(group)
            groups.forbid(group, topic, not truth(request.ext, "readable"))
        body = {"group": group, "topic": topic, "readable": not groups.is_forbidden(group, topic)}
        return request.answer(body=json_body(body))


def _group(value: dict[str, Any]) -> Group:
    """Return the group that an administrator means; numbers and truths may stand there as text, as Java allows."""
    kinds: dict[type, Callable[[str, object], object]] = {str: _name, int: _whole, bool: _truth}
    read = {name: kinds[kind](name, value[name]) for name, kind in FIELDS if value.get(name) is not None}
    if "groupName" not in read:
        raise RequestRefused(Answer.INVALID_PARAMETER, "The group has no field 'groupName'.")
    return Group.from_json({**value, **read})


def _name(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _unreadable(name, "text")
    return value


def _whole(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise _unreadable(name, "a whole number")
    return whole({name: value}, name)


def _truth(name: str, value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower())
    if not isinstance(value, bool):
        raise _unreadable(name, "true or false")
    return value


def _unreadable(name: str, kind: str) -> RequestRefused:
    return RequestRefused(Answer.INVALID_PARAMETER, f"The field {name!r} of the group is not {kind}.")


# Which queues the members of a group get, and hold.

PULL, POP = "PULL", "POP"
BROADCASTING = "BROADCASTING"
AVERAGELY, BY_CIRCLE = "AVG", "AVG_BY_CIRCLE"
ANY_QUEUE = -1


class AssignmentBody(msgspec.Struct, rename="camel"):
    """The body of request 400 (QueryAssignmentRequestBody)."""

    topic: str
    consumer_group: str
    client_id: str = ""
    message_model: str = "CLUSTERING"
    strategy_name: str = AVERAGELY


class ModeBody(msgspec.Struct, rename="camel"):
    """The body of request 401 (SetMessageRequestModeRequestBody)."""

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: int = 0


class AssignmentProcessor:
    """The requests that share out queues among the clients of a group."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._engine = state.engine

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.QUERY_ASSIGNMENT: self._query, Request.SET_MESSAGE_REQUEST_MODE: self._set_mode}

    def _query(self, _: Connection, request: Command) -> Command:
        """Answer the queues of one client; none at all where nothing can be said, so that it keeps what it has."""
        body = body_as(AssignmentBody, request.body)
        mode = self._engine.pops.modes.get(body.consumer_group, body.topic) or RequestMode(PULL)
        queues = self._assigned(body, mode)
        if queues is None:
            return request.answer(body=json_body({}))
        broker = self._state.config.broker_name
        rows = [
            {"messageQueue": message_queue(broker, body.topic, queue_id), "mode": mode.mode}
            for queue_id in dict.fromkeys(queues)
        ]
        return request.answer(body=json_body({"messageQueueAssignments": rows}))

    def _assigned(self, body: AssignmentBody, mode: RequestMode) -> list[int] | None:
        topic = self._engine.topics.get(body.topic)
        if topic is None:
            return None
        every = list(range(topic.read_queues))
        if body.message_model == BROADCASTING:
            return every
        group = self._state.clients.consumers(body.consumer_group)
        if group is None or body.strategy_name not in (AVERAGELY, BY_CIRCLE):
            return None
        clients = sorted({member.client_id for member in group.members.values()})
        if mode.mode == POP:
            return _shared(body.strategy_name, every, clients, body.client_id, mode.share_queues)
        return allocate(body.strategy_name, every, clients, body.client_id)

    def _set_mode(self, _: Connection, request: Command) -> Command:
        body = body_as(ModeBody, request.body)
        if body.topic.startswith(RETRY_PREFIX):
            raise RequestRefused(Answer.NO_PERMISSION, "retry topic is not allowed to set mode")
        self._state.topic(body.topic)
        if body.mode not in (PULL, POP) or not -1 <= body.pop_share_queue_num <= INT_MAX:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The mode is {PULL} or {POP}, not {body.mode[:20]!r}.")
        self._state.group(body.consumer_group)
        mode = RequestMode(body.mode, body.pop_share_queue_num)
        self._engine.pops.modes.put(body.consumer_group, body.topic, mode)
        return request.answer()


def allocate(strategy: str, queues: list[int], clients: list[str], client_id: str) -> list[int]:
    """Return the share of one client: AllocateMessageQueueAveragely and ...ByCircle of RocketMQ."""
    if client_id not in clients:
        return []
    index, count = clients.index(client_id), len(clients)
    if strategy == BY_CIRCLE:
        return queues[index::count]
    share, more = divmod(len(queues), count)
    start = index * share + min(index, more)
    return queues[start : start + share + (index < more)]


def _shared(strategy: str, queues: list[int], clients: list[str], client_id: str, share: int) -> list[int]:
    """Return the queues that one client pops: any, or its own and those of the next ``share`` clients."""
    if share <= 0 or share >= len(clients) - 1:
        return [ANY_QUEUE]
    if client_id not in clients:
        return []
    index = clients.index(client_id)
    if len(clients) > len(queues):
        return [queues[index % len(queues)]]
    neighbours = [clients[(index + step) % len(clients)] for step in range(share + 1)]
    return [queue for neighbour in neighbours for queue in allocate(strategy, queues, clients, neighbour)]


class QueueBody(msgspec.Struct, rename="camel"):
    """A queue as RocketMQ names one (MessageQueue)."""

    topic: str
    queue_id: int
    broker_name: str = ""


class LockBody(msgspec.Struct, rename="camel"):
    """The body of requests 41 and 42 (LockBatchRequestBody, UnlockBatchRequestBody)."""

    consumer_group: str
    client_id: str
    mq_set: list[QueueBody] = []

    def queues(self, broker_name: str) -> list[tuple[str, int]]:
        """Return the queues of this broker."""
        return [(queue.topic, queue.queue_id) for queue in self.mq_set if queue.broker_name in {"", broker_name}]


class LockProcessor:
    """The requests that lock queues for one consumer and unlock them; only queues that exist."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._broker_name = state.config.broker_name

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {Request.LOCK_BATCH_MQ: self._lock, Request.UNLOCK_BATCH_MQ: self._unlock}

    def _lock(self, _: Connection, request: Command) -> Command:
        body = body_as(LockBody, request.body)
        check_group_name(body.consumer_group)
        check_text("The client id", body.client_id, most=LONGEST_CLIENT_ID)
        queues = [queue for queue in body.queues(self._broker_name) if self._exists(*queue)]
        granted = self._state.locks.lock(body.consumer_group, body.client_id, queues, self._state.live_clock())
        held = [message_queue(self._broker_name, topic, queue_id) for topic, queue_id in granted]
        return request.answer(body=json_body({"lockOKMQSet": held}))

    def _unlock(self, _: Connection, request: Command) -> Command:
        body = body_as(LockBody, request.body)
        self._state.locks.unlock(body.consumer_group, body.client_id, body.queues(self._broker_name))
        return request.answer()

    def _exists(self, topic: str, queue_id: int) -> bool:
        known = self._state.engine.topics.get(topic)
        return known is not None and 0 <= queue_id < known.read_queues
