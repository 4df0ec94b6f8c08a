"""Parts of the asynchronous admin: how it asks, and what it asks about the settings of a cluster.

- `Questions` is what all parts stand on: the connections, and which broker is asked.
- `SettingQuestions` makes, changes and deletes topics and groups. Fields are RocketMQ's own; what is not named stays.
- `ProgressQuestions` looks for places in queues, and moves groups to them.
- `AccessQuestions` asks what access control lets a user do. What a broker tells of one is decided upon here by the
  broker's own rule (broker/rocketmq/acl.py): there is no second one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Unpack

import msgspec

from ..rocketmq.acl import AccessError, Policies, PolicyType, entry, policy_type, subject_of, user_status, user_type
from ..rocketmq.codes import Answer, Request
from ..rocketmq.topics import TEMPLATE_TOPIC
from . import names
from ._answers import Fields, fields, members, read_json, read_object
from ._event_loop import AsyncClosing
from ._session import DEFAULT_TIMEOUT_MS, Session
from ._types import Broker
from .admin import Administration, Pending, TopicWaiting, UserAccess
from .credentials import Access
from .errors import (
    BadAnswer,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    InvalidArgument,
    NotSupported,
    RouteNotFound,
    Timeout,
)
from .names import check_user
from .remoting import Response


class Questions(AsyncClosing):
    """The way to ask; each part of the admin adds its questions."""

    def __init__(self, namesrv: str = "127.0.0.1:9876", broker: str | None = None, **access: Unpack[Access]) -> None:
        self._session = Session(namesrv, **access)
        self._broker = broker

    async def brokers(self) -> tuple[Broker, ...]:
        """Return the master of every broker that the name server lists, by name; empty if there is none."""
        return await self._session.masters()

    async def members(self) -> tuple[Broker, ...]:
        """Return every process that the name server lists, masters and slaves, by name and broker id."""
        return await self._session.members()

    async def asked(self) -> Broker:
        """Return who answers now what this admin wants to know: the master of its broker (the first without one).

        Of a broker that is named it is a slave, where the name server lists one, while the master is listed no more or
        could not be reached just before. Raises BrokerUnreachable.
        """
        return (await self._readable())[0]

    async def close(self) -> None:
        """End all connections; idempotent."""
        await self._session.close()

    async def _chosen(self) -> tuple[Broker, ...]:
        found = await self.brokers()
        chosen = tuple(each for each in found if self._broker in (None, each.name))
        if not chosen:
            raise BrokerUnreachable(self._broker or "any broker", "the name server lists none")
        return chosen

    async def _readable(self) -> tuple[Broker, ...]:
        """Return whom to ask what only reads: the chosen brokers; of one that is named also a slave."""
        if self._broker is None:
            return await self._chosen()
        found = {each.broker_id: each for each in await self.members() if each.name == self._broker}
        best = self._session.readable_at((number, each.address) for number, each in found.items())
        return await self._chosen() if best is None else (found[best[0]],)

    async def _ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *,
        accept: Collection[int] = (Answer.SUCCESS,), address: str | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Response:  # fmt: skip
        """Ask the broker at `address`, or the one of this admin, what only reads."""
        if address is None:
            address = (await self.asked()).address
        return await self._session.ask(address, code, ext, body, accept=accept, timeout_ms=timeout_ms)

    async def _change(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, address: str | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> Response:  # fmt: skip
        """Have the broker at `address`, or the master of this admin's, change something: a slave is never asked to."""
        if address is None:
            address = (await self._chosen())[0].address
        return await self._session.ask(address, code, ext, body, timeout_ms=timeout_ms)

    async def _addresses_of(self, topic: str) -> list[str]:
        if self._broker is not None or topic in names.BROKER_TOPICS:
            return [broker.address for broker in await self._readable()]
        return sorted((await self._session.route(topic)).addresses.values())

    async def _address_of_queue(self, topic: str, queue_id: int, broker: str | None, *, reading: bool = True) -> str:
        """Return where a queue is: at this broker, or that of the admin, else at the first that has one of its number.

        For what only reads it may be a slave. Raises RouteNotFound, BrokerUnreachable, BrokerRefused.
        """
        if broker is not None and self._broker not in (None, broker):
            raise InvalidArgument(f"This admin asks broker {self._broker} only, not {broker}.", field="broker")
        members = await self.members()
        known = {each.name for each in members}
        if broker is None and self._broker is None and (topic in names.BROKER_TOPICS or len(known) < 2):
            return (await self._readable() if reading else await self._chosen())[0].address
        broker = broker or self._broker
        if broker is not None:
            processes = [(each.broker_id, each.address) for each in members if each.name == broker]
            return self._found(processes, broker, topic, reading=reading)
        route = await self._session.route(topic)
        queues = [each for each in route.readable() if each.queue_id == queue_id] or route.readable()
        broker = queues[0].broker if queues else next(iter(sorted(route.addresses)), "")
        return self._found(route.processes(broker), broker, topic, reading=reading)

    def _found(self, processes: Iterable[tuple[int, str]], broker: str, topic: str, *, reading: bool) -> str:
        """Choose one of a broker's processes; raises BrokerRefused where there is none."""
        best = self._session.readable_at(each for each in processes if reading or not each[0])
        if best is None:
            raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"Broker {broker} does not hold topic {topic} now.")
        return best[1]


_NEW_TOPIC: Fields = {
    "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
    "order": False, "attributes": {},
}  # fmt: skip
_NEW_GROUP: Fields = {
    "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
    "consumeMessageOrderly": False, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True, "groupSysFlag": 0,
    "consumeTimeoutMinute": 15,
}  # fmt: skip

_ABSENT = (Answer.TOPIC_NOT_EXIST, Answer.SUBSCRIPTION_GROUP_NOT_EXIST)


class SettingQuestions(Questions):
    """The questions about settings of topics and groups, and their changes."""

    async def create_group(self, name: str, *, retry_max_times: int = 16, in_order: bool = False) -> None:
        """Create the consumer group, or change it, on every broker (or the one this admin is for).

        `retry_max_times`: after so many tries more a message is a dead letter. `in_order`: 5.x clients of the group get
        the messages of a queue one after the other.
        """
        names.check_group(name)
        if not 0 <= retry_max_times <= 10_000:
            raise InvalidArgument(f"{retry_max_times} retries: allowed are 0 to 10,000.", field="retry_max_times")
        await self._set_group(
            {**_NEW_GROUP, "groupName": name, "retryMaxTimes": retry_max_times, "consumeMessageOrderly": in_order}
        )

    async def create_topic(
        self, name: str, *, queues: int = 4, permission: int = 6, attributes: Mapping[str, str] | None = None
    ) -> None:
        """Create the topic, or change it, on every broker (or the one this admin is for)."""
        names.check_writable_topic(name)
        if not 1 <= queues <= 1024:
            raise InvalidArgument(f"queues {queues} is not valid: 1 to 1,024.", field="queues")
        config = {**_NEW_TOPIC, "readQueueNums": queues, "writeQueueNums": queues, "perm": permission}
        await self._set_topic(name, config, attributes or {})
        self._session.forget_route(name)

    async def topic_waiting(self, name: str) -> TopicWaiting:
        """Return what is pending for a topic on all brokers. Raises BrokerRefused if one cannot tell (Apache's)."""
        found = TopicWaiting()
        for broker in await self._chosen():
            answer = await self._ask(Request.GET_TOPIC_WAITING, {"topic": name}, address=broker.address)
            try:
                found += msgspec.json.decode(answer.body, type=TopicWaiting)
            except msgspec.DecodeError as error:
                raise BadAnswer(f"The count cannot be read: {error}") from None
        return found

    async def delete_topic(self, name: str, pending: Pending | None = None) -> TopicWaiting | None:
        """Delete the topic on every broker, then in the name server; return what waited for it, None where that is not
        told (Apache RocketMQ's brokers). An admin of one broker deletes it there, and in the name server only if no
        other has it.

        ``pending``: what is to become of that which waits for it (timers, delayed messages, halves); with None a
        broker of this project refuses (BrokerRefused) to delete a topic for which something waits.
        """
        names.check_writable_topic(name)
        ext = {"topic": name} if pending is None else {"topic": name, "escPending": pending}
        told = []
        for broker in await self._chosen():
            answer = await self._change(Request.DELETE_TOPIC_IN_BROKER, ext, address=broker.address)
            told.append(TopicWaiting.of_fields(answer.ext))
        if not await self._is_elsewhere(name):
            await self._session.ask_name_server(Request.DELETE_TOPIC_IN_NAMESRV, {"topic": name})
        self._session.forget_route(name)
        known = [each for each in told if each is not None]
        return sum(known, TopicWaiting()) if len(known) == len(told) else None

    async def _is_elsewhere(self, topic: str) -> bool:
        """Tell whether other brokers than that of this admin have the topic."""
        if self._broker is None:
            return False
        try:
            return bool((await self._session.route(topic, max_age_s=0)).addresses.keys() - {self._broker})
        except RouteNotFound:
            return False

    async def topic_settings(self, name: str) -> dict[str, Any] | None:
        """Return a topic's TopicConfig as the (first) broker keeps it, None if there is no such topic."""
        try:
            return read_object((await self._ask(Request.GET_TOPIC_CONFIG, {"topic": name})).body)
        except BrokerRefused as refusal:
            return await self._one_of_all(refusal, Request.GET_ALL_TOPIC_CONFIG, "topicConfigTable", name)

    async def set_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the topic everywhere, or make it; `attributes` holds name -> value, None removes."""
        names.check_writable_topic(name)
        config = {**_NEW_TOPIC, **(await self.topic_settings(name) or {}), **changes}
        await self._set_topic(name, config, changes.get("attributes") or {})

    async def _set_topic(self, name: str, config: Mapping[str, Any], attributes: Mapping[str, str | None]) -> None:
        """Set the topic on every chosen broker; attributes are told as changes."""
        changed = [f"-{each}" if value is None else f"+{each}={value}" for each, value in attributes.items()]
        ext = {
            "topic": name,
            "defaultTopic": TEMPLATE_TOPIC,
            "readQueueNums": str(config["readQueueNums"]),
            "writeQueueNums": str(config["writeQueueNums"]),
            "perm": str(config["perm"]),
            "topicFilterType": str(config["topicFilterType"]),
            "topicSysFlag": str(config["topicSysFlag"]),
            "order": "true" if config["order"] else "false",
            "attributes": ",".join(changed),
            "force": "false",
        }
        for broker in await self._chosen():
            await self._change(Request.UPDATE_AND_CREATE_TOPIC, ext, address=broker.address)

    async def change_broker_settings(self, changes: Mapping[str, str], *, address: str | None = None) -> None:
        """Change settings of the broker while it runs (request 25), by RocketMQ's names; raises InvalidArgument.

        Escapement makes all or none and keeps them over a start: raises BrokerRefused for what cannot be changed, or
        not to that. Apache RocketMQ takes what it can read and ignores the rest without a word.
        """
        if not changes:
            raise InvalidArgument("No setting is named.", field="changes")
        for name, value in changes.items():
            if not name or "=" in name or any(letter in name + value for letter in "\r\n"):
                raise InvalidArgument(f"{name[:60]!r} cannot be written as a line of name=value.", field=name[:60])
        body = "".join(f"{name}={value}\n" for name, value in changes.items()).encode()
        await self._change(Request.UPDATE_BROKER_CONFIG, body=body, address=address)

    async def set_writable(self, broker: str, writable: bool) -> dict[str, int]:
        """Have every name server say that nothing may be sent to a broker, or that it may again (requests 205, 327).

        Producers learn of it with their next look at the routes, within half a minute; what is there can be read, and
        pending messages there are released. Returns by name server how many topics that are; raises BrokerRefused, and
        BrokerUnreachable or Timeout for the first one that did not answer, when all have been asked.
        """
        names.check_broker(broker)
        code = Request.ADD_WRITE_PERM_OF_BROKER if writable else Request.WIPE_WRITE_PERM_OF_BROKER
        counts: dict[str, int] = {}
        errors: list[ClientError] = []
        for address in self._session.namesrv:
            try:
                answer = await self._session.ask(address, code, {"brokerName": broker})
                counts[address] = int(answer.ext.get("addTopicCount" if writable else "wipeTopicCount", "0"))
            except ClientError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return counts

    async def listed_at(self) -> dict[str, tuple[str, ...] | None]:
        """Return by name server which brokers it lists now (their names); None for one that is not responding."""
        asked = [self._listed_by(address) for address in self._session.namesrv]
        return dict(zip(self._session.namesrv, await asyncio.gather(*asked), strict=True))

    async def _listed_by(self, address: str) -> tuple[str, ...] | None:
        try:
            answer = await self._session.ask(address, Request.GET_BROKER_CLUSTER_INFO)
        except (BrokerUnreachable, BrokerRefused, Timeout):
            return None
        return tuple(dict.fromkeys(each.name for each in members(read_object(answer.body))))

    async def group_settings(self, name: str) -> dict[str, Any] | None:
        """Return a group's SubscriptionGroupConfig as the (first) broker keeps it, None if there is no such group."""
        try:
            # a broker makes a group that it is asked for; ours does not for who only looks
            ext = {"group": name, "escLook": "true"}
            return read_object((await self._ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, ext)).body)
        except BrokerRefused as refusal:
            code = Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            return await self._one_of_all(refusal, code, "subscriptionGroupTable", name)

    async def _one_of_all(self, refusal: BrokerRefused, code: int, table: str, name: str) -> Fields | None:
        """Return what a broker without the question for one tells of all; None where the refusal says there is none."""
        if refusal.code in _ABSENT:
            return None
        if not isinstance(refusal, NotSupported):
            raise refusal
        found = fields(read_object((await self._ask(code)).body).get(table)).get(name)
        return None if found is None else fields(found)

    async def set_group(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of the group on every broker, or make it."""
        names.check_group(name)
        await self._set_group({**_NEW_GROUP, **(await self.group_settings(name) or {}), **changes, "groupName": name})

    async def _set_group(self, config: Mapping[str, Any]) -> None:
        """Set the group that the fields name on every chosen broker."""
        body = msgspec.json.encode(config)
        for broker in await self._chosen():
            await self._change(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body, address=broker.address)

    async def delete_group(self, name: str) -> None:
        """Delete the group on every broker, with how far it has read."""
        names.check_group(name)
        ext = {"groupName": name, "cleanOffset": "true"}
        for broker in await self._chosen():
            await self._change(Request.DELETE_SUBSCRIPTIONGROUP, ext, address=broker.address)


class ProgressQuestions(Questions):
    """The questions about places in queues, and the move of a group to one."""

    async def offset_at(self, topic: str, queue_id: int, at_ms: int, *, broker: str | None = None) -> int:
        """Return the offset of a queue's first message stored at `at_ms` (epoch) or later; its end if there is none.

        `broker`: the one that has the queue, where several have one of its number.
        """
        ext = {"topic": topic, "queueId": str(queue_id), "timestamp": str(at_ms), "boundaryType": "LOWER"}
        address = await self._address_of_queue(topic, queue_id, broker)
        answer = await self._ask(Request.SEARCH_OFFSET_BY_TIMESTAMP, ext, address=address)
        try:
            return int(answer.ext["offset"])
        except (KeyError, ValueError):
            raise BadAnswer("The broker did not say an offset.") from None

    async def move_group(
        self, group: str, topic: str, queue_id: int, offset: int, *, broker: str | None = None
    ) -> None:
        """Have a group continue at `offset` of a queue, also consumers that are at work (request 222).

        `broker`: the one that has the queue, where several have one of its number.

        Raises BrokerRefused for an offset that the queue does not have, or an unknown group or topic.
        """
        ext = {
            "topic": topic, "group": group, "queueId": str(queue_id), "offset": str(offset), "timestamp": "-1",
            "isForce": "true",
        }  # fmt: skip
        address = await self._address_of_queue(topic, queue_id, broker, reading=False)
        await self._change(Request.INVOKE_BROKER_TO_RESET_OFFSET, ext, address=address)


class AccessQuestions(Questions):
    """The questions about users of access control."""

    async def access_of(self, user: str) -> tuple[UserAccess, ...]:
        """Return what each broker with access control lets a user do; () where none has it. Raises InvalidArgument.

        Asking needs Get on the cluster. A broker of Apache RocketMQ is asked for its configuration, too.
        """
        check_user(user)
        found: list[UserAccess] = []
        for broker in await self._chosen():
            try:
                found.append(await self._access_at(broker, user))
            except BrokerRefused as refusal:
                if not isinstance(refusal, NotSupported) and await self._is_controlled(broker):
                    raise
        return tuple(found)

    async def administration(self, log: str = "", after: int = 0, *, limit: int = 500) -> Administration:
        """Return what the broker keeps of who administered it behind this number of this log, the oldest first.

        Of another log than this one, from its beginning. Needs Update on the cluster; raises NotSupported where the
        broker is not Escapement.
        """
        ext = {"log": log, "after": str(after), "limit": str(limit)}
        body = (await self._ask(Request.GET_ADMINISTRATION, ext)).body
        try:
            return msgspec.convert(read_object(body), Administration)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise BadAnswer(f"The administration log cannot be read: {error}") from None

    async def _access_at(self, broker: Broker, user: str) -> UserAccess:
        body = (await self._ask(Request.AUTH_GET_USER, {"username": user}, address=broker.address)).body
        said = read_json(body) if body else None
        if not isinstance(said, dict):
            return UserAccess(user, broker, is_known=False, is_super=False, is_enabled=False, policies={})
        ext = {"subject": subject_of(user)}
        body = (await self._ask(Request.AUTH_GET_ACL, ext, address=broker.address)).body
        try:
            return UserAccess(
                user, broker, is_known=True,
                is_super=user_type(_word(said.get("userType"))) is True,
                is_enabled=user_status(_word(said.get("userStatus"))) is not False,
                policies=policies_of(body),
            )  # fmt: skip
        except (AccessError, msgspec.ValidationError, msgspec.DecodeError) as error:
            raise BadAnswer(f"What broker {broker.name} says of the user {user!r} cannot be read: {error}") from None

    async def _is_controlled(self, broker: Broker) -> bool:
        """Tell whether the broker decides by policies; where it does not, Apache RocketMQ refuses to list them."""
        text = (await self._ask(Request.GET_BROKER_CONFIG, address=broker.address)).body.decode("utf-8", "replace")
        lines = (line.partition("=") for line in text.splitlines())
        return {name.strip(): value.strip() for name, _, value in lines}.get("authorizationEnabled") != "false"


class _Entry(msgspec.Struct, rename="camel"):
    """AclInfo.PolicyEntryInfo as it is told; actions are a list, or in some versions one text."""

    resource: str
    actions: list[str] | str = []
    source_ips: list[str] | None = None
    decision: str = ""


class _Policy(msgspec.Struct, rename="camel"):
    policy_type: str | None = None
    entries: list[_Entry] | None = None


class _Acl(msgspec.Struct):
    policies: list[_Policy] | None = None


def policies_of(body: bytes) -> Policies:
    """Read the policies that a broker tells; raises AccessError, msgspec.ValidationError."""
    if not body:
        return {}
    told: dict[PolicyType, list[Any]] = {}
    for policy in msgspec.convert(read_object(body), _Acl).policies or ():
        for each in policy.entries or ():
            actions = each.actions.split(",") if isinstance(each.actions, str) else each.actions
            kept = entry(each.resource, actions, each.decision, each.source_ips or ())
            told.setdefault(policy_type(policy.policy_type), []).append(kept)
    return {type_: tuple(entries) for type_, entries in told.items()}


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
