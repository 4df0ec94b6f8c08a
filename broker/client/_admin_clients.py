"""The part of the asynchronous admin that asks who is connected, and what one consumer does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from ..rocketmq.codes import Answer, Request
from ._admin_base import Questions
from ._answers import Fields, Json, Table, fields, number, read_object, rows
from ._types import MessageQueue
from .admin import ConnectedClient, HeldQueue, RunningInfo, TopicWork
from .errors import BrokerRefused

#: groups that are asked at the same time
_AT_ONCE = 32
#: asks for what only Escapement tells; other brokers do not know the field
_DETAILS = {"escDetails": "true"}


class ClientQuestions(Questions):
    """What an admin can ask about clients."""

    async def producers(self) -> tuple[ConnectedClient, ...]:
        """Every connected producer, by group and client; raises NotSupported where the broker does not know 328."""
        found: dict[tuple[str, str], ConnectedClient] = {}
        for broker in await self._chosen():
            answer = await self._ask(Request.GET_ALL_PRODUCER_INFO, _DETAILS, address=broker.address)
            for client in _producers(read_object(answer.body)):
                found.setdefault((client.group, client.client_id), client)
        return tuple(found[key] for key in sorted(found))

    async def consumers(self, groups: Sequence[str]) -> tuple[ConnectedClient, ...]:
        """The connected consumers of these groups, by group and client."""
        found: dict[tuple[str, str], ConnectedClient] = {}
        for broker in await self._chosen():
            for first in range(0, len(groups), _AT_ONCE):
                asked = [self._consumers(group, broker.address) for group in groups[first : first + _AT_ONCE]]
                for clients in await asyncio.gather(*asked):
                    for client in clients:
                        found.setdefault((client.group, client.client_id), client)
        return tuple(found[key] for key in sorted(found))

    async def _consumers(self, group: str, address: str) -> list[ConnectedClient]:
        ext = {"consumerGroup": group, **_DETAILS}
        try:
            answer = await self._ask(Request.GET_CONSUMER_CONNECTION_LIST, ext, address=address)
        except BrokerRefused as refusal:
            if refusal.code in (Answer.CONSUMER_NOT_ONLINE, Answer.SYSTEM_ERROR):
                return []
            raise
        return list(_consumers(group, read_object(answer.body)))

    async def running_info(self, group: str, client_id: str, *, with_stack: bool = False) -> RunningInfo:
        """What a consumer says of itself; raises BrokerRefused (it is not there, or cannot say), Timeout."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true" if with_stack else "false"}
        return _running_info(read_object((await self._ask(Request.GET_CONSUMER_RUNNING_INFO, ext)).body))


def _producers(answer: Fields) -> Iterator[ConnectedClient]:
    for group, members in fields(answer.get("data")).items():
        for row in rows(members):
            yield ConnectedClient(
                "producer", group, str(row.get("clientId")), str(row.get("remoteIP", "")).removeprefix("/"),
                str(row.get("language")), number(row.get("version", 0)), _count(row.get("escSinceMs")),
                _count(row.get("lastUpdateTimestamp")),
            )  # fmt: skip


def _consumers(group: str, answer: Fields) -> Iterator[ConnectedClient]:
    subscriptions = {
        topic: str(fields(about).get("subString")) for topic, about in fields(answer.get("subscriptionTable")).items()
    }
    seen, locks = fields(answer.get("escSeen")), answer.get("escLocks")
    for row in rows(answer.get("connectionSet")):
        client_id = str(row.get("clientId"))
        since_ms, seen_ms = _listed(seen.get(client_id), 2) or (None, None)
        yield ConnectedClient(
            "consumer", group, client_id, str(row.get("clientAddr")), str(row.get("language")),
            number(row.get("version", 0)), _count(since_ms), _count(seen_ms), str(answer.get("consumeType")),
            str(answer.get("messageModel")), subscriptions, tuple(_locked_by(client_id, locks)),
        )  # fmt: skip


def _locked_by(client_id: str, locks: Json) -> Iterator[MessageQueue]:
    for each in locks if isinstance(locks, list) and not isinstance(locks, Table) else ():
        lock = _listed(each, 3)
        if lock is not None and lock[2] == client_id:
            yield MessageQueue(str(lock[0]), "", number(lock[1]))


def _listed(value: Json, length: int) -> list[Json] | None:
    """The list of so many things that `value` is; None for anything else."""
    if not isinstance(value, list) or isinstance(value, Table) or len(value) != length:
        return None
    return value


def _running_info(answer: Fields) -> RunningInfo:
    queues = [*_held(answer.get("mqTable")), *_held(answer.get("mqPopTable"))]
    work = [_work(topic, fields(about)) for topic, about in sorted(fields(answer.get("statusTable")).items())]
    stack = answer.get("jstack")
    return RunningInfo(
        {name: str(value) for name, value in sorted(fields(answer.get("properties")).items())},
        tuple(sorted(queues, key=lambda held: _place(held.queue))),
        tuple(work),
        stack if isinstance(stack, str) else "",
    )


def _place(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker, queue.queue_id


def _held(table: Json) -> Iterator[HeldQueue]:
    for key, value in table if isinstance(table, Table) else ():
        about = fields(value)
        yield HeldQueue(
            MessageQueue(str(key.get("topic")), str(key.get("brokerName")), number(key.get("queueId"))),
            _count(about.get("commitOffset")), _count(about.get("cachedMsgCount", about.get("waitAckCount"))),
            about.get("locked") is True, _count(about.get("lastPullTimestamp", about.get("lastPopTimestamp"))),
            _count(about.get("lastConsumeTimestamp")),
        )  # fmt: skip


def _work(topic: str, about: Fields) -> TopicWork:
    return TopicWork(
        topic, _figure(about.get("pullRT")), _figure(about.get("consumeRT")), _figure(about.get("consumeOKTPS")),
        _figure(about.get("consumeFailedTPS")), _count(about.get("consumeFailedMsgs")),
    )  # fmt: skip


def _count(value: Json) -> int | None:
    """A whole number that is not negative; clients say -1 for what they do not know."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _figure(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
