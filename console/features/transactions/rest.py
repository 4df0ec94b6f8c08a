"""Transactions by REST: send a half, decide it, have it checked, list halves, and look at one and its life.

`{id}` is our id of a half, or RocketMQ's transaction id. Whoever may publish to the topic of a half may decide it. An
Apache RocketMQ broker cannot be asked for one transaction: there the newest records of its topics are read, as for the
pages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client import (
    BrokerRefused,
    ClientError,
    Decision,
    HalfNotSafe,
    InvalidArgument,
    NotSupported,
    SendResult,
    as_half,
)
from broker.client.names import check_group, check_topic, check_writable_topic
from broker.client.transactions import Action, Transaction, TransactionLife, TransactionTarget
from broker.rocketmq.properties import PRODUCER_GROUP, REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.messages.rest import only_parameters
from console.features.messages.rest_send import outgoing
from console.features.timers.rest_bulk import actor_of
from console.features.transactions import apache_operations
from console.features.transactions.apache_records import read_newest
from console.features.transactions.rest_schemas import (
    Decided,
    DecisionReason,
    HalfTaken,
    NewHalf,
    TransactionLifeShown,
    TransactionMoment,
    TransactionRows,
    TransactionShown,
)
from console.features.transactions.shapes import TransactionRow
from console.operations import second_person
from console.operations.kind import ItemResult, Target
from console.operations.single_calls import ONE
from console.rest.errors import InvalidParameter, MessageNotFound
from console.rest.filled_pages import fill
from console.rest.grants import require
from console.rest.identifiers import MessageIdentifier, parse, written
from console.rest.operations_bridge import begun, in_thread
from console.rest.request_body import MAX_SINGLE_BYTES, decode, read_body
from console.rest.responses import json_answer
from console.rest.schemas import NewMessage
from console.rest.state import Room
from console.security.tokens import PUBLISH, READ, Grant
from console.site import broker as site_broker

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]
Outcome = Literal["committed", "rolled_back", "check_planned", "checks_resumed"]

MOST_ROWS = 1_000
MAX_REASON_BYTES = 4 * 1024
_STATES = ("open", "parked", "decided")
_OUTCOMES: Mapping[Action, Outcome] = {
    "commit": "committed", "rollback": "rolled_back", "check": "check_planned", "resume": "checks_resumed",
}  # fmt: skip
_DECISIONS = {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK}
#: ResponseCode.INVALID_PARAMETER, with which our broker answers a wrong group
_WRONG_GROUP = 29
#: ResponseCode.ILLEGAL_OPERATION, with which our broker answers what does not fit the state of a half
_WRONG_STATE = 604
#: ResponseCode.QUERY_NOT_FOUND
_NOT_FOUND = 22
_new_half = msgspec.json.Decoder(NewHalf)
_why = msgspec.json.Decoder(DecisionReason)


@dataclass(frozen=True, slots=True)
class Half:
    """A half that a request names."""

    broker: str
    address: str | None
    topic: str
    group: str
    offset: int
    position: int
    transaction_id: str | None
    store_ms: int | None = None
    checks: int | None = None

    @property
    def place(self) -> dict[str, int]:
        """By what operations name it."""
        return {"offset": self.offset, "position": self.position}

    @property
    def label(self) -> dict[str, Any]:
        """What people see of it."""
        name = self.transaction_id or f"{self.offset:,}"
        return {
            "topic": self.topic, "name": name[:200], "position": self.position, "group": self.group,
            "store_ms": self.store_ms, "checks": self.checks,
        }  # fmt: skip


async def begin(request: Request, grant: Grant, room: Room) -> Response:
    """Send a half; 201 when it is on disk, 202 when it is not known to be. It is never tried twice."""
    only_parameters(request)
    body = await read_body(request, MAX_SINGLE_BYTES)
    with room.under_way(1, len(body)):
        wanted = decode(body, _new_half)
        check_writable_topic(wanted.topic)
        if wanted.topic.startswith("%"):
            raise InvalidArgument(
                f"Topic {wanted.topic} belongs to the broker; send to one of your own.", field="topic"
            )
        require(grant, PUBLISH, wanted.topic)
        check_group(wanted.producer_group)
        await _check_message(wanted.message, room)
        half = as_half(outgoing(wanted.message), wanted.producer_group)
        (sent,) = await room.producer.send_each(wanted.topic, [half])
    if isinstance(sent, ClientError):
        raise sent
    position = _position(sent)
    if sent.status != "SEND_OK":
        # as the official client: what is less safe than asked for is not executed
        with suppress(ClientError):
            await room.admin.end_transaction(
                Decision.ROLLBACK, group=wanted.producer_group, offset=sent.queue_offset, position=position,
                transaction_id=sent.message_id, address=await room.admin.address_of(sent.broker),
            )  # fmt: skip
        raise HalfNotSafe(sent.status)
    is_flushed = await room.flushes_first(sent.broker) and wanted.message.durability == "sync"
    taken = HalfTaken(
        id=written(sent.broker, wanted.topic, position, sent.message_id), transaction_id=sent.message_id,
        topic=wanted.topic, producer_group=wanted.producer_group, broker=sent.broker, flushed=is_flushed,
    )  # fmt: skip
    return json_answer(taken, 201 if is_flushed else 202)


def steering(action: Action) -> Handler:
    """The handler of :commit, :rollback, :check or :resume."""

    async def handler(request: Request, grant: Grant, room: Room) -> Response:
        only_parameters(request)
        why = decode(await read_body(request, MAX_REASON_BYTES), _why) if _has_body(request) else DecisionReason()
        half = await named(request.path_params["id"], grant, room)
        if why.producer_group not in (None, half.group):
            raise BrokerRefused(_WRONG_GROUP, f"The half belongs to another producer group than {why.producer_group}.")
        kind, parameters = f"transactions.{action}", {"targets": [half.place]}
        if second_person.is_needed(kind, ONE):
            return await begun(kind, parameters, why.reason, actor_of(grant))
        repeated, operation = await _steer(action, half, f"token {grant.name}", why.reason, room), None
        if not repeated:
            result = ItemResult(_OUTCOMES[action], half.place)
            operation = await room.recorder.keep(
                kind, parameters, Target(half.place, half.label), result, grant, why.reason
            )
        decided = Decided(
            id=written(half.broker, half.topic, half.position, half.transaction_id or ""),
            transaction_id=half.transaction_id, topic=half.topic, outcome=_OUTCOMES[action], repeated=repeated,
            operation=operation,
        )  # fmt: skip
        return json_answer(decided)

    handler.__doc__ = f"Do {action}; the same again succeeds, the opposite of what was decided is refused with 409."
    return handler


async def transactions(request: Request, grant: Grant, room: Room) -> Response:
    """Open, parked or decided ones; only those of topics that the token may read."""
    only_parameters(request, "state", "topic", "producer_group", "older_than_ms", "limit", "cursor")
    given = request.query_params
    state = given.get("state", "open")
    if state not in _STATES:
        raise InvalidParameter(f"state is one of {', '.join(_STATES)}.")
    topic = given.get("topic", "")
    if topic:
        check_topic(topic)
        require(grant, READ, topic)
    older_than_ms = _whole(request, "older_than_ms", 0, 2**53)
    page, found, following = await fill(
        lambda place, step: room.admin.transactions(
            "open" if state == "open" else "parked" if state == "parked" else "decided", after=place, count=step,
            group=given.get("producer_group", ""), topic=topic, older_than_ms=older_than_ms,
        ),
        lambda page: (page.items, page.following),
        lambda each: grant.allows(READ, each.topic),
        _whole(request, "cursor", 0, 2**62),
        _whole(request, "limit", 1, MOST_ROWS) or 100,
    )  # fmt: skip
    broker = (await room.admin.brokers())[0].name
    hiding = await room.grants.hiding(grant)
    rows = [hiding.transaction(shown(each, broker)) for each in found]
    cursor = None if following is None else str(following)
    return json_answer(TransactionRows(now_ms=page.now_ms, transactions=rows, cursor=cursor))


async def transaction(request: Request, grant: Grant, room: Room) -> Response:
    """One by its id; raises MessageNotFound, also for one of a topic that the token must not read."""
    only_parameters(request)
    text: str = request.path_params["id"]
    named = parse(text) if text.startswith("m1") else None
    if named is not None:
        require(grant, READ, named.topic)
    hiding = await room.grants.hiding(grant)
    try:
        found = await _found_half(named, text, room)
    except NotSupported:
        polled = await _polled(named, text, grant)
        hiding.transaction(polled.transaction)
        return json_answer(polled)
    is_named = named is None or (
        found.topic == named.topic and named.unique_key in ("", found.transaction_id)
    )  # fmt: skip
    if not is_named or not grant.allows(READ, found.topic):
        raise MessageNotFound
    broker = named.broker if named is not None else (await room.admin.brokers())[0].name
    told = hiding.transaction(shown(found, broker))
    return json_answer(TransactionLifeShown(now_ms=found.now_ms, transaction=told, life=_life(found)))


async def _check_message(message: NewMessage, room: Room) -> None:
    if message.schedule_key is not None:
        raise InvalidArgument("A half has no schedule_key: it waits for its decision.", field="schedule_key")
    if message.group is not None:
        raise InvalidArgument("The group of a half is producer_group.", field="group")
    if message.delay_level or message.deliver_at is not None or message.delay_ms is not None:
        # an Apache RocketMQ broker would lose it, and says here that it does not know the question
        await room.admin.transaction_status()


async def named(text: str, grant: Grant, room: Room) -> Half:
    """The half that the id names; raises MessageNotFound, also for one of a topic that the token must not touch."""
    if not text.startswith("m1"):
        half = _half_of(await _found(room, transaction_id=text), (await room.admin.brokers())[0].name, None)
        if not grant.allows(PUBLISH, half.topic):
            raise MessageNotFound
        return half
    wanted = parse(text)
    require(grant, PUBLISH, wanted.topic)
    address = await room.admin.address_of(wanted.broker)
    try:
        half = _half_of(await _found(room, position=wanted.position, address=address), wanted.broker, address)
    except NotSupported:
        half = await _pulled(wanted.position, wanted.broker, address, room)
    if half.topic != wanted.topic or wanted.unique_key not in ("", half.transaction_id):
        raise MessageNotFound
    return half


async def _found(
    room: Room, *, transaction_id: str = "", position: int | None = None, address: str | None = None
) -> Transaction:  # fmt: skip
    return await room.admin.transaction(transaction_id, position=position, address=address)


def _half_of(found: Transaction, broker: str, address: str | None) -> Half:
    if found.position is None:
        raise MessageNotFound
    return Half(
        broker, address, found.topic, found.group, found.offset, found.position, found.transaction_id, found.store_ms,
        found.checks,
    )  # fmt: skip


async def _pulled(position: int, broker: str, address: str, room: Room) -> Half:
    """The half's own record, on an Apache RocketMQ broker."""
    try:
        record = await room.admin.message_at(position, topic=HALF_TOPIC, address=address)
    except BrokerRefused:
        raise MessageNotFound from None
    if record.topic != HALF_TOPIC:
        raise MessageNotFound
    named = record.properties
    return Half(
        broker, address, named.get(REAL_TOPIC, ""), named.get(PRODUCER_GROUP, ""), record.queue_offset, position,
        record.unique_key,
    )  # fmt: skip


async def _steer(action: Action, half: Half, who: str, reason: str, room: Room) -> bool:
    """Do it; True if it was so before. Raises BrokerRefused (604: the opposite was decided, by whom and when)."""
    target = TransactionTarget(half.offset, half.position)
    try:
        answer = await room.admin.steer_transactions(action, [target], who=who, reason=reason, address=half.address)
    except NotSupported:
        if action == "resume":
            return await _resume(half)
        if action not in _DECISIONS:
            raise
        await room.admin.end_transaction(
            _DECISIONS[action], group=half.group, offset=half.offset, position=half.position,
            transaction_id=half.transaction_id or "", topic=half.topic, address=half.address,
        )  # fmt: skip
        return False
    (result,) = answer.results
    if result.outcome == "refused":
        # the half was found a moment ago: what is missing is a parked or open one, so it was decided
        raise BrokerRefused(_WRONG_STATE if result.code == _NOT_FOUND else result.code, result.error)
    return result.outcome == "already"


async def _resume(half: Half) -> bool:
    """On an Apache RocketMQ broker, by its request 323 for the parked copy; the half may be one of several copies."""

    def work() -> ItemResult:
        admin = site_broker.admin()
        rows = read_newest(admin).rows
        newest = next((row.position for row in rows if row.transaction_id == half.transaction_id), half.position)
        return apache_operations.steer(admin, "resume", "done", [{"offset": half.offset, "position": newest}])[0]

    result = await in_thread(work)
    if result.outcome != "done":
        error = result.result.get("error", "It is not among the newest records of this broker that are parked.")
        raise BrokerRefused(result.result.get("code", _WRONG_STATE), str(error))
    return False


def _has_body(request: Request) -> bool:
    """Nothing has to be said for a decision."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _position(sent: SendResult) -> int:
    """The last 16 digits of an offset message id."""
    return int(sent.offset_message_id[-16:], 16)


def _whole(request: Request, name: str, low: int, high: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise InvalidParameter(f"{name} is a whole number from {low:,} to {high:,}.")
    return int(text)


def shown(each: Transaction, broker: str | None) -> TransactionShown:
    """Without an id where its record, or its broker, is not known."""
    is_named = each.position is not None and broker is not None
    return TransactionShown(
        id=written(broker or "", each.topic, each.position or 0, each.transaction_id or "") if is_named else None,
        transaction_id=each.transaction_id, state=each.state, topic=each.topic, producer_group=each.group,
        keys=each.keys, tag=each.tags, stored_ms=each.store_ms, checks=each.checks, next_check_ms=each.next_check_ms,
        parked_ms=each.parked_ms, decided_ms=each.decided_ms, decided_by=each.by or None, reason=each.reason or None,
        producers=each.producers,
    )  # fmt: skip


async def _found_half(named: MessageIdentifier | None, text: str, room: Room) -> TransactionLife:
    if named is None:
        return await room.admin.transaction(text)
    return await room.admin.transaction(position=named.position, address=await room.admin.address_of(named.broker))


def _life(found: TransactionLife) -> list[TransactionMoment]:
    return [
        TransactionMoment(
            event=event.kind, at_ms=event.at_ms, check=event.count, by=event.by or None, reason=event.reason or None,
            queue_id=event.queue_id, queue_offset=event.queue_offset,
        )
        for event in found.life
    ]  # fmt: skip


async def _polled(named: MessageIdentifier | None, text: str, grant: Grant) -> TransactionLifeShown:
    key = named.unique_key if named is not None else text
    found = await in_thread(lambda: read_newest(site_broker.admin()))
    row = next((each for each in found.rows if each.transaction_id == key), None)
    if row is None or not grant.allows(READ, row.topic) or (named is not None and row.topic != named.topic):
        raise MessageNotFound
    moments = [("half", row.store_ms), ("parked", row.parked_ms), ("decided", row.decided_ms)]
    return TransactionLifeShown(
        now_ms=None,
        transaction=shown(_as_told(row), named.broker if named is not None else None),
        life=[TransactionMoment(event=event, at_ms=at_ms) for event, at_ms in moments if at_ms is not None],
    )


def _as_told(row: TransactionRow) -> Transaction:
    return Transaction(
        offset=row.offset, state=row.state.value, position=row.position, group=row.group, topic=row.topic,
        transaction_id=row.transaction_id, keys=list(row.keys), tags=row.tag or None, store_ms=row.store_ms,
        checks=row.checks, parked_ms=row.parked_ms, decided_ms=row.decided_ms,
    )  # fmt: skip
