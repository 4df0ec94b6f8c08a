"""Which queues a consumer gets, decided by the broker: 400; and whether its group pulls or pops them: 401."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...engine.errors import TopicNotFound
from ...engine.pop.service import RequestMode
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import INT_MAX, body_as, json_body, message_queue
from ...rocketmq.frame import Command
from ...rocketmq.topics import RETRY_PREFIX
from ..connection import Connection, Handler
from ..state import BrokerState

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
        if self._engine.topics.get(body.topic) is None:
            raise TopicNotFound(body.topic)
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
