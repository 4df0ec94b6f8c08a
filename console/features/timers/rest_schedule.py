"""DELETE, PATCH and deliver-now of one waiting message, named by any of its ids or by its schedule key."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import Response

from broker.client import BrokerRefused
from broker.client.names import check_schedule_key, check_topic
from broker.client.timers import Action, BadHandle, Steered, TimerTarget, read_handle
from broker.rocketmq.topics import TIMER_TOPIC
from console.features.timers.operations import result_of
from console.operations import second_person
from console.operations.kind import Target
from console.operations.single_calls import ONE
from console.security.tokens import PUBLISH, Grant
from console.site.clock import now_ms

from ...rest.errors import (
    AlreadyCancelled,
    AlreadyDelivered,
    InvalidIdentifier,
    InvalidMoment,
    InvalidParameter,
    MessageNotFound,
    MomentPast,
    TimerRefused,
    TimerUnknown,
)
from ...rest.grants import require
from ...rest.identifiers import MessageIdentifier, parse, written
from ...rest.moments import moment_ms, written_moment
from ...rest.operations_bridge import begun
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import by_offset_id, is_offset_id, only_parameters, real_topic
from .rest_bulk import actor_of
from .rest_schemas import NewMoment, Outcome, ScheduleChange

MAX_CHANGE_BYTES = 64 * 1024
MAX_REASON_CHARACTERS = 500
_moment = msgspec.json.Decoder(NewMoment)


async def cancel(request: Request, grant: Grant, room: Room) -> Response:
    """Cancel; a message that was cancelled before is answered so, as the wish is fulfilled."""
    target, address = await _named(request, grant, room, "topic", "reason")
    return await _steer("cancel", target, address, _reason(request), grant, room)


async def reschedule(request: Request, grant: Grant, room: Room) -> Response:
    """Move to another moment."""
    target, address = await _named(request, grant, room, "topic")
    wanted = decode(await read_body(request, MAX_CHANGE_BYTES), _moment)
    due_ms = new_due_ms(wanted, now_ms())
    return await _steer("reschedule", target, address, wanted.reason, grant, room, due_ms)


async def deliver_now(request: Request, grant: Grant, room: Room) -> Response:
    """Deliver at once."""
    target, address = await _named(request, grant, room, "topic", "reason")
    return await _steer("deliver_now", target, address, _reason(request), grant, room)


def new_due_ms(wanted: NewMoment, now_ms: int) -> int:
    """The moment that is asked for; raises InvalidMoment, ZoneMissing, MomentPast."""
    if (wanted.deliver_at is None) == (wanted.delay_ms is None):
        raise InvalidMoment("Give deliver_at or delay_ms, and not both.", "deliver_at")
    if wanted.deliver_at is not None:
        due_ms = moment_ms(wanted.deliver_at, "deliver_at")
    else:
        due_ms = min(now_ms + (wanted.delay_ms or 0), 2**63 - 1)
    if wanted.reject_past and due_ms < now_ms:
        raise MomentPast(f"{written_moment(due_ms)} is past; it is {written_moment(now_ms)}.", "deliver_at")
    return due_ms


def _reason(request: Request) -> str:
    reason = request.query_params.get("reason", "")
    if len(reason) > MAX_REASON_CHARACTERS:
        raise InvalidParameter(f"The reason has {len(reason)} characters, at most {MAX_REASON_CHARACTERS} are kept.")
    return reason


async def _named(request: Request, grant: Grant, room: Room, *parameters: str) -> tuple[TimerTarget, str | None]:
    """The timer that the address names, and the broker to ask; raises unless the token may publish to its topic."""
    if "schedule_key" in request.path_params:
        only_parameters(request, *(name for name in parameters if name != "topic"))
        topic, key = request.path_params["topic"], request.path_params["schedule_key"]
        check_topic(topic)
        check_schedule_key(key)
        return TimerTarget(topic=topic, schedule_key=key), None
    only_parameters(request, *parameters)
    text, topic = request.path_params["id"], request.query_params.get("topic")
    if topic is not None:
        check_topic(topic)
        require(grant, PUBLISH, topic)
        return TimerTarget(topic=topic, unique_key=text), None
    if text.startswith("m1"):
        wanted = parse(text)
        require(grant, PUBLISH, wanted.topic)
        address = await room.admin.address_of(wanted.broker)
        if not wanted.unique_key:
            await _check_topic_at(wanted, address, room)
        return _target(wanted.topic, wanted.unique_key, wanted.position), address
    if is_offset_id(text):
        found = await by_offset_id(text.upper(), room)
        if not grant.allows(PUBLISH, real_topic(found)):
            # whose it is must not be told, nor that it is there
            raise MessageNotFound
        return _target(real_topic(found), found.unique_key, found.position), "{}:{}".format(*found.store_host)
    try:
        handle = read_handle(text)
    except BadHandle:
        raise InvalidIdentifier("This is no id, offset id or recall handle; a unique id needs its ?topic=.") from None
    require(grant, PUBLISH, handle.topic)
    return TimerTarget(handle=text), await room.admin.address_of(handle.broker)


async def _check_topic_at(wanted: MessageIdentifier, address: str, room: Room) -> None:
    """Raise TimerUnknown unless the record is of the topic that the id says: anybody can write an id."""
    try:
        found = await room.admin.message_at(wanted.position, topic=TIMER_TOPIC, address=address)
    except BrokerRefused:
        raise TimerUnknown("No waiting message with this id is known.") from None
    if real_topic(found) != wanted.topic:
        raise TimerUnknown("No waiting message with this id is known.")


def _target(topic: str, unique_key: str | None, position: int) -> TimerTarget:
    """By its unique key, which it keeps when it is rescheduled; by its position if it has none."""
    return TimerTarget(topic=topic, unique_key=unique_key) if unique_key else TimerTarget(position=position)


async def _steer(
    action: Action, target: TimerTarget, address: str | None, reason: str, grant: Grant, room: Room,
    due_ms: int | None = None,
) -> Response:  # fmt: skip
    kind = f"timers.{action}"
    moment = {"due_ms": due_ms} if due_ms is not None else {}
    if second_person.is_needed(kind, ONE):
        return await begun(kind, {"targets": [to_builtins(target)], **moment}, reason, actor_of(grant))
    answer = await room.admin.steer_timers(
        action, [target], reason=reason, due_ms=due_ms, reference=f"token {grant.name}", address=address
    )
    steered = answer.results[0]
    if steered.outcome != "already_cancelled" or action != "cancel":
        raise_for(steered)
    operation = None
    if steered.outcome != "already_cancelled":
        item = Target({"position": steered.position}, _label(steered))
        operation = await room.recorder.keep(
            kind, {"targets": [item.target], **moment}, item, result_of(steered), grant, reason
        )  # fmt: skip
    return json_answer(await _told(steered, address, room, operation))


def _label(steered: Steered) -> dict[str, Any]:
    """What people see of it, as it was before."""
    was_ms = steered.previous_due_ms if steered.previous_due_ms is not None else steered.due_ms
    name = steered.schedule_key or steered.unique_key or f"{steered.position}"
    return {"topic": steered.topic or "", "name": name[:200], "due_ms": was_ms, "position": steered.position}


def raise_for(steered: Steered) -> None:
    """Raise unless what was asked for was done."""
    name = f"schedule key {steered.schedule_key!r}" if steered.schedule_key else "this name"
    if steered.outcome == "unknown":
        raise TimerUnknown(f"No waiting message with {name} is known.")
    if steered.outcome == "already_delivered":
        when = "" if steered.delivered_ms is None else f" at {written_moment(steered.delivered_ms)}"
        raise AlreadyDelivered(f"The message was delivered{when}.", delivered_ms=steered.delivered_ms)
    if steered.outcome == "already_cancelled":
        raise AlreadyCancelled("The message was cancelled before.", due_ms=steered.due_ms)
    if steered.outcome == "refused":
        raise TimerRefused(steered.error or "The broker refused this.", due_ms=steered.due_ms)


async def _told(steered: Steered, address: str | None, room: Room, operation: str | None) -> ScheduleChange:
    position = steered.new_position if steered.new_position is not None else steered.position
    identifier = None
    if steered.topic is not None and position is not None:
        identifier = written(await _broker_at(address, room), steered.topic, position, steered.unique_key or "")
    return ScheduleChange(
        outcome=cast(Outcome, steered.outcome),  # raise_for has raised for the others
        id=identifier,
        message_id=steered.unique_key,
        topic=steered.topic,
        schedule_key=steered.schedule_key,
        due_ms=steered.due_ms,
        previous_due_ms=steered.previous_due_ms,
        operation=operation,
    )


async def _broker_at(address: str | None, room: Room) -> str:
    brokers = await room.admin.brokers()
    return next((each.name for each in brokers if each.address == address), brokers[0].name)
