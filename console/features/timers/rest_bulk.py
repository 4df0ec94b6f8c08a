"""Many timers at once, and all of them paused: operations of the console, with its audit, asked for by a token."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.operations import workflow
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, STEER_TRANSACTIONS, Actor
from console.operations.models import Operation
from console.security.tokens import Grant

from ...rest.errors import InvalidMoment, NoOperation, SchemaViolated
from ...rest.grants import require_where
from ...rest.moments import moment_ms
from ...rest.operations_bridge import Allow, allowed, begun, in_thread, shown_of
from ...rest.recorder import token_actor
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from .rest_bulk_schemas import ManyMoved, ManyTimers, SwitchReason, TakenBack, TimerFilter
from .rest_selection import chosen_timers

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
