"""The asynchronous admin: what brokers know about topics, groups, queues, levels and messages.

The one implementation; `Admin` is its synchronous face. Only RocketMQ's own requests are used, but for `changes`,
`schedule_status` and most of what is asked about timers and transactions: they raise NotSupported where the broker is
not Escapement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack, cast

import msgspec

from ..rocketmq.codes import Answer, Request
from ..rocketmq.message import Message, parse_offset_message_id
from ..rocketmq.topics import TEMPLATE_TOPIC, TOOLS_GROUP
from . import _answers as answers
from . import names
from ._admin_access import AccessQuestions
from ._admin_clients import ClientQuestions
from ._admin_settings import ProgressQuestions, SettingQuestions, TraceQuestions
from ._admin_timers import TimerQuestions
from ._admin_transactions import TransactionQuestions
from ._answers import read_object
from ._reader import PULL_BYTES, read_record, split_records
from ._session import DEFAULT_TIMEOUT_MS, Session
from ._types import Broker, Route
from .admin import (
    ConsumeStats,
    GroupConfig,
    GroupConnections,
    Pending,
    QueueEntries,
    TopicConfig,
    TopicStats,
    TopicWaiting,
)
from .credentials import Access
from .errors import BadAnswer, BrokerRefused, BrokerUnreachable, InvalidArgument
from .remoting import Response

_FOUND = (Answer.SUCCESS, Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED)
_QUERIED = (Answer.SUCCESS, Answer.QUERY_NOT_FOUND)
#: PullSysFlag: the request carries its subscription; nothing is suspended, nothing committed.
_WITH_SUBSCRIPTION = 4
WHOLE_TIME_MS = 2**62


class AsyncAdmin(
    AccessQuestions, ClientQuestions, ProgressQuestions, SettingQuestions, TimerQuestions, TraceQuestions,
    TransactionQuestions,
):  # fmt: skip
    """Asks the brokers of one name server; `broker` names the one for questions that only one can answer."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", broker: str | None = None, **access: Unpack[Access]) -> None:
        self._session = Session(namesrv, **access)
        self._broker = broker

    async def brokers(self) -> tuple[Broker, ...]:
        """The masters, by name."""
        return await self._session.masters()

    async def topics(self) -> tuple[TopicConfig, ...]:
        """Every topic of every broker, system topics included, by broker and name."""
        found: list[TopicConfig] = []
        for broker in await self.brokers():
            answer = await self._session.ask(broker.address, Request.GET_ALL_TOPIC_CONFIG)
            found.extend(answers.topic_configs(broker.name, read_object(answer.body)))
        return tuple(found)

    async def groups(self) -> tuple[GroupConfig, ...]:
        """Every consumer group of every broker, by broker and name."""
        found: list[GroupConfig] = []
        for broker in await self.brokers():
            answer = await self._session.ask(broker.address, Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            found.extend(answers.group_configs(broker.name, read_object(answer.body)))
        return tuple(found)

    async def route(self, topic: str) -> Route:
        """Where the topic lives now; raises RouteNotFound."""
        return await self._session.route(topic, max_age_s=0)

    async def topic_stats(self, topic: str) -> TopicStats:
        """Bounds of all queues of the topic; system topics are asked of every broker."""
        several = []
        for address in await self._addresses_of(topic):
            answer = await self._session.ask(address, Request.GET_TOPIC_STATS_INFO, {"topic": topic})
            several.append(read_object(answer.body))
        return answers.topic_stats(topic, several)

    async def _addresses_of(self, topic: str) -> list[str]:
        if topic in names.BROKER_TOPICS:
            return [broker.address for broker in await self.brokers()]
        return sorted((await self._session.route(topic)).addresses.values())

    async def consume_stats(self, group: str) -> ConsumeStats:
        """How far the group is in every queue it consumes."""
        several = []
        for broker in await self.brokers():
            answer = await self._session.ask(broker.address, Request.GET_CONSUME_STATS, {"consumerGroup": group})
            several.append(read_object(answer.body))
        return answers.consume_stats(group, several)

    async def connections(self, group: str) -> GroupConnections:
        """Who consumes for the group now; raises BrokerRefused with code 206 when nobody does."""
        answer = await self._ask(Request.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
        return answers.group_connections(group, read_object(answer.body))

    async def delay_offsets(self) -> dict[int, int]:
        """Level -> the offset in its queue of SCHEDULE_TOPIC_XXXX up to which was released."""
        return answers.delay_offsets(read_object((await self._ask(Request.GET_ALL_DELAY_OFFSET)).body))

    async def delay_levels(self) -> list[int]:
        """The delays in ms, level 1 first."""
        text = (await self.broker_config()).get("messageDelayLevel")
        if text is None:
            raise BadAnswer("The broker's configuration has no messageDelayLevel.")
        return answers.delay_level_ms(text)

    async def broker_config(self, *, address: str | None = None) -> dict[str, str]:
        """The broker's configuration (request 26): name -> text."""
        body = (await self._ask(Request.GET_BROKER_CONFIG, address=address)).body.decode("utf-8", "replace")
        pairs = (line.partition("=") for line in body.splitlines() if "=" in line and not line.startswith("#"))
        return {name.strip(): text.strip() for name, _, text in pairs}

    async def runtime(self) -> dict[str, str]:
        """The broker's figures (request 28): name -> text."""
        table = answers.fields(read_object((await self._ask(Request.GET_BROKER_RUNTIME_INFO)).body).get("table"))
        return {name: str(value) for name, value in table.items()}

    async def queue_entries(
        self, topic: str, queue_id: int, index: int, count: int, *, address: str | None = None
    ) -> QueueEntries:
        """Up to `count` entries of a consume queue from offset `index` on."""
        ext = {"topic": topic, "queueId": str(queue_id), "index": str(index), "count": str(count)}
        answer = await self._ask(Request.QUERY_CONSUME_QUEUE, ext, topic=topic, address=address)
        return answers.queue_entries(index, read_object(answer.body))

    async def pull(self, topic: str, queue_id: int, offset: int, count: int) -> list[Message]:
        """Up to `count` messages of a queue from `offset` on, whatever their tags; commits nothing."""
        ext = {
            "consumerGroup": TOOLS_GROUP, "topic": topic, "queueId": str(queue_id), "queueOffset": str(offset),
            "maxMsgNums": str(count), "maxMsgBytes": str(PULL_BYTES), "sysFlag": str(_WITH_SUBSCRIPTION),
            "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
            "expressionType": "TAG",
        }  # fmt: skip
        answer = await self._ask(Request.PULL_MESSAGE, ext, topic=topic, accept=_FOUND)
        return [read_record(record) for record in split_records(answer.body)] if answer.code == Answer.SUCCESS else []

    async def send_back(self, group: str, message: Message, *, delay_level: int, max_reconsume_times: int) -> None:
        """Have the broker give the group one more try at a record, after `delay_level`; a dead letter, too.

        With `max_reconsume_times` or more tries behind it, it goes to the dead letters (again).
        """
        ext = {
            "offset": str(message.position), "group": group, "delayLevel": str(delay_level),
            "originMsgId": message.unique_key or "", "originTopic": message.topic, "unitMode": "false",
            "maxReconsumeTimes": str(max_reconsume_times),
        }  # fmt: skip
        await self._ask(Request.CONSUMER_SEND_MSG_BACK, ext, topic=message.topic)

    async def message_at(self, position: int, *, topic: str = "", address: str | None = None) -> Message:
        """The message at a byte address of the commit log; raises BrokerRefused if none begins there."""
        ext = {"offset": str(position), "topic": topic}
        answer = await self._ask(Request.VIEW_MESSAGE_BY_ID, ext, address=address)
        try:
            return read_record(answer.body)
        except BadAnswer:
            # Apache RocketMQ answers success and whatever bytes are there
            raise BrokerRefused(Answer.QUERY_NOT_FOUND, f"No whole record begins at position {position}.") from None

    async def message_by_offset_id(self, offset_message_id: str) -> Message:
        """The message with RocketMQ's offset id. Only brokers that the name server lists are asked: the address in
        the id comes from whoever gave it."""
        try:
            host, port, position = parse_offset_message_id(offset_message_id)
        except ValueError:
            raise InvalidArgument(f"{offset_message_id[:60]!r} is no offset message id.", field="id") from None
        wanted = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if wanted not in [broker.address for broker in await self.brokers()]:
            raise InvalidArgument(f"The id names broker {wanted}, which the name server does not list.", field="id")
        return await self.message_at(position, address=wanted)

    async def messages_by_key(
        self, topic: str, key: str, max_count: int = 64, *, begin_ms: int = 0, end_ms: int = WHOLE_TIME_MS
    ) -> list[Message]:
        """Messages of the topic with this key, newest first."""
        return await self._query(topic, key, max_count, begin_ms, end_ms, unique=False)

    async def message_by_unique_id(self, topic: str, unique_id: str) -> Message | None:
        """The newest record of the topic with this unique id, or None."""
        found = await self.records_by_unique_id(topic, unique_id)
        return found[0] if found else None

    async def records_by_unique_id(self, topic: str, unique_id: str, max_count: int = 32) -> list[Message]:
        """Every record of the topic with this unique id, newest first: a message can be parked more than once."""
        return await self._query(topic, unique_id, max_count, 0, WHOLE_TIME_MS, unique=True)

    async def _query(
        self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[Message]:
        ext = {
            "topic": topic, "key": key, "maxNum": str(max_count), "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms), "_UNIQUE_KEY_QUERY": "true" if unique else "false",
            "indexType": "U" if unique else "K",
        }  # fmt: skip
        found: list[Message] = []
        for address in await self._addresses_of(topic):
            answer = await self._session.ask(address, Request.QUERY_MESSAGE, ext, accept=_QUERIED)
            found.extend(read_record(record) for record in split_records(answer.body))
        # the index knows hash codes only: other keys may share one
        matching = [each for each in found if key == each.unique_key or key in each.keys]
        return sorted(matching, key=lambda each: (each.store_ms, each.position), reverse=True)[:max_count]

    async def changes(self, token: str) -> dict[str, Any]:
        """What changed since `token` ("" for everything): body of request 14000; raises NotSupported."""
        answer = await self._ask(Request.GET_CHANGES, {"token": token})
        return cast(dict[str, Any], read_object(answer.body))

    async def schedule_status(self) -> list[dict[str, Any]]:
        """All levels with their figures: body of request 14001; raises NotSupported."""
        answer = await self._ask(Request.GET_SCHEDULE_STATUS)
        return cast(list[dict[str, Any]], answers.rows(read_object(answer.body).get("levels")))

    async def create_group(self, name: str, *, retry_max_times: int = 16, in_order: bool = False) -> None:
        """Create the consumer group, or change it, on every broker (or the one this admin is for).

        `retry_max_times`: after so many tries more a message is a dead letter. `in_order`: 5.x clients of the group get
        the messages of a queue one after the other.
        """
        names.check_group(name)
        if not 0 <= retry_max_times <= 10_000:
            raise InvalidArgument(f"{retry_max_times} retries: allowed are 0 to 10,000.", field="retry_max_times")
        config = {
            "groupName": name, "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
            "consumeMessageOrderly": in_order, "retryQueueNums": 1, "retryMaxTimes": retry_max_times, "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True, "groupSysFlag": 0,
            "consumeTimeoutMinute": 15,
        }  # fmt: skip
        for broker in await self._chosen():
            code = Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            await self._session.ask(broker.address, code, body=msgspec.json.encode(config))

    async def create_topic(
        self, name: str, *, queues: int = 4, permission: int = 6, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic, or change it, on every broker (or the one this admin is for)."""
        names.check_writable_topic(name)
        if not 1 <= queues <= 1024:
            raise InvalidArgument(f"queues {queues} is not valid: 1 to 1,024.", field="queues")
        ext = {
            "topic": name, "defaultTopic": TEMPLATE_TOPIC, "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": str(permission), "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
            "attributes": ",".join(f"+{key}={text}" for key, text in (attributes or {}).items()), "force": "false",
        }  # fmt: skip
        for broker in await self._chosen():
            await self._session.ask(broker.address, Request.UPDATE_AND_CREATE_TOPIC, ext)
        self._session.forget_route(name)

    async def topic_waiting(self, name: str) -> TopicWaiting:
        """Return what waits for a topic on all brokers. Raises BrokerRefused where a broker cannot say (Apache's)."""
        found = TopicWaiting()
        for broker in await self._chosen():
            answer = await self._session.ask(broker.address, Request.GET_TOPIC_WAITING, {"topic": name})
            try:
                found += msgspec.json.decode(answer.body, type=TopicWaiting)
            except msgspec.DecodeError as error:
                raise BadAnswer(f"The count cannot be read: {error}") from None
        return found

    async def delete_topic(self, name: str, pending: Pending | None = None) -> TopicWaiting | None:
        """Delete the topic on every broker, then in the name server; return what waited for it, None where that is not
        told (Apache RocketMQ's brokers).

        ``pending``: what is to become of that which waits for it (timers, delayed messages, halves); with None a
        broker of this project refuses (BrokerRefused) to delete a topic for which something waits.
        """
        names.check_writable_topic(name)
        ext = {"topic": name} if pending is None else {"topic": name, "escPending": pending}
        told = []
        for broker in await self._chosen():
            answer = await self._session.ask(broker.address, Request.DELETE_TOPIC_IN_BROKER, ext)
            told.append(TopicWaiting.of_fields(answer.ext))
        await self._session.ask_name_server(Request.DELETE_TOPIC_IN_NAMESRV, {"topic": name})
        self._session.forget_route(name)
        known = [each for each in told if each is not None]
        return sum(known, TopicWaiting()) if len(known) == len(told) else None

    async def address_of(self, broker: str) -> str:
        """The address of a broker by its name; raises BrokerRefused if the name server does not list it."""
        for each in await self.brokers():
            if each.name == broker:
                return each.address
        raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"The name server lists no broker {broker!r}.")

    async def _chosen(self) -> tuple[Broker, ...]:
        found = await self.brokers()
        chosen = tuple(each for each in found if self._broker in (None, each.name))
        if not chosen:
            raise BrokerUnreachable(self._broker or "any broker", "the name server lists none")
        return chosen

    async def _ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, topic: str | None = None,
        accept: Collection[int] = (Answer.SUCCESS,), address: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Response:  # fmt: skip
        """Ask the broker at `address`, or the one of this admin; of a topic's question, one that has the topic."""
        if address is not None:
            return await self._session.ask(address, code, ext, body, accept=accept, timeout_ms=timeout_ms)
        chosen = await self._chosen()
        address = chosen[0].address
        if self._broker is None and len(chosen) > 1 and topic is not None and topic not in names.BROKER_TOPICS:
            address = (await self._addresses_of(topic) or [address])[0]
        return await self._session.ask(address, code, ext, body, accept=accept, timeout_ms=timeout_ms)

    async def close(self) -> None:
        """End the connections; idempotent."""
        await self._session.close()
