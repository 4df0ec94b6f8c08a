"""The asynchronous admin: what brokers know about topics, groups, queues, levels, messages and clients.

The one implementation; `Admin` is its synchronous face. Only RocketMQ's own requests are used, but for `changes`,
`schedule_status` and most of what is asked about timers and transactions: they raise NotSupported where the broker is
not Escapement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from ..rocketmq.codes import Answer, Request
from ..rocketmq.message import parse_offset_message_id, written_address
from ..rocketmq.topics import TOOLS_GROUP, TRACE_TOPIC
from ..rocketmq.traces import Trace, read_traces
from . import _answers as answers
from ._admin_access import AccessChanges
from ._admin_settings import ProgressQuestions, SettingQuestions
from ._admin_waiting import TimerQuestions, TransactionQuestions
from ._answers import Fields, Json, Table, fields, number, read_object, rows
from ._reader import PULL_BYTES, read_record, split_records
from ._session import DEFAULT_TIMEOUT_MS
from ._types import Message, MessageQueue, Route
from .admin import (
    BrokerSetting,
    ConnectedClient,
    ConsumeStats,
    GroupConfig,
    GroupConnections,
    HeldQueue,
    QueueEntries,
    RunningInfo,
    TopicConfig,
    TopicStats,
    TopicWork,
)
from .errors import BadAnswer, BrokerRefused, InvalidArgument, RouteNotFound

_FOUND = (Answer.SUCCESS, Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED)
_QUERIED = (Answer.SUCCESS, Answer.QUERY_NOT_FOUND)
#: PullSysFlag: the request carries its subscription; nothing is suspended, nothing committed.
_WITH_SUBSCRIPTION = 4
#: groups that are asked at the same time
_GROUPS_AT_ONCE = 32
#: asks for what only Escapement tells; other brokers do not know the field
_WITH_DETAILS = {"escDetails": "true"}
WHOLE_TIME_MS = 2**62


class AsyncAdmin(AccessChanges, ProgressQuestions, SettingQuestions, TimerQuestions, TransactionQuestions):
    """Asks the brokers of one name server about topics, groups, clients and messages, and changes their settings.

    >>> async with AsyncAdmin("127.0.0.1:9876") as admin:
    ...     await admin.create_topic("invoices", queues=8)

    With `broker` everything is asked of that one and no other, and changed there. Without it, what is of topics, groups
    and messages is asked of all brokers, and a question that only one can answer of the first that the name server
    lists. Every method raises ClientError and its kin, NotSupported for a request that the broker does not know.
    """

    async def topics(self) -> tuple[TopicConfig, ...]:
        """Return every topic of every broker, system topics included, by broker and name."""
        found: list[TopicConfig] = []
        for broker in await self._readable():
            answer = await self._session.ask(broker.address, Request.GET_ALL_TOPIC_CONFIG)
            found.extend(answers.topic_configs(broker.name, read_object(answer.body)))
        return tuple(found)

    async def groups(self) -> tuple[GroupConfig, ...]:
        """Return every consumer group of every broker, by broker and name."""
        found: list[GroupConfig] = []
        for broker in await self._readable():
            answer = await self._session.ask(broker.address, Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            found.extend(answers.group_configs(broker.name, read_object(answer.body)))
        return tuple(found)

    async def route(self, topic: str) -> Route:
        """Ask the name server where the topic lives now; raises RouteNotFound."""
        return await self._session.route(topic, max_age_s=0)

    async def topic_stats(self, topic: str) -> TopicStats:
        """Return how far each queue of the topic reaches; system topics are asked of every broker."""
        several = []
        for address in await self._addresses_of(topic):
            answer = await self._session.ask(address, Request.GET_TOPIC_STATS_INFO, {"topic": topic})
            several.append(read_object(answer.body))
        return answers.topic_stats(topic, several)

    async def consume_stats(self, group: str) -> ConsumeStats:
        """Return how far the group is in every queue that it consumes, as offsets, and its messages a second."""
        several = []
        for broker in await self._readable():
            answer = await self._session.ask(broker.address, Request.GET_CONSUME_STATS, {"consumerGroup": group})
            several.append(read_object(answer.body))
        return answers.consume_stats(group, several)

    async def connections(self, group: str) -> GroupConnections:
        """Return the connected consumers of the group; raises BrokerRefused with code 206 if there are none."""
        answer = await self._ask(Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        return answers.group_connections(group, read_object(answer.body))

    async def producers(self) -> tuple[ConnectedClient, ...]:
        """Return every connected producer, by group and client; raises NotSupported of a broker without request 328."""
        found: dict[tuple[str, str], ConnectedClient] = {}
        for broker in await self._chosen():
            answer = await self._ask(Request.GET_ALL_PRODUCER_INFO, _WITH_DETAILS, address=broker.address)
            for client in _producers(read_object(answer.body)):
                found.setdefault((client.group, client.client_id), client)
        return tuple(found[key] for key in sorted(found))

    async def consumers(self, groups: Sequence[str]) -> tuple[ConnectedClient, ...]:
        """Return the connected consumers of these groups, by group and client."""
        found: dict[tuple[str, str], ConnectedClient] = {}
        for broker in await self._chosen():
            for first in range(0, len(groups), _GROUPS_AT_ONCE):
                asked = [self._consumers(group, broker.address) for group in groups[first : first + _GROUPS_AT_ONCE]]
                for clients in await asyncio.gather(*asked):
                    for client in clients:
                        found.setdefault((client.group, client.client_id), client)
        return tuple(found[key] for key in sorted(found))

    async def _consumers(self, group: str, address: str) -> list[ConnectedClient]:
        ext = {"consumerGroup": group, **_WITH_DETAILS}
        try:
            answer = await self._ask(Request.GET_CONSUMER_CONNECTION_LIST, ext, address=address)
        except BrokerRefused as refusal:
            if refusal.code in (Answer.CONSUMER_NOT_ONLINE, Answer.SYSTEM_ERROR):
                return []
            raise
        return list(_consumers(group, read_object(answer.body)))

    async def running_info(self, group: str, client_id: str, *, with_stack: bool = False) -> RunningInfo:
        """Have a consumer tell of its work; raises BrokerRefused (it is not there, or cannot say), Timeout."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "true" if with_stack else "false"}
        return _running_info(read_object((await self._ask(Request.GET_CONSUMER_RUNNING_INFO, ext)).body))

    async def delay_offsets(self) -> dict[int, int]:
        """Return by delay level the offset in its queue of SCHEDULE_TOPIC_XXXX up to which messages were released."""
        return answers.delay_offsets(read_object((await self._ask(Request.GET_ALL_DELAY_OFFSET)).body))

    async def delay_levels(self) -> list[int]:
        """Return the delay of each level in ms, level 1 first; raises BadAnswer where the broker tells none."""
        text = (await self.broker_config()).get("messageDelayLevel")
        if text is None:
            raise BadAnswer("The broker's configuration has no messageDelayLevel.")
        return answers.delay_level_ms(text)

    async def broker_config(self, *, address: str | None = None) -> dict[str, str]:
        """Return the broker's configuration (request 26), the values as text by name."""
        answer = await self._ask(Request.GET_BROKER_CONFIG, address=address)
        return answers.broker_config(answer.body)

    async def broker_settings(self, *, address: str | None = None) -> tuple[BrokerSetting, ...]:
        """Return the broker's settings by name; of Escapement with what else it tells of them."""
        answer = await self._ask(Request.GET_BROKER_CONFIG, _WITH_DETAILS, address=address)
        return answers.broker_settings(answer.body, answer.ext.get("escSettings", ""))

    async def runtime(self, *, address: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> dict[str, str]:
        """Return the broker's figures (request 28), the values as text by name."""
        answer = await self._ask(Request.GET_BROKER_RUNTIME_INFO, address=address, timeout_ms=timeout_ms)
        table = answers.fields(read_object(answer.body).get("table"))
        return {name: str(value) for name, value in table.items()}

    async def queue_entries(
        self, topic: str, queue_id: int, index: int, count: int, *, broker: str | None = None,
        address: str | None = None,
    ) -> QueueEntries:  # fmt: skip
        """Return up to `count` entries of a consume queue from offset `index` on, and the bounds of that queue.

        `broker`: the one that has the queue, where several have one of its number.
        """
        ext = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(count)}
        address = address or await self._address_of_queue(topic, queue_id, broker)
        answer = await self._ask(Request.QUERY_CONSUME_QUEUE, ext, address=address)
        return answers.queue_entries(index, read_object(answer.body))

    async def pull(
        self, topic: str, queue_id: int, offset: int, count: int, *, broker: str | None = None
    ) -> list[Message]:
        """Read up to `count` messages of a queue from `offset` on, whatever their tags; nothing is committed.

        `broker`: the one that has the queue, where several have one of its number.
        """
        ext = {
            "consumerGroup": TOOLS_GROUP, "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset),
            "maxMsgNums": str(count), "maxMsgBytes": str(PULL_BYTES), "sysFlag": str(_WITH_SUBSCRIPTION),
            "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        address = await self._address_of_queue(topic, queue_id, broker)
        answer = await self._ask(Request.PULL_MESSAGE, ext, address=address, accept=_FOUND)
        return [read_record(record) for record in split_records(answer.body)] if answer.code == Answer.SUCCESS else []

    async def send_back(
        self, group: str, message: Message, *, delay_level: int, max_reconsume_times: int, broker: str | None = None
    ) -> None:
        """Have the broker give the group one more try at a record, after `delay_level`; a dead letter, too.

        With `max_reconsume_times` or more tries behind it, it goes to the dead letters (again). `broker`: the one that
        has the record; without it the record's own word of where it is stored counts.
        """
        ext = {
            "offset": str(message.position), "group": group, "delayLevel": str(delay_level),
            "originMsgId": message.unique_key or "", "originTopic": message.topic, "unitMode": "false",
            "maxReconsumeTimes": str(max_reconsume_times),
        }  # fmt: skip
        stored_at = written_address(*message.store_host)
        if broker is None and self._broker is None and stored_at in [each.address for each in await self.brokers()]:
            address = stored_at
        else:
            address = await self._address_of_queue(message.topic, message.queue_id, broker, reading=False)
        await self._change(Request.CONSUMER_SEND_MSG_BACK, ext, address=address)

    async def message_at(self, position: int, *, topic: str = "", address: str | None = None) -> Message:
        """Return the message at a byte address of the commit log; raises BrokerRefused if none begins there."""
        ext = {"offset": str(position), "topic": topic}
        answer = await self._ask(Request.VIEW_MESSAGE_BY_ID, ext, address=address)
        try:
            return read_record(answer.body)
        except BadAnswer:
            # Apache RocketMQ answers success and whatever bytes are there
            raise BrokerRefused(Answer.QUERY_NOT_FOUND, f"No whole record begins at position {position}.") from None

    async def message_by_offset_id(self, offset_message_id: str) -> Message:
        """Return the message with RocketMQ's offset id; raises InvalidArgument, BrokerRefused.

        Only brokers that the name server lists are asked: the address in the id comes from whoever gave it.
        """
        try:
            host, port, position = parse_offset_message_id(offset_message_id)
        except ValueError:
            raise InvalidArgument(f"{offset_message_id[:60]!r} is no offset message id.", field="id") from None
        wanted = written_address(host, port)
        if wanted not in [each.address for each in await self.members() if self._broker in (None, each.name)]:
            raise InvalidArgument(f"The id names broker {wanted}, which the name server does not list.", field="id")
        return await self.message_at(position, address=wanted)

    async def messages_by_key(
        self, topic: str, key: str, max_count: int = 64, *, begin_ms: int = 0, end_ms: int = WHOLE_TIME_MS
    ) -> list[Message]:
        """Return up to `max_count` messages with this key, newest first, stored from `begin_ms` to `end_ms` (epoch)."""
        return await self._query(topic, key, max_count, begin_ms, end_ms, unique=False)

    async def message_by_id(self, topic: str, message_id: str) -> Message | None:
        """Return the newest record of the topic with this message id, None if there is none."""
        found = await self.records_by_id(topic, message_id)
        return found[0] if found else None

    async def records_by_id(
        self, topic: str, message_id: str, max_count: int = 32, *, address: str | None = None
    ) -> list[Message]:
        """Return the records of the topic with this message id, newest first: a message can be parked more than once.

        `address`: only that broker is asked, not all that have the topic.
        """
        addresses = None if address is None else [address]
        return await self._query(topic, message_id, max_count, 0, WHOLE_TIME_MS, unique=True, addresses=addresses)

    async def records_of_ids(
        self, wanted: Collection[tuple[str, str]], max_count: int = 32
    ) -> dict[tuple[str, str], list[Message]]:
        """Return the records of each of these topics and message ids as `records_by_id` does, asked beside each other;
        none of a topic that is not there."""
        found: dict[tuple[str, str], list[Message]] = {}

        async def ask(topic: str, message_id: str) -> None:
            try:
                found[topic, message_id] = await self.records_by_id(topic, message_id, max_count)
            except (RouteNotFound, InvalidArgument):
                found[topic, message_id] = []

        await asyncio.gather(*(ask(topic, message_id) for topic, message_id in wanted))
        return found

    async def _query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, unique: bool,
        addresses: Sequence[str] | None = None,
    ) -> list[Message]:  # fmt: skip
        ext = {
            "topic": topic, "key": key, "maxNum": str(max_count), "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms), "_UNIQUE_KEY_QUERY": "true" if unique else "false",
            "indexType": "U" if unique else "K",
        }  # fmt: skip
        found: list[Message] = []
        for address in addresses or await self._addresses_of(topic):
            answer = await self._session.ask(address, Request.QUERY_MESSAGE, ext, accept=_QUERIED)
            found.extend(read_record(record) for record in split_records(answer.body))
        # the index knows hash codes only: other keys may share one
        matching = [each for each in found if key == each.unique_key or key in each.keys]
        return sorted(matching, key=lambda each: (each.store_ms, each.position), reverse=True)[:max_count]

    async def traces(self, message_id: str, *, topic: str = TRACE_TOPIC, max_count: int = 64) -> list[Trace]:
        """Return what was told of a message in `topic`, oldest first; nothing if its clients do not trace.

        A client tells within some seconds. A message's events may come twice, as every message may.
        """
        try:
            told = await self.messages_by_key(topic, message_id, max_count)
        except RouteNotFound:
            return []
        events = [each for message in told for each in read_traces(message.body) if each.message_id == message_id]
        return sorted(dict.fromkeys(events), key=lambda each: (each.at_ms or 0, _ORDER[each.kind]))

    async def changes(self, token: str, *, wait_ms: int = 0) -> dict[str, Any]:
        """Return what changed since `token` ("" for everything), as request 14000 answers it; raises NotSupported.

        Where nothing has, the broker may wait for it as long as `wait_ms` (at most 5 s).
        """
        answer = await self._ask(Request.GET_CHANGES, {"token": token, **({"waitMs": str(wait_ms)} if wait_ms else {})})
        return cast(dict[str, Any], read_object(answer.body))

    async def schedule_status(self) -> list[dict[str, Any]]:
        """Return all delay levels with their figures, as request 14001 answers them; raises NotSupported."""
        answer = await self._ask(Request.GET_SCHEDULE_STATUS)
        return cast(list[dict[str, Any]], answers.rows(read_object(answer.body).get("levels")))

    async def address_of(self, broker: str) -> str:
        """Return the address of a broker by its name; raises BrokerRefused if the name server does not list it."""
        for each in await self.brokers():
            if each.name == broker:
                return each.address
        raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"The name server lists no broker {broker!r}.")


#: The order of events of one millisecond.
_ORDER = {"sent": 0, "ended": 1, "recalled": 2, "delivered": 3, "handled": 4}


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
    """Return the list of so many things that `value` is; None for anything else."""
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
    """Return a whole number that is not negative; clients say -1 for what they do not know."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _figure(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
