"""Deciding transactions by REST: send a half, then commit it, roll it back, or have its producers asked.

One is named by our id of its half or by RocketMQ's transaction id; many are an operation with its audit, chosen by a
filter or one by one. Whoever may publish to the topic of a half may decide it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from broker.client import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    Decision,
    HalfNotSafe,
    InvalidArgument,
    NotSupported,
    Timeout,
    as_half,
)
from broker.client.errors import Answer
from broker.client.names import check_group
from broker.client.transactions import Action, Transaction, TransactionTarget
from broker.rocketmq.properties import PRODUCER_GROUP, REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.transactions import records
from console.features.transactions.records import read_newest
from console.features.transactions.rest import is_not_there
from console.operations.actor import SEND_MESSAGES, STEER_TRANSACTIONS, Actor
from console.operations.kind import ItemResult, Target
from console.operations.single_calls import ONE
from console.operations.workflow import needs_second_person
from console.rest.access import Allow, InBody, InRecord
from console.rest.database import token_actor
from console.rest.errors import MessageNotFound, SchemaViolated, TooManyMatch
from console.rest.identifiers import parse, written
from console.rest.operations import begun, in_thread
from console.rest.query import moment_ms
from console.rest.records import position_in
from console.rest.request_body import MAX_SINGLE_BYTES, NewMessage, check_topic_to_send_to, outgoing
from console.rest.responses import json_answer
from console.rest.route import Call, Handler, route
from console.rest.schemas import BEGUN, PREVIEWED, WAITS, Look, Moment, Name, Place, ProducerGroupName, Reason, Text
from console.rest.several import AmongBrokers, AtBroker, ItsBroker, asked, first_found, spanned
from console.rest.state import ApiState
from console.security.tokens import PUBLISH, Grant
from console.site import broker as site_broker
from console.site.broker import at
from console.site.clock import now_ms
from console.site.slow_requests import AskingBroker

Outcome = Literal["committed", "rolled_back", "check_planned", "checks_resumed"]
TransactionState = Literal["open", "parked"]

_MOST_REASON_BYTES = 4 * 1024
_OUTCOMES: Mapping[Action, Outcome] = {
    "commit": "committed",
    "rollback": "rolled_back",
    "check": "check_planned",
    "resume": "checks_resumed",
}
_DECISIONS = {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK}
#: halves that are asked for at a time
_AT_ONCE = 32


class NewHalf(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message that nobody sees until it is committed. A delay in `message` counts from the commit."""

    topic: Text
    message: NewMessage
    producer_group: ProducerGroupName


class HalfTaken(Struct, kw_only=True):
    """A half that the broker has accepted, which is not delivered. `flushed`: it is on disk."""

    id: Annotated[str, Meta(description="Opaque; decide with POST /api/v1/transactions/{id}:commit or :rollback.")]
    transaction_id: Annotated[str, Meta(description="RocketMQ's: the message id of its half.")]
    topic: str
    producer_group: str
    broker: str
    flushed: bool


class ChosenTransaction(Struct, forbid_unknown_fields=True, kw_only=True):
    """A transaction: by `id` (ours, or RocketMQ's transaction id), or by `offset` and `position` of its half."""

    id: Name | None = None
    offset: Place | None = None
    position: Place | None = None
    broker: ItsBroker | None = None


class TransactionFilter(Struct, forbid_unknown_fields=True, kw_only=True):
    """A choice of transactions: all conditions that are given hold at once."""

    state: Annotated[TransactionState, Meta(description="open ones, or parked ones.")] = "open"
    topic: Text | None = None
    producer_group: ProducerGroupName | None = None
    older_than_ms: Annotated[int, Meta(ge=0, le=2**53 - 1, description="Least age of the half.")] | None = None
    stored_before: Moment | None = None


class ManyTransactions(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 that are chosen (`transactions`), or up to 10,000 that match (`filter`), and why.

    `all: true` is needed for a filter without any condition but a state. Of several brokers say at which one: `broker`
    for all, or `broker` for each that is chosen, or `brokers` for a filter.
    """

    filter: TransactionFilter | None = None
    transactions: Annotated[list[ChosenTransaction], Meta(min_length=1, max_length=1_000)] | None = None
    reason: Reason
    all: bool = False
    preview: Look = False
    broker: AtBroker | None = None
    brokers: AmongBrokers | None = None


class DecisionReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, kept with the decision in the broker's log. `producer_group`, if given, must be the half's."""

    reason: Annotated[str, Meta(max_length=200)] = ""
    producer_group: ProducerGroupName | None = None


class Decided(Struct, kw_only=True):
    """The decision that was taken. `outcome`: committed, rolled_back, check_planned, checks_resumed; `repeated`: it was
    so before.

    committed means that the message is in its topic (or waits for its moment), not that a consumer has it. `operation`
    is the address of what is kept of it: null where nothing was changed.
    """

    id: str
    transaction_id: str | None
    topic: str
    outcome: Literal["committed", "rolled_back", "check_planned", "checks_resumed"]
    repeated: bool
    operation: str | None


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
        """Return the offset and position that operations name it by."""
        return {"offset": self.offset, "position": self.position}

    @property
    def label(self) -> dict[str, Any]:
        """Return what people see of the half."""
        name = self.transaction_id or f"{self.offset:,}"
        return {
            "topic": self.topic,
            "name": name[:200],
            "position": self.position,
            "group": self.group,
            "store_ms": self.store_ms,
            "checks": self.checks,
        }


@route(
    "POST",
    "/transactions",
    "Start a transaction (send a half message)",
    action=PUBLISH,
    permission=SEND_MESSAGES,
    on=InBody(),
    answers=(
        (201, "On disk, invisible to consumers.", HalfTaken),
        (202, "Accepted, not known to be on disk.", HalfTaken),
    ),
    errors=(HalfNotSafe,),
    most_body_bytes=MAX_SINGLE_BYTES,
    example={"topic": "orders", "producer_group": "shop", "message": {"body": "hello"}},
    takes_key=True,
)
async def begin(call: Call, body: NewHalf) -> Response:
    """Send a half; 201 when it is on disk, 202 when it is not known to be. It is never tried twice."""
    state = call.state
    with state.sending(1, call.body_bytes):
        check_topic_to_send_to(body.topic)
        call.require(body.topic)
        check_group(body.producer_group)
        # its producers are asked about the half: another team's are not this token's to have asked; policies of the
        # broker say nothing of who sends for which producers
        call.require_scope(body.producer_group, "producer group")
        await _check_message(body.message, state)
        half = as_half(outgoing(body.message), body.producer_group)
        with AskingBroker():
            (sent,) = await state.producer.send_each(body.topic, [half])
    if isinstance(sent, ClientError):
        raise sent
    position = position_in(sent.offset_message_id)
    if sent.status != "SEND_OK":
        # as the official client: what is less safe than asked for is not executed
        with suppress(ClientError):
            await state.admin.end_transaction(
                Decision.ROLLBACK,
                group=body.producer_group,
                offset=sent.queue_offset,
                position=position,
                transaction_id=sent.message_id,
                address=await state.admin.address_of(sent.broker),
            )
        raise HalfNotSafe(sent.status)
    is_flushed = await state.flushes_first(sent.broker) and body.message.durability == "sync"
    taken = HalfTaken(
        id=written(sent.broker, body.topic, position, sent.message_id),
        transaction_id=sent.message_id,
        topic=body.topic,
        producer_group=body.producer_group,
        broker=sent.broker,
        flushed=is_flushed,
    )
    return json_answer(taken, 201 if is_flushed else 202)


def _on_one(action: Action, summary: str, outcome: str) -> Callable[[Handler], Handler]:
    """Declare a route that does something to the half that the address names; `outcome` says what is so then."""
    return route(
        "POST",
        f"/transactions/{{id}}:{action}",
        summary,
        action=PUBLISH,
        permission=STEER_TRANSACTIONS,
        on=InRecord(),
        answers=((200, outcome, Decided), WAITS),
        errors=(MessageNotFound,),
        most_body_bytes=_MOST_REASON_BYTES,
    )


def _on_many(action: Action, summary: str) -> Callable[[Handler], Handler]:
    """Declare a route that does something to all halves that are chosen or match."""
    return route(
        "POST",
        f"/transactions:{action}",
        summary,
        action=PUBLISH,
        permission=STEER_TRANSACTIONS,
        on=InBody(),
        answers=(BEGUN, PREVIEWED),
        errors=(TooManyMatch,),
        example={"filter": {"topic": "orders"}, "reason": "the shop was down", "preview": True},
    )


@_on_one("commit", "Commit a half message", "The message is in its topic, or waits until it is due.")
async def commit(call: Call, body: DecisionReason | None) -> Response:
    """Commit a half; the same again succeeds, a rollback of it is refused from then on."""
    return await _decide(call, "commit", body or DecisionReason())


@_on_one("rollback", "Roll back a half message", "Consumers never see it.")
async def roll_back(call: Call, body: DecisionReason | None) -> Response:
    """Roll a half back; the same again succeeds, a commit of it is refused from then on."""
    return await _decide(call, "rollback", body or DecisionReason())


@_on_one("check", "Check its producer", "Checked immediately, or as soon as a producer of its group is connected.")
async def check(call: Call, body: DecisionReason | None) -> Response:
    """Have the producers of the half's group asked."""
    return await _decide(call, "check", body or DecisionReason())


@_on_one("resume", "Resume checks of a parked half message", "Checks restart.")
async def resume(call: Call, body: DecisionReason | None) -> Response:
    """Begin the checks of a parked half anew."""
    return await _decide(call, "resume", body or DecisionReason())


@_on_many("commit", "Commit selected half messages, or all that match")
async def commit_many(call: Call, body: ManyTransactions) -> Response:
    """Commit all that are chosen or match."""
    return await _begin_many(call, "commit", body)


@_on_many("rollback", "Roll back selected half messages, or all that match")
async def roll_back_many(call: Call, body: ManyTransactions) -> Response:
    """Roll all back that are chosen or match."""
    return await _begin_many(call, "rollback", body)


@_on_many("check", "Check the producers of selected half messages, or of all that match")
async def check_many(call: Call, body: ManyTransactions) -> Response:
    """Have the producers of all that are chosen or match asked."""
    return await _begin_many(call, "check", body)


@_on_many("resume", "Resume checks of selected parked half messages, or of all that match")
async def resume_many(call: Call, body: ManyTransactions) -> Response:
    """Begin the checks of all that are chosen or match anew."""
    return await _begin_many(call, "resume", body)


async def _decide(call: Call, action: Action, why: DecisionReason) -> Response:
    half = await _named(call, call.named["id"])
    if why.producer_group not in (None, half.group):
        raise BrokerRefused(
            Answer.INVALID_PARAMETER, f"The half belongs to another producer group than {why.producer_group}."
        )
    kind, parameters = f"transactions.{action}", {"targets": [half.place]}
    broker = half.broker if len(await call.state.admin.brokers()) > 1 else ""
    if needs_second_person(kind, ONE):
        return await begun(kind, parameters, why.reason, _actor(call.grant), broker=broker)
    repeated, operation = await _steer(call, action, half, why.reason), None
    if not repeated:
        item, result = Target(half.place, half.label), ItemResult(_OUTCOMES[action], half.place)
        operation = await call.state.recorder.keep(kind, parameters, item, result, call.grant, why.reason, broker)
    decided = Decided(
        id=written(half.broker, half.topic, half.position, half.transaction_id or ""),
        transaction_id=half.transaction_id,
        topic=half.topic,
        outcome=_OUTCOMES[action],
        repeated=repeated,
        operation=operation,
    )
    return json_answer(decided)


async def _begin_many(call: Call, action: Action, wanted: ManyTransactions) -> Response:
    if (wanted.filter is None) == (wanted.transactions is None):
        raise SchemaViolated("Give filter or transactions, and not both.")
    allow: Allow | None = None
    named: list[str] = []
    if wanted.transactions is not None:
        found = await _targets(call, wanted.transactions)
        named = [broker for broker, _target in found if broker]
        pairs = zip(wanted.transactions, found, strict=True)
        parameters: dict[str, Any] = {
            "targets": [{**target, **({"broker": each.broker} if each.broker else {})} for each, (_, target) in pairs]
        }
        allow = None if all(each.id is not None for each in wanted.transactions) else call.preview_check()
    else:
        parameters = {"filter": _filter(call, wanted.filter), "is_all": wanted.all}
    parameters |= {"brokers": wanted.brokers} if wanted.brokers is not None else {}
    kind, actor = f"transactions.{action}", _actor(call.grant)
    own = [each.broker for each in wanted.transactions or ()]
    broker = await spanned(call.state, named, own, wanted.brokers, wanted.broker)
    return await begun(kind, parameters, wanted.reason, actor, allow=allow, is_look=wanted.preview, broker=broker)


def _actor(grant: Grant) -> Actor:
    """Return the token as an actor; that it is allowed on each topic was checked here."""
    return token_actor(grant, frozenset((STEER_TRANSACTIONS,)))


async def _check_message(message: NewMessage, state: ApiState) -> None:
    if message.schedule_key is not None:
        raise InvalidArgument("A half has no schedule_key: it waits for its decision.", field="schedule_key")
    if message.group is not None:
        raise InvalidArgument("The group of a half is producer_group.", field="group")
    if message.delay_level or message.deliver_at is not None or message.delay_ms is not None:
        # an Apache RocketMQ broker would lose it, and says here that it does not know the question
        for admin in (await asked(state, None)).values():
            with suppress(BrokerUnreachable, Timeout):
                await admin.transaction_status()


async def _named(call: Call, text: str) -> Half:
    """Return the half that the id names; raises MessageNotFound, also for one of a topic that the token must not
    touch."""
    state = call.state
    if not text.startswith("m1"):
        admins = await asked(state, None)
        broker, found = await first_found(admins, lambda _broker, admin: admin.transaction(text), is_not_there)
        half = _half_of(found, broker, None if len(admins) == 1 else await state.admin.address_of(broker))
        if not call.allows(half.topic):
            raise MessageNotFound
        return half
    wanted = parse(text)
    call.require(wanted.topic)
    address = await state.admin.address_of(wanted.broker)
    try:
        found = await state.admin.transaction(position=wanted.position, address=address)
        half = _half_of(found, wanted.broker, address)
    except NotSupported:
        half = await _pulled(wanted.position, wanted.broker, address, state)
    if half.topic != wanted.topic or wanted.unique_key not in ("", half.transaction_id):
        raise MessageNotFound
    return half


def _half_of(found: Transaction, broker: str, address: str | None) -> Half:
    if found.position is None:
        raise MessageNotFound
    return Half(
        broker,
        address,
        found.topic,
        found.group,
        found.offset,
        found.position,
        found.transaction_id,
        found.store_ms,
        found.checks,
    )


async def _pulled(position: int, broker: str, address: str, state: ApiState) -> Half:
    """Return the half by its own record, on an Apache RocketMQ broker."""
    try:
        record = await state.admin.message_at(position, topic=HALF_TOPIC, address=address)
    except BrokerRefused:
        raise MessageNotFound from None
    if record.topic != HALF_TOPIC:
        raise MessageNotFound
    named = record.properties
    return Half(
        broker,
        address,
        named.get(REAL_TOPIC, ""),
        named.get(PRODUCER_GROUP, ""),
        record.queue_offset,
        position,
        record.unique_key,
    )


async def _steer(call: Call, action: Action, half: Half, reason: str) -> bool:
    """Carry out the action; True if it was so before. Raises BrokerRefused (604: the opposite was decided, by whom and
    when)."""
    admin, target = call.state.admin, TransactionTarget(half.offset, half.position)
    try:
        answer = await admin.steer_transactions(
            action, [target], who=call.grant.who, reason=reason, address=half.address
        )
    except NotSupported:
        if action == "resume":
            return await _resume(half, half.broker if len(await admin.brokers()) > 1 else "")
        if action not in _DECISIONS:
            raise
        await admin.end_transaction(
            _DECISIONS[action],
            group=half.group,
            offset=half.offset,
            position=half.position,
            transaction_id=half.transaction_id or "",
            topic=half.topic,
            address=half.address,
        )
        return False
    (result,) = answer.results
    if result.outcome == "refused":
        # the half was found a moment ago: what is missing is a parked or open one, so it was decided
        raise BrokerRefused(
            Answer.ILLEGAL_OPERATION if result.code == Answer.QUERY_NOT_FOUND else result.code, result.error
        )
    return result.outcome == "already"


async def _resume(half: Half, broker: str) -> bool:
    """Resume on Apache RocketMQ by its request 323 for the parked copy; the half may be one of several copies."""

    def work() -> ItemResult:
        with at(broker):
            admin = site_broker.admin()
            rows = read_newest(admin).rows
            newest = next((row.position for row in rows if row.transaction_id == half.transaction_id), half.position)
            return records.steer(admin, "resume", "done", [{"offset": half.offset, "position": newest}])[0]

    result = await in_thread(work)
    if result.outcome != "done":
        error = result.result.get("error", "It is not among the newest records of this broker that are parked.")
        raise BrokerRefused(result.result.get("code", Answer.ILLEGAL_OPERATION), str(error))
    return False


async def _targets(call: Call, chosen: Sequence[ChosenTransaction]) -> list[tuple[str, dict[str, int]]]:
    """Return where the halves are, with their broker if the id says it: brokers are asked for those that are named by
    one, a few at a time."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def target(each: ChosenTransaction) -> tuple[str, dict[str, int]]:
        if each.id is not None and each.offset is None and each.position is None:
            async with gate:
                half = await _named(call, each.id)
                return half.broker, half.place
        if each.id is not None or each.offset is None or each.position is None:
            raise SchemaViolated("A transaction is named by id, or by offset and position.")
        return "", {"offset": each.offset, "position": each.position}

    return await asyncio.gather(*map(target, chosen))


def _filter(call: Call, chosen: TransactionFilter | None) -> dict[str, Any]:
    """Return the filter of an operation; the token has to allow its topic, or all of them."""
    chosen = chosen or TransactionFilter()
    call.require_where(chosen.topic)
    return {
        "state": chosen.state,
        "topic": chosen.topic or "",
        "group": chosen.producer_group or "",
        "before_ms": _before_ms(chosen),
    }


def _before_ms(chosen: TransactionFilter) -> int | None:
    """Return the moment before which halves are chosen: by the broker's clock, or for an age by that of the pages."""
    if chosen.stored_before is not None:
        return moment_ms(chosen.stored_before, "stored_before")
    if chosen.older_than_ms is not None:
        return max(0, now_ms() - chosen.older_than_ms)
    return None
