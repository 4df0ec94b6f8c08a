"""Many timers at once by REST, and pausing all of them: the console's operations, with its audit, asked for by a token.

Timers are chosen by a filter or one by one. A filter needs a token for its topic, or for all topics. Of timers that are
chosen one by one, each must be of a topic that the token may publish to; where the request does not say the topic, the
preview of the operation does.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client.names import check_schedule_key, check_topic
from broker.client.timers import BadHandle, read_handle
from console.features.messages.rest import is_offset_id, only_parameters
from console.features.timers.rest_bulk_schemas import ManyMoved, ManyTimers, SwitchReason, TakenBack, TimerFilter
from console.operations import workflow
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, STEER_TRANSACTIONS, Actor
from console.operations.models import Operation
from console.rest.choice_schemas import ChosenTimer
from console.rest.errors import InvalidIdentifier, InvalidMoment, NoOperation, SchemaViolated
from console.rest.grants import require, require_where
from console.rest.identifiers import parse
from console.rest.moments import moment_ms
from console.rest.operations_bridge import Allow, allowed, begun, in_thread, shown_of
from console.rest.recorder import token_actor
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.state import Room
from console.security.tokens import PUBLISH, Grant

#: a thousand that are chosen by their ids
MAX_BODY_BYTES = 512 * 1024
_many = msgspec.json.Decoder(ManyTimers)
_moved = msgspec.json.Decoder(ManyMoved)
_switch = msgspec.json.Decoder(SwitchReason)
_taken_back = msgspec.json.Decoder(TakenBack)


async def cancel(request: Request, grant: Grant, room: Room) -> Response:
    """Cancel all that match."""
    return await _start(request, grant, "timers.cancel", decode(await read_body(request, MAX_BODY_BYTES), _many))


async def deliver_now(request: Request, grant: Grant, room: Room) -> Response:
    """Deliver all that match at once."""
    return await _start(request, grant, "timers.deliver_now", decode(await read_body(request, MAX_BODY_BYTES), _many))


async def reschedule(request: Request, grant: Grant, room: Room) -> Response:
    """Move all that match."""
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _moved)
    own = [each.deliver_at is not None for each in wanted.timers or ()]
    is_own = any(own)
    if (wanted.deliver_at is not None) + (wanted.shift_ms is not None) + is_own != 1 or is_own != all(own or [False]):
        raise InvalidMoment("Give deliver_at or shift_ms, or deliver_at for each timer, and one of them.", "deliver_at")
    if is_own:
        where: dict[str, Any] = {}
    elif wanted.deliver_at is not None:
        where = {"due_ms": moment_ms(wanted.deliver_at, "deliver_at")}
    else:
        where = {"shift_ms": wanted.shift_ms}
    return await _start(request, grant, "timers.reschedule", wanted, where)


async def pause(request: Request, grant: Grant, room: Room) -> Response:
    """Release no timers any more; needs a token for every topic."""
    return await _switched(request, grant, "timers.pause")


async def resume(request: Request, grant: Grant, room: Room) -> Response:
    """Release timers again; needs a token for every topic."""
    return await _switched(request, grant, "timers.resume")


async def operation(request: Request, grant: Grant, room: Room) -> Response:
    """How far an operation is; only that of the same token."""
    only_parameters(request)
    shown = await in_thread(lambda: shown_of(_own(request.path_params["id"], grant)))
    return json_answer(shown)


async def abort(request: Request, grant: Grant, room: Room) -> Response:
    """Stop an operation after the batch that is under way; what is done stays done."""
    only_parameters(request)
    shown = await in_thread(
        lambda: shown_of(workflow.abort(_own(request.path_params["id"], grant).pk, actor_of(grant)))
    )  # fmt: skip
    return json_answer(shown)


async def take_back(request: Request, grant: Grant, room: Room) -> Response:
    """Take back what a cancel or move of the same token did, as far as that still can be."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _taken_back)
    number = (await in_thread(lambda: _own(request.path_params["id"], grant))).pk
    items = {} if wanted.items is None else {"items": wanted.items}
    return await begun(
        "timers.take_back", {"operation": str(number), **items}, wanted.reason, actor_of(grant), allow=allowed(grant)
    )  # fmt: skip


async def _start(
    request: Request, grant: Grant, kind: str, wanted: ManyTimers, more: Mapping[str, Any] | None = None
) -> Response:
    only_parameters(request)
    if (wanted.filter is None) == (wanted.timers is None):
        raise SchemaViolated("Give filter or timers, and not both.")
    allow: Allow | None = None
    if wanted.timers is not None:
        targets, is_bound = chosen_timers(wanted.timers, grant, may_move=kind == "timers.reschedule")
        parameters: dict[str, Any] = {"targets": targets}
        allow = None if is_bound else allowed(grant)
    else:
        parameters = {"filter": _filter(wanted.filter, grant), "is_all": wanted.all}
    return await begun(
        kind, {**parameters, **(more or {})}, wanted.reason, actor_of(grant), allow=allow, is_look=wanted.preview
    )  # fmt: skip


def _filter(chosen: TimerFilter | None, grant: Grant) -> dict[str, Any]:
    """As operations have it; the token has to allow its topic, or all of them."""
    chosen = chosen or TimerFilter()
    require_where(grant, chosen.topic)
    bounds = {"from_ms": ("due_from", chosen.due_from), "to_ms": ("due_before", chosen.due_before)}
    moments = {name: None if given is None else moment_ms(given, field) for name, (field, given) in bounds.items()}
    begin_ms, end_ms = moments["from_ms"], moments["to_ms"]
    if begin_ms is not None and end_ms is not None and end_ms <= begin_ms:
        raise InvalidMoment("due_before must be later than due_from.", "due_before")
    return {"topic": chosen.topic or "", "key": chosen.key or "", **moments}


async def _switched(request: Request, grant: Grant, kind: str) -> Response:
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _switch)
    return await begun(kind, {}, wanted.reason, actor_of(grant))


def actor_of(grant: Grant) -> Actor:
    """The token as the audit knows it; what it may do was checked here, by topic."""
    return token_actor(grant, frozenset((STEER_TIMERS, PAUSE_TIMERS, STEER_TRANSACTIONS)))


def _own(text: str, grant: Grant) -> Operation:
    try:
        number = uuid.UUID(text)
    except ValueError:
        raise NoOperation from None
    # names of tokens are not unique: who it was made for has to be the same, too
    row = Operation.objects.filter(pk=number, actor=actor_of(grant).name, created_by=grant.user_id).first()
    if row is None:
        raise NoOperation
    return row


def chosen_timers(chosen: Sequence[ChosenTimer], grant: Grant, *, may_move: bool) -> tuple[list[dict[str, Any]], bool]:
    """Targets of an operation, and whether each can only be of a topic that the token allows to publish to.

    Where that is not so, the preview says which topics they are of. Raises ScopeMissing, PolicyDenies, SchemaViolated.
    """
    targets = [_target(each, grant) for each in chosen]
    for each, target in zip(chosen, targets, strict=True):
        if each.deliver_at is None:
            continue
        if not may_move:
            raise InvalidMoment("A moment is given to timers that are moved.", "deliver_at")
        target["dueMs"] = moment_ms(each.deliver_at, "deliver_at")
    return targets, all("topic" in target or "handle" in target for target in targets)


def _target(each: ChosenTimer, grant: Grant) -> dict[str, Any]:
    names = [each.id, each.schedule_key, each.message_id, each.position]
    has_key = each.schedule_key is not None or each.message_id is not None
    if sum(name is not None for name in names) != 1 or has_key != (each.topic is not None):
        raise SchemaViolated("A timer is named by id, by topic and schedule_key or message_id, or by position.")
    if each.position is not None:
        return {"position": each.position}
    if each.id is not None:
        return _by_id(each.id, grant)
    topic = each.topic or ""
    check_topic(topic)
    require(grant, PUBLISH, topic)
    if each.schedule_key is None:
        return {"topic": topic, "uniqueKey": each.message_id}
    check_schedule_key(each.schedule_key)
    return {"topic": topic, "scheduleKey": each.schedule_key}


def _by_id(text: str, grant: Grant) -> dict[str, Any]:
    """By what a message keeps when it is moved, where it has it."""
    if text.startswith("m1"):
        wanted = parse(text)
        require(grant, PUBLISH, wanted.topic)
        if wanted.unique_key:
            return {"topic": wanted.topic, "uniqueKey": wanted.unique_key}
        return {"position": wanted.position}
    if is_offset_id(text):
        return {"messageId": text.upper()}
    try:
        handle = read_handle(text)
    except BadHandle:
        raise InvalidIdentifier(f"{text[:60]!r} is no id, offset id or recall handle.") from None
    require(grant, PUBLISH, handle.topic)
    return {"handle": text}
