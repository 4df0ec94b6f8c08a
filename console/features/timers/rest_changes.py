"""Changing timers by REST: cancel, move or deliver one waiting message, or many as an operation with its audit.

One is named by any of its ids or by its schedule key. Many are chosen by a filter or one by one: a filter needs a token
for its topic, or for all topics; of timers that are chosen one by one, each must be of a topic that the token may
publish to, and where the request does not say the topic, the preview of the operation does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct, to_builtins
from starlette.responses import Response

from broker.client import BrokerRefused, ClientError
from broker.client.names import check_schedule_key, check_topic
from broker.client.timers import Action, BadHandle, Steered, TimerTarget, read_handle
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.operations import result_of
from console.operations.actor import STEER_TIMERS, Actor
from console.operations.kind import Target
from console.operations.registry import kind_of
from console.operations.single_calls import ONE
from console.operations.workflow import needs_second_person
from console.rest.access import Allow, InBody, InRecord, Topic
from console.rest.database import token_actor
from console.rest.errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    InvalidIdentifier,
    InvalidMoment,
    MessageNotFound,
    MomentPast,
    SchemaViolated,
    TimerRefused,
    TimerUnknown,
    TooManyMatch,
)
from console.rest.identifiers import MessageIdentifier, parse, written
from console.rest.operations import begun
from console.rest.query import moment_ms, written_moment
from console.rest.records import by_offset_id, is_offset_id, real_topic
from console.rest.responses import json_answer
from console.rest.route import Call, Handler, route
from console.rest.schemas import (
    BEGUN,
    PREVIEWED,
    WAITS,
    DelayMs,
    DeliverAt,
    Look,
    Moment,
    Name,
    Place,
    Reason,
    ShiftMs,
    Text,
    TopicOfUniqueId,
)
from console.rest.several import AmongBrokers, AtBroker, ItsBroker, asked, spanned, tell_each
from console.rest.state import ApiState
from console.security.tokens import PUBLISH, Grant
from console.site.clock import now_ms

LogReason = Annotated[str, Meta(max_length=500, description="Kept with the message in the broker's log.")]
Outcome = Literal["cancelled", "rescheduled", "delivered_now", "already_cancelled"]
_MOST_CHANGE_BYTES = 64 * 1024


class KeyedQuery(Struct, kw_only=True):
    """The reason why a message that its schedule key names is changed."""

    reason: LogReason = ""


class NamedQuery(TopicOfUniqueId, kw_only=True):
    """The topic of a message id, and the reason why the message is changed."""

    reason: LogReason = ""


class NewMoment(Struct, forbid_unknown_fields=True, kw_only=True):
    """A new moment for a waiting message: `deliver_at`, or `delay_ms` from now."""

    deliver_at: DeliverAt | None = None
    delay_ms: DelayMs | None = None
    reject_past: Annotated[bool, Meta(description="Refuse a time that is past instead of delivering immediately.")] = (
        False
    )
    reason: LogReason = ""


class ScheduleChange(Struct, kw_only=True):
    """The change that was made to a waiting message. `id` is that of its newest record; `previous_due_ms` when it was
    due; `operation` the address of what is kept of it: null where nothing was changed."""

    outcome: Outcome
    id: str | None
    message_id: str | None
    topic: str | None
    schedule_key: str | None
    due_ms: int | None
    previous_due_ms: int | None
    operation: str | None


class ChosenTimer(Struct, forbid_unknown_fields=True, kw_only=True):
    """A waiting message: by `id` (ours, a recall handle or an offset id), by `topic` and `schedule_key`, by `topic`
    and `message_id`, or by the `position` of its record. `deliver_at`: its own new moment."""

    id: Name | None = None
    topic: Text | None = None
    schedule_key: Name | None = None
    message_id: Name | None = None
    position: Place | None = None
    deliver_at: DeliverAt | None = None
    broker: ItsBroker | None = None


class TimerFilter(Struct, forbid_unknown_fields=True, kw_only=True):
    """A choice of waiting messages: all conditions that are given hold at once."""

    topic: Text | None = None
    key: (
        Annotated[str, Meta(min_length=1, max_length=1024, description="A schedule key, a key or a message_id.")] | None
    ) = None
    due_from: Moment | None = None
    due_before: Moment | None = None


class ManyTimers(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 waiting messages that are chosen (`timers`), or up to 10,000 that match (`filter`), and why.

    `all: true` is needed for a filter without any condition. Of several brokers say at which one: `broker` for all,
    or `broker` for each that is chosen, or `brokers` for a filter.
    """

    filter: TimerFilter | None = None
    timers: Annotated[list[ChosenTimer], Meta(min_length=1, max_length=1_000)] | None = None
    reason: Reason
    all: bool = False
    preview: Look = False
    broker: AtBroker | None = None
    brokers: AmongBrokers | None = None


class ManyMoved(ManyTimers, forbid_unknown_fields=True, kw_only=True):
    """The timers, as in ManyTimers, and where to: `deliver_at` for all, or `shift_ms` later (earlier if negative) each;
    chosen ones may each have their own `deliver_at` instead."""

    deliver_at: DeliverAt | None = None
    shift_ms: ShiftMs | None = None


class ManyToBroker(ManyTimers, forbid_unknown_fields=True, kw_only=True):
    """The timers of one broker, as in ManyTimers, and the broker to move them `to`."""

    to: Annotated[str, Meta(min_length=1, max_length=510, description="A broker; of another cluster: lisbon/broker-a.")]


_ONE = "/messages/{id}/schedule"
_KEYED = "/topics/{topic}/schedule/{schedule_key}"
_CANCELLED = (200, "Cancelled, now or before.", ScheduleChange)
_MOVED = (200, "Rescheduled.", ScheduleChange)
_DELIVERED = (200, "Being delivered.", ScheduleChange)
_ERRORS = (TimerUnknown, AlreadyDelivered, AlreadyCancelled, TimerRefused)


@route(
    "DELETE",
    _ONE,
    "Cancel a timer",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=InRecord(),
    answers=(_CANCELLED, WAITS),
    errors=_ERRORS,
)
async def cancel(call: Call, query: NamedQuery) -> Response:
    """Cancel; a message that was cancelled before is answered so, as the wish is fulfilled."""
    return await _steer(call, "cancel", *await _named(call, query.topic), query.reason)


@route(
    "PATCH",
    _ONE,
    "Reschedule a timer",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=InRecord(),
    answers=(_MOVED, WAITS),
    errors=(*_ERRORS, MomentPast),
    most_body_bytes=_MOST_CHANGE_BYTES,
    example={"delay_ms": 3_600_000, "reason": "the flight is late"},
)
async def reschedule(call: Call, query: TopicOfUniqueId, body: NewMoment) -> Response:
    """Move a waiting message to another moment."""
    target, address = await _named(call, query.topic)
    return await _steer(call, "reschedule", target, address, body.reason, _due_ms(body, now_ms()))


@route(
    "POST",
    "/messages/{id}:deliver-now",
    "Deliver a timer now",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=InRecord(),
    answers=(_DELIVERED, WAITS),
    errors=_ERRORS,
)
async def deliver_now(call: Call, query: NamedQuery) -> Response:
    """Deliver a waiting message at once."""
    return await _steer(call, "deliver_now", *await _named(call, query.topic), query.reason)


@route(
    "DELETE",
    _KEYED,
    "Cancel a timer by schedule key",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=Topic(),
    answers=(_CANCELLED, WAITS),
    errors=_ERRORS,
)
async def cancel_keyed(call: Call, query: KeyedQuery) -> Response:
    """Cancel the message that waits with this schedule key."""
    return await _steer(call, "cancel", _keyed(call), None, query.reason)


@route(
    "PATCH",
    _KEYED,
    "Reschedule a timer by schedule key",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=Topic(),
    answers=(_MOVED, WAITS),
    errors=(*_ERRORS, MomentPast),
    most_body_bytes=_MOST_CHANGE_BYTES,
    example={"delay_ms": 3_600_000, "reason": "the flight is late"},
)
async def reschedule_keyed(call: Call, body: NewMoment) -> Response:
    """Move the message that waits with this schedule key to another moment."""
    return await _steer(call, "reschedule", _keyed(call), None, body.reason, _due_ms(body, now_ms()))


def _on_many(verb: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:
    """Declare a route that does something to all waiting messages that are chosen or match; `more` is of its body."""
    return route(
        "POST",
        f"/timers:{verb}",
        summary,
        action=PUBLISH,
        permission=STEER_TIMERS,
        on=InBody(),
        answers=(BEGUN, PREVIEWED),
        errors=(TooManyMatch,),
        example={"filter": {"topic": "orders"}, **more, "reason": "the flight is late", "preview": True},
    )


@_on_many("cancel", "Cancel selected timers, or all that match")
async def cancel_many(call: Call, body: ManyTimers) -> Response:
    """Cancel all that are chosen or match."""
    return await _begin(call, "timers.cancel", body)


@_on_many("deliver-now", "Deliver selected timers now, or all that match")
async def deliver_many(call: Call, body: ManyTimers) -> Response:
    """Deliver all that are chosen or match at once."""
    return await _begin(call, "timers.deliver_now", body)


@_on_many("reschedule", "Reschedule selected timers, or all that match", shift_ms=3_600_000)
async def reschedule_many(call: Call, body: ManyMoved) -> Response:
    """Move all that are chosen or match."""
    own = [each.deliver_at is not None for each in body.timers or ()]
    is_own = any(own)
    if (body.deliver_at is not None) + (body.shift_ms is not None) + is_own != 1 or is_own != all(own or [False]):
        raise InvalidMoment("Give deliver_at or shift_ms, or deliver_at for each timer, and one of them.", "deliver_at")
    if is_own:
        where: dict[str, Any] = {}
    elif body.deliver_at is not None:
        where = {"due_ms": moment_ms(body.deliver_at, "deliver_at")}
    else:
        where = {"shift_ms": body.shift_ms}
    return await _begin(call, "timers.reschedule", body, where)


@_on_many("move-to-broker", "Move selected timers, or all that match, to another broker", to="broker-b")
async def move_many(call: Call, body: ManyToBroker) -> Response:
    """Move all that are chosen or match to another broker, which delivers them at the same moments."""
    return await _begin(call, "timers.move_to_broker", body, {"to": body.to})


def _due_ms(wanted: NewMoment, now_ms: int) -> int:
    """Return the moment that is asked for in ms; raises InvalidMoment, ZoneMissing, MomentPast."""
    if (wanted.deliver_at is None) == (wanted.delay_ms is None):
        raise InvalidMoment("Give deliver_at or delay_ms, and not both.", "deliver_at")
    if wanted.deliver_at is not None:
        due_ms = moment_ms(wanted.deliver_at, "deliver_at")
    else:
        due_ms = min(now_ms + (wanted.delay_ms or 0), 2**63 - 1)
    if wanted.reject_past and due_ms < now_ms:
        raise MomentPast(f"{written_moment(due_ms)} is past; it is {written_moment(now_ms)}.", "deliver_at")
    return due_ms


def _keyed(call: Call) -> TimerTarget:
    """Return the timer that topic and schedule key of the address name; raises InvalidArgument."""
    topic, key = call.named["topic"], call.named["schedule_key"]
    check_topic(topic)
    check_schedule_key(key)
    return TimerTarget(topic=topic, schedule_key=key)


async def _named(call: Call, topic: str | None) -> tuple[TimerTarget, str | None]:
    """Return the timer that an id of the address names, and the broker to ask; raises unless the token may publish to
    its topic."""
    text, state = call.named["id"], call.state
    if topic is not None:
        check_topic(topic)
        call.require(topic)
        return TimerTarget(topic=topic, message_id=text), None
    if text.startswith("m1"):
        wanted = parse(text)
        call.require(wanted.topic)
        address = await state.admin.address_of(wanted.broker)
        if not wanted.unique_key:
            await _check_topic_at(wanted, address, state)
        return _target(wanted.topic, wanted.unique_key, wanted.position), address
    if is_offset_id(text):
        broker, found = await by_offset_id(text.upper(), state)
        if not call.allows(real_topic(found)):
            # whose it is must not be told, nor that it is there
            raise MessageNotFound
        return _target(real_topic(found), found.unique_key, found.position), await state.admin.address_of(broker)
    try:
        handle = read_handle(text)
    except BadHandle:
        raise InvalidIdentifier(
            "This is not an id, offset id or recall handle; a message id needs its ?topic=."
        ) from None
    call.require(handle.topic)
    return TimerTarget(handle=text), await state.admin.address_of(handle.broker)


async def _check_topic_at(wanted: MessageIdentifier, address: str, state: ApiState) -> None:
    """Raise TimerUnknown unless the record is of the topic that the id says: anybody can write an id."""
    try:
        found = await state.admin.message_at(wanted.position, topic=TIMER_TOPIC, address=address)
    except BrokerRefused:
        raise TimerUnknown("There is no pending timer with this id.") from None
    if real_topic(found) != wanted.topic:
        raise TimerUnknown("There is no pending timer with this id.")


def _target(topic: str, unique_key: str | None, position: int) -> TimerTarget:
    """Return the target by its unique key, which it keeps when it is rescheduled, else by its position."""
    return TimerTarget(topic=topic, message_id=unique_key) if unique_key else TimerTarget(position=position)


async def _steer(
    call: Call, action: Action, target: TimerTarget, address: str | None, reason: str, due_ms: int | None = None
) -> Response:
    kind, state = f"timers.{action}", call.state
    moment = {"due_ms": due_ms} if due_ms is not None else {}
    brokers = await state.admin.brokers()
    if needs_second_person(kind, ONE):
        parameters = {"targets": [to_builtins(target)], **moment}
        broker = await _broker_of(target, address, state) if len(brokers) > 1 else ""
        return await begun(kind, parameters, reason, _actor(call.grant), broker=broker)

    async def steer(at: str | None) -> Steered:
        answer = await state.admin.steer_timers(
            action, [target], reason=reason, due_ms=due_ms, reference=call.grant.who, address=at
        )
        return answer.results[0]

    if address is not None or len(brokers) < 2:
        done = [(address, await steer(address))]
    else:
        done = await _of_each([each.address for each in brokers], steer)
    operations = [await _kept(call, kind, each, at, reason, moment) for at, each in done]
    at, steered = done[0]
    if steered.outcome != "already_cancelled" or action != "cancel":
        raise_for(steered)
    return json_answer(await _told(steered, at, state, operations[0]))


#: what became of a message that several brokers were asked for, what says most first
_SAYING_MOST = ("cancelled", "rescheduled", "delivered_now", "refused", "already_cancelled", "already_delivered")


async def _of_each(
    addresses: Sequence[str], steer: Callable[[str], Awaitable[Steered]]
) -> list[tuple[str | None, Steered]]:
    """Return what the brokers answered of a message of which it is not said where it lies, what says most first.

    Each is asked: messages with the same schedule key may wait at several. Raises ClientError if none knows it and one
    did not answer.
    """

    async def told(address: str) -> Steered | ClientError:
        try:
            return await steer(address)
        except ClientError as error:
            return error

    answers = await asyncio.gather(*map(told, addresses))
    errors = [each for each in answers if isinstance(each, ClientError)]
    found: list[tuple[str | None, Steered]] = [
        (address, each) for address, each in zip(addresses, answers, strict=True) if not isinstance(each, ClientError)
    ]
    known = [each for each in found if each[1].outcome in _SAYING_MOST]
    if not known and errors:
        raise errors[0]
    return sorted(known, key=lambda each: _SAYING_MOST.index(each[1].outcome)) or found[:1]


async def _kept(
    call: Call, kind: str, steered: Steered, address: str | None, reason: str, moment: Mapping[str, Any]
) -> str | None:
    """Keep what was done as an operation, and return its address; None where nothing was changed."""
    if steered.outcome not in ("cancelled", "rescheduled", "delivered_now"):
        return None
    state = call.state
    item = Target({"position": steered.position}, _label(steered))
    parameters = {"targets": [item.target], **moment}
    broker = await _broker_at(address, state) if len(await state.admin.brokers()) > 1 else ""
    return await state.recorder.keep(kind, parameters, item, result_of(steered), call.grant, reason, broker)


async def _broker_of(target: TimerTarget, address: str | None, state: ApiState) -> str:
    """Return the broker at which a message waits, by its address or by asking each; raises TimerUnknown."""
    if address is not None:
        return await _broker_at(address, state)
    told, _missing = await tell_each(await asked(state, None), lambda _broker, admin: admin.timer(target))
    for broker, life in told.items():
        if life.state == "pending":
            return broker
    raise TimerUnknown("There is no pending timer with this name.")


def _label(steered: Steered) -> dict[str, Any]:
    """Return what people see of the timer, as it was before."""
    was_ms = steered.previous_due_ms if steered.previous_due_ms is not None else steered.due_ms
    name = steered.schedule_key or steered.message_id or f"{steered.position}"
    return {"topic": steered.topic or "", "name": name[:200], "due_ms": was_ms, "position": steered.position}


def raise_for(steered: Steered) -> None:
    """Raise unless what was asked for was done."""
    name = f"schedule key {steered.schedule_key!r}" if steered.schedule_key else "this name"
    if steered.outcome == "unknown":
        raise TimerUnknown(f"There is no pending timer with {name} is known.")
    if steered.outcome == "already_delivered":
        when = "" if steered.delivered_ms is None else f" at {written_moment(steered.delivered_ms)}"
        raise AlreadyDelivered(f"The message was delivered{when}.", delivered_ms=steered.delivered_ms)
    if steered.outcome == "already_cancelled":
        raise AlreadyCancelled("The message was cancelled before.", due_ms=steered.due_ms)
    if steered.outcome == "refused":
        raise TimerRefused(steered.error or "The broker refused this.", due_ms=steered.due_ms)


async def _told(steered: Steered, address: str | None, state: ApiState, operation: str | None) -> ScheduleChange:
    position = steered.new_position if steered.new_position is not None else steered.position
    identifier = None
    if steered.topic is not None and position is not None:
        identifier = written(await _broker_at(address, state), steered.topic, position, steered.message_id or "")
    return ScheduleChange(
        outcome=cast(Outcome, steered.outcome),  # raise_for has raised for the others
        id=identifier,
        message_id=steered.message_id,
        topic=steered.topic,
        schedule_key=steered.schedule_key,
        due_ms=steered.due_ms,
        previous_due_ms=steered.previous_due_ms,
        operation=operation,
    )


async def _broker_at(address: str | None, state: ApiState) -> str:
    """Return the name of the broker that was asked, at its address; without one, of the only one."""
    return next(each.name for each in await state.admin.members() if address in (None, each.address))


async def _begin(call: Call, kind: str, wanted: ManyTimers, more: Mapping[str, Any] | None = None) -> Response:
    if (wanted.filter is None) == (wanted.timers is None):
        raise SchemaViolated("Give filter or timers, and not both.")
    allow: Allow | None = None
    chosen = wanted.timers or ()
    own = [each.broker for each in chosen]
    broker = await spanned(call.state, _brokers_in(chosen), own, wanted.brokers, wanted.broker)
    if wanted.timers is not None:
        targets, is_bound = _chosen(call, wanted.timers, may_move=kind_of(kind).needs_moment)
        parameters: dict[str, Any] = {"targets": targets}
        allow = None if is_bound else call.preview_check()
    else:
        parameters = {"filter": _filter(call, wanted.filter), "is_all": wanted.all}
    parameters |= {"brokers": wanted.brokers} if wanted.brokers is not None else {}
    parameters |= more or {}
    actor = _actor(call.grant)
    return await begun(kind, parameters, wanted.reason, actor, allow=allow, is_look=wanted.preview, broker=broker)


def _brokers_in(chosen: Sequence[ChosenTimer]) -> list[str]:
    """Return the brokers that ids and recall handles name; what is no id is refused where it is read."""
    found = []
    for each in chosen:
        try:
            if each.id is not None and each.id.startswith("m1"):
                found.append(parse(each.id).broker)
            elif each.id is not None and not is_offset_id(each.id):
                found.append(read_handle(each.id).broker)
        except (BadHandle, InvalidIdentifier):
            continue
    return found


def _actor(grant: Grant) -> Actor:
    """Return the token as an actor; that it is allowed on each topic was checked here."""
    return token_actor(grant, frozenset((STEER_TIMERS,)))


def _filter(call: Call, chosen: TimerFilter | None) -> dict[str, Any]:
    """Return the filter of an operation; the token has to allow its topic, or all of them."""
    chosen = chosen or TimerFilter()
    call.require_where(chosen.topic)
    bounds = {"from_ms": ("due_from", chosen.due_from), "to_ms": ("due_before", chosen.due_before)}
    moments = {name: None if given is None else moment_ms(given, field) for name, (field, given) in bounds.items()}
    begin_ms, end_ms = moments["from_ms"], moments["to_ms"]
    if begin_ms is not None and end_ms is not None and end_ms <= begin_ms:
        raise InvalidMoment("due_before must be later than due_from.", "due_before")
    return {"topic": chosen.topic or "", "key": chosen.key or "", **moments}


def _chosen(call: Call, chosen: Sequence[ChosenTimer], *, may_move: bool) -> tuple[list[dict[str, Any]], bool]:
    """Return targets of an operation, and whether each can only be of a topic that the token allows to publish to.

    Where that is not so, the preview says which topics they are of. Raises ScopeMissing, PolicyDenies, SchemaViolated.
    """
    targets = [_target_of(call, each) for each in chosen]
    for each, target in zip(chosen, targets, strict=True):
        target |= {} if each.broker is None else {"broker": each.broker}
        if each.deliver_at is None:
            continue
        if not may_move:
            raise InvalidMoment("A time is given to timers that are rescheduled.", "deliver_at")
        target["dueMs"] = moment_ms(each.deliver_at, "deliver_at")
    return targets, all("topic" in target or "handle" in target for target in targets)


def _target_of(call: Call, each: ChosenTimer) -> dict[str, Any]:
    names = [each.id, each.schedule_key, each.message_id, each.position]
    has_key = each.schedule_key is not None or each.message_id is not None
    if sum(name is not None for name in names) != 1 or has_key != (each.topic is not None):
        raise SchemaViolated("A timer is named by id, by topic and schedule_key or message_id, or by position.")
    if each.position is not None:
        return {"position": each.position}
    if each.id is not None:
        return _by_id(call, each.id)
    topic = each.topic or ""
    check_topic(topic)
    call.require(topic)
    if each.schedule_key is None:
        return {"topic": topic, "uniqueKey": each.message_id}
    check_schedule_key(each.schedule_key)
    return {"topic": topic, "scheduleKey": each.schedule_key}


def _by_id(call: Call, text: str) -> dict[str, Any]:
    """Return the target of an id, by what a message keeps when it is moved where it has that."""
    if text.startswith("m1"):
        wanted = parse(text)
        call.require(wanted.topic)
        if wanted.unique_key:
            return {"topic": wanted.topic, "uniqueKey": wanted.unique_key}
        return {"position": wanted.position}
    if is_offset_id(text):
        return {"messageId": text.upper()}
    try:
        handle = read_handle(text)
    except BadHandle:
        raise InvalidIdentifier(f"{text[:60]!r} is not an id, offset id or recall handle.") from None
    call.require(handle.topic)
    return {"handle": text}
