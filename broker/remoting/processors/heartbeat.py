"""Clients that say they are there: 34, 35, 46; who is there: 38, 203, 204, 328."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ...engine.store.topics import RETRY_PREFIX
from ..clients import ConsumerGroup, Member
from ..codec import Command
from ..codes import Answer, Request
from ..errors import RequestRefused
from ..fields import body_as, text
from ..jsonbody import json_body
from ..server import Connection, Handler
from ..state import BrokerState
from ..subscription import SubscriptionBody, subscription_body

MOST_GROUPS = 1000
"""Groups that one heartbeat may name."""

DETAILS = "escDetails"
"""Field of 203 and 328, "true": the answer has what only Escapement tells, too."""


class ProducerBody(msgspec.Struct, rename="camel"):
    """ProducerData of a heartbeat."""

    group_name: str


class ConsumerBody(msgspec.Struct, rename="camel"):
    """ConsumerData of a heartbeat."""

    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionBody] = []
    unit_mode: bool = False


class HeartbeatBody(msgspec.Struct):
    """HeartbeatData."""

    client_id: str = msgspec.field(name="clientID")
    producers: list[ProducerBody] = msgspec.field(name="producerDataSet", default_factory=list)
    consumers: list[ConsumerBody] = msgspec.field(name="consumerDataSet", default_factory=list)
    is_without_subscriptions: bool = msgspec.field(name="withoutSub", default=False)


class ClientConfigBody(msgspec.Struct, rename="camel"):
    """CheckClientRequestBody."""

    subscription_data: SubscriptionBody
    client_id: str = ""
    group: str = ""


class HeartbeatProcessor:
    """Keeps the list of connected clients."""

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
        if len(beat.producers) + len(beat.consumers) > MOST_GROUPS:
            raise RequestRefused(Answer.INVALID_PARAMETER, f"A heartbeat may name {MOST_GROUPS} groups.")
        member = Member(connection, beat.client_id, request.language, request.version, self._state.clock())
        for consumer in beat.consumers:
            self._consumer(member, consumer, keep_subscriptions=beat.is_without_subscriptions)
        for producer in beat.producers:
            self._clients.add_producer(producer.group_name, member)
        # IS_SUB_CHANGE keeps clients from leaving their subscriptions out of the next heartbeat.
        return request.answer({"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})

    def _consumer(self, member: Member, consumer: ConsumerBody, *, keep_subscriptions: bool) -> None:
        engine = self._state.engine
        group = engine.groups.ensure(consumer.group_name)
        engine.topics.ensure(RETRY_PREFIX + group.name, max(group.retry_queues, 1))
        known = self._clients.consumers(group.name)
        if keep_subscriptions:
            subscriptions = list(known.subscriptions.values()) if known is not None else []
        else:
            subscriptions = [body.noted() for body in consumer.subscription_data_set]
        self._clients.add_consumer(
            ConsumerGroup(group.name, consumer.consume_type, consumer.message_model, consumer.consume_from_where),
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
        """What RocketMQ does not tell: since when each is there, its last heartbeat, who holds which queue."""
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
