"""Clients that say they are there (34, 35, 46), who is there (38, 203, 204, 328), and what only they can answer.

`ClientQueryProcessor` has the questions that only a connected consumer can answer: 307 what it does, 309 to consume a
message at once, 223 how far it is (221 to each client). The broker asks the client and hands its answer on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ...engine.errors import InvalidValue
from ...engine.tables.groups import Group
from ...engine.tables.topics import MOST_QUEUES, Topic
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import body_as, json_body, text
from ...rocketmq.frame import Command
from ...rocketmq.message import decode, parse_offset_message_id
from ...rocketmq.subscription import SubscriptionBody, subscription_body
from ...rocketmq.topics import RETRY_PREFIX, check_group_name, check_topic_name, is_of_tools
from ...rocketmq.values import check_text, tidy
from ..connection import Connection, Handler
from ..state import LONGEST_CLIENT_ID, BrokerState, ClientCalls, ConsumerGroup, Member, language_of

MOST_GROUPS = 1000
"""Groups that one heartbeat may name."""

MOST_SUBSCRIPTIONS = 10_000
"""Topics that one heartbeat may subscribe to."""

MOST_LETTERS = 1 << 20
"""Characters of all its expressions together: a hundred for each of 10,000 topics, or 16 of the longest."""

LONGEST_PRODUCER_GROUP = 255
"""Its characters are not asked for: producers that are not Java's are free in that."""

_LONGEST_WORD = 64

DETAILS = "escDetails"
"""Field of 203 and 328, "true": the answer has what only Escapement tells, too."""


class ProducerBody(msgspec.Struct, rename="camel"):
    """A producer group in a heartbeat (ProducerData)."""

    group_name: str


class ConsumerBody(msgspec.Struct, rename="camel"):
    """A consumer group in a heartbeat (ConsumerData)."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionBody] = []
    unit_mode: bool = False


class HeartbeatBody(msgspec.Struct):
    """The body of a heartbeat (HeartbeatData)."""

    client_id: str = msgspec.field(name="clientID")
    producers: list[ProducerBody] = msgspec.field(name="producerDataSet", default_factory=list)
    consumers: list[ConsumerBody] = msgspec.field(name="consumerDataSet", default_factory=list)
    is_without_subscriptions: bool = msgspec.field(name="withoutSub", default=False)


class ClientConfigBody(msgspec.Struct, rename="camel"):
    """The body of request 46 (CheckClientRequestBody)."""

    subscription_data: SubscriptionBody
    client_id: str = ""
    group: str = ""


class HeartbeatProcessor:
    """The requests by which clients come, go and are listed."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._clients = state.clients

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.HEART_BEAT: self._heartbeat,
            Request.UNREGISTER_CLIENT: self._unregister,
            Request.CHECK_CLIENT_CONFIG: self._check_config,
            Request.GET_CONSUMER_LIST_BY_GROUP: self._consumer_ids,
            Request.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            Request.GET_PRODUCER_CONNECTION_LIST: self._producer_connections,
            Request.GET_ALL_PRODUCER_INFO: self._all_producers,
        }

    def _heartbeat(self, connection: Connection, request: Command) -> Command:
        beat = body_as(HeartbeatBody, request.body)
        self._check(beat)
        language = language_of(request.language)
        member = Member(connection, beat.client_id, language, request.version, self._state.clock())
        groups, refusal = self._groups(beat.consumers)
        for consumer in beat.consumers:
            group = groups.get(consumer.group_name)
            if group is not None:
                self._consumer(member, consumer, group, keep_subscriptions=beat.is_without_subscriptions)
        for producer in beat.producers:
            self._clients.add_producer(producer.group_name, member)
        if refusal is not None:
            raise refusal
        # IS_SUB_CHANGE keeps clients from leaving their subscriptions out of the next heartbeat.
        return request.answer({"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})

    def _check(self, beat: HeartbeatBody) -> None:
        """Refuse what cannot be kept, before anything of it is."""
        if len(beat.producers) + len(beat.consumers) > MOST_GROUPS:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A heartbeat may name {MOST_GROUPS} groups.")
        if sum(len(consumer.subscription_data_set) for consumer in beat.consumers) > MOST_SUBSCRIPTIONS:
            remark = f"A heartbeat may subscribe to {MOST_SUBSCRIPTIONS:,} topics."
            raise RequestRefused(Answer.INVALID_PARAMETER, remark)
        letters = sum(
            len(each.sub_string or "") for consumer in beat.consumers for each in consumer.subscription_data_set
        )
        if letters > MOST_LETTERS:
            remark = f"The expressions of a heartbeat may have {MOST_LETTERS:,} characters together."
            raise RequestRefused(Answer.INVALID_PARAMETER, remark)
        check_text("The client id", beat.client_id, most=LONGEST_CLIENT_ID)
        for producer in beat.producers:
            check_text("The producer group", producer.group_name, most=LONGEST_PRODUCER_GROUP)
        for consumer in beat.consumers:
            check_group_name(consumer.group_name)
            check_topic_name(RETRY_PREFIX + consumer.group_name)
            for subscription in consumer.subscription_data_set:
                subscription.check()

    def _groups(self, consumers: Iterable[ConsumerBody]) -> tuple[dict[str, Group], InvalidValue | None]:
        """Return the groups, made with their retry topics if need be, all with two saves. Where only administrators
        make groups, those that are not there are left out; where there is no room for new ones, all of these, and
        why."""
        engine, may_make = self._state.engine, self._state.config.auto_create_groups
        known = {consumer.group_name: engine.groups.get(consumer.group_name) for consumer in consumers}
        missing = [Group(name) for name, group in known.items() if group is None and may_make]
        groups = {name: group for name, group in known.items() if group is not None}
        if not may_make:
            groups |= {name: Group(name) for name in known.keys() - groups.keys() if is_of_tools(name)}
        try:
            self._make(missing, groups)
        except InvalidValue as refusal:
            return groups, refusal
        return groups | {group.name: group for group in missing}, None

    def _make(self, missing: list[Group], groups: Mapping[str, Group]) -> None:
        """Make groups, and the retry topics of these and of others that have none. Raises InvalidValue, OSError; with
        the first nothing was made."""
        engine = self._state.engine
        wanted = {RETRY_PREFIX + group.name: group.retry_queues for group in (*missing, *groups.values())}
        counts = {name: min(max(count, 1), MOST_QUEUES) for name, count in wanted.items()}
        new = [Topic(name, count, count) for name, count in counts.items() if engine.topics.get(name) is None]
        if new:
            engine.topics.check_room(new)
        if missing:
            engine.groups.put_many(missing)
        if new:
            engine.topics.put_many(new)

    def _consumer(self, member: Member, consumer: ConsumerBody, group: Group, *, keep_subscriptions: bool) -> None:
        known = self._clients.consumers(group.name)
        if keep_subscriptions:
            subscriptions = list(known.subscriptions.values()) if known is not None else []
        else:
            subscriptions = [body.noted() for body in consumer.subscription_data_set]
        kind, model, where = (
            tidy(word, _LONGEST_WORD)
            for word in (consumer.consume_type, consumer.message_model, consumer.consume_from_where)
        )
        self._clients.add_consumer(
            ConsumerGroup(group.name, kind, model, where),
            member,
            subscriptions,
            notify=group.notify_consumer_ids_changed,
        )

    def _unregister(self, connection: Connection, request: Command) -> Command:
        for kind, field in (("producer", "producerGroup"), ("consumer", "consumerGroup")):
            name = request.ext.get(field)
            if name:
                group = self._state.engine.groups.get(name)
                notify = group is None or group.notify_consumer_ids_changed
                self._clients.remove(connection, kind, name, notify=notify)
        return request.answer()

    def _check_config(self, _: Connection, request: Command) -> Command:
        if request.body:
            body = body_as(ClientConfigBody, request.body)
            body.subscription_data.subscription()
        return request.answer()

    def _consumer_ids(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "consumerGroup")
        group = self._clients.consumers(name)
        if group is None:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"no consumer for this group, {name}")
        ids = sorted({member.client_id for member in group.members.values()})
        return request.answer(body=json_body({"consumerIdList": ids}))

    def _consumer_connections(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "consumerGroup")
        group = self._clients.consumers(name)
        if group is None:
            raise RequestRefused(Answer.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
        subscriptions = {topic: subscription_body(wanted) for topic, wanted in group.subscriptions.items()}
        body: dict[str, object] = {
            "connectionSet": _connection_set(group.members.values()),
            "consumeFromWhere": group.from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": subscriptions,
        }
        if request.ext.get(DETAILS) == "true":
            body |= self._details(group)
        return request.answer(body=json_body(body))

    def _details(self, group: ConsumerGroup) -> dict[str, object]:
        """Return what RocketMQ does not tell: since when each is there, its last heartbeat, who holds which queue."""
        seen = {
            member.client_id: [self._clients.since_ms(member.connection), member.seen_ms]
            for member in group.members.values()
        }
        locks = self._state.locks.held(group.name, self._state.live_clock())
        return {"escSeen": seen, "escLocks": [[topic, queue, owner] for (topic, queue), owner in locks]}

    def _producer_connections(self, _: Connection, request: Command) -> Command:
        name = text(request.ext, "producerGroup")
        members = self._clients.producers(name)
        if not members:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"the producer group[{name}] not exist")
        return request.answer(body=json_body({"connectionSet": _connection_set(members)}))

    def _all_producers(self, _: Connection, request: Command) -> Command:
        is_asked = request.ext.get(DETAILS) == "true"
        table = {
            group: [
                {
                    "clientId": member.client_id,
                    "language": member.language,
                    "lastUpdateTimestamp": member.seen_ms,
                    "remoteIP": f"/{member.connection.address}",
                    "version": member.version,
                    **({"escSinceMs": self._clients.since_ms(member.connection)} if is_asked else {}),
                }
                for member in members
            ]
            for group, members in self._clients.all_producers().items()
        }
        return request.answer(body=json_body({"data": table}))


def _connection_set(members: Iterable[Member]) -> list[dict[str, object]]:
    return [
        {
            "clientAddr": member.connection.address,
            "clientId": member.client_id,
            "language": member.language,
            "version": member.version,
        }
        for member in members
    ]


# What only a client can answer.

CLIENT_TIMEOUT_MS = 10_000
"""As long as RocketMQ waits for a client (Broker2Client.callClient)."""

STATUS_TIMEOUT_MS = 5_000

_QUEUE_TABLE = b'"messageQueueTable":'
#: a text without its end is one as well: to look at each of its quotes anew would take its length squared
_STRING_OR_BRACE = re.compile(rb'(?s)"(?:[^"\\]|\\.)*+"?|[{}]')


class ClientQueryProcessor:
    """The requests of administrators that only a client can answer."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.GET_CONSUMER_RUNNING_INFO: self._running_info,
            Request.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
            Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._status,
        }

    def _running_info(self, connection: Connection, request: Command) -> None:
        self._relay(connection, request, request.ext, b"")

    def _consume_directly(self, connection: Connection, request: Command) -> None:
        engine, ext = self._state.engine, {**request.ext, "brokerName": self._state.config.broker_name}
        try:
            _, _, position = parse_offset_message_id(text(ext, "msgId"))
        except ValueError:
            remark = f"{ext['msgId'][:80]!r} is no offset message id: 32 hex digits, address and position."
            raise RequestRefused(Answer.INVALID_PARAMETER, remark) from None
        record = engine.look_at(position)
        name, real = ext.get("topic", ""), decode(record, verify=False).topic
        if name and real not in {name, RETRY_PREFIX + text(ext, "consumerGroup")}:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"The message {ext['msgId']} is not of topic {name!r}.")
        topic = engine.topics.get(name)
        ext |= {"topicSysFlag": str(topic.system_flag if topic is not None else 0), "groupSysFlag": "0"}
        self._relay(connection, request, ext, record)

    def _relay(self, connection: Connection, request: Command, ext: dict[str, str], body: bytes) -> None:
        """Hand a question to the client that it names, and the client's answer back."""
        group, client_id = text(ext, "consumerGroup"), text(ext, "clientId")
        member = self._member(group, client_id)

        def answered(answer: Command | None) -> None:
            if answer is not None:
                back = request.answer(answer.ext, answer.body, code=answer.code, remark=answer.remark)
            else:
                remark = f"consumer <{group}> <{client_id}> did not answer within {CLIENT_TIMEOUT_MS} ms"
                back = request.answer(code=Answer.CONSUME_MSG_TIMEOUT, remark=remark)
            if not request.is_oneway:
                connection.send(back)

        self._state.calls.ask(member.connection, request.code, ext, body, CLIENT_TIMEOUT_MS, answered)

    def _member(self, group: str, client_id: str) -> Member:
        consumers = self._state.clients.consumers(group)
        for member in consumers.members.values() if consumers is not None else ():
            if member.client_id == client_id:
                return member
        raise RequestRefused(Answer.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")

    def _status(self, connection: Connection, request: Command) -> None:
        topic, group = text(request.ext, "topic"), text(request.ext, "group")
        only = request.ext.get("clientAddr")
        consumers = self._state.clients.consumers(group)
        if consumers is None:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
        members = [member for member in consumers.members.values() if only in (None, "", member.client_id)]
        statuses = _Statuses(connection, request, len(members))
        for member in members:
            statuses.ask(self._state.calls, member, {"topic": topic, "group": group})


class _Statuses:
    """The answers of a group's clients to 221, told together once all have spoken or had their time."""

    def __init__(self, connection: Connection, request: Command, missing: int) -> None:
        self._connection = connection
        self._request = request
        self._missing = missing
        self._tables: list[tuple[str, msgspec.Raw]] = []
        if not missing:
            self._answer()

    def ask(self, calls: ClientCalls, member: Member, ext: dict[str, str]) -> None:
        """Ask one client for its table."""

        def answered(answer: Command | None) -> None:
            if answer is not None and answer.code == Answer.SUCCESS:
                self._tables.append((member.client_id, msgspec.Raw(queue_table(answer.body))))
            self._missing -= 1
            if not self._missing:
                self._answer()

        calls.ask(member.connection, Request.GET_CONSUMER_STATUS_FROM_CLIENT, ext, b"", STATUS_TIMEOUT_MS, answered)

    def _answer(self) -> None:
        body = {"consumerTable": dict(self._tables), "messageQueueTable": {}}
        self._connection.send(self._request.answer(body=json_body(body)))


def queue_table(body: bytes) -> bytes:
    """Return the table of queues in a client's answer to 221: it has objects as keys, so it is cut out, not read."""
    start = body.find(_QUEUE_TABLE) + len(_QUEUE_TABLE)
    depth = 0
    if start >= len(_QUEUE_TABLE):
        for found in _STRING_OR_BRACE.finditer(body, start):
            depth += {b"{": 1, b"}": -1}.get(found[0], 0)
            if not depth:
                return body[start : found.end()] if body[start : start + 1] == b"{" else b"{}"
    return b"{}"
