"""Many timers at once, and all of them paused: operations of the console, with its audit, asked for by a token.

The console's functions wait for the database and the broker, so they run in threads of their own here.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from django.db import connection
from starlette.requests import Request
from starlette.responses import Response

from broker.client import ClientError
from broker.client.names import check_topic
from console.credentials import PUBLISH, Grant
from console.operations import desk, errors
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, STEER_TRANSACTIONS, Actor
from console.operations.reach import Reach, reach_of
from console.operations.rows import Operation

from .answer import json_answer
from .bulkschemas import ManyMoved, ManyTimers, OperationShown, SwitchReason, TakenBack
from .errors import InvalidMoment, NoOperation, OperationRefused, RequestError, TooManyMatch
from .grants import require, require_everywhere
from .looking import only_parameters
from .moments import moment_ms
from .reading import decode, read_body
from .recorder import token_actor
from .room import Room

MAX_BODY_BYTES = 64 * 1024
Result = TypeVar("Result")
_many = msgspec.json.Decoder(ManyTimers)
_moved = msgspec.json.Decoder(ManyMoved)
_switch = msgspec.json.Decoder(SwitchReason)
_taken_back = msgspec.json.Decoder(TakenBack)
_threads = ThreadPoolExecutor(2, thread_name_prefix="api-operations")


async def cancel(request: Request, grant: Grant, room: Room) -> Response:
    """Cancel all that match."""
    return await _start(request, grant, "timers.cancel", decode(await read_body(request, MAX_BODY_BYTES), _many))


async def deliver_now(request: Request, grant: Grant, room: Room) -> Response:
    """Deliver all that match at once."""
    return await _start(request, grant, "timers.deliver_now", decode(await read_body(request, MAX_BODY_BYTES), _many))


async def reschedule(request: Request, grant: Grant, room: Room) -> Response:
    """Move all that match."""
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _moved)
    if (wanted.deliver_at is None) == (wanted.shift_ms is None):
        raise InvalidMoment("Give deliver_at or shift_ms, and not both.", "deliver_at")
    if wanted.deliver_at is not None:
        where: dict[str, Any] = {"due_ms": moment_ms(wanted.deliver_at, "deliver_at")}
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
    row = await in_thread(lambda: _own(request.path_params["id"], grant))
    return json_answer(_shown(row))


async def abort(request: Request, grant: Grant, room: Room) -> Response:
    """Stop an operation after the batch that is under way; what is done stays done."""
    only_parameters(request)
    row = await in_thread(lambda: desk.abort(_own(request.path_params["id"], grant).pk, actor_of(grant)))
    return json_answer(_shown(row))


async def take_back(request: Request, grant: Grant, room: Room) -> Response:
    """Take back what a cancel or move of the same token did, as far as that still can be."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _taken_back)
    row, touched = await in_thread(lambda: _own_and_reach(request.path_params["id"], grant))
    if not touched.topics:
        require_everywhere(grant)
    for topic in touched.topics:
        require(grant, PUBLISH, topic)
    items = {} if wanted.items is None else {"items": wanted.items}
    return await begun("timers.take_back", {"operation": str(row.pk), **items}, wanted.reason, actor_of(grant))


async def _start(
    request: Request, grant: Grant, kind: str, wanted: ManyTimers, more: Mapping[str, Any] | None = None
) -> Response:
    only_parameters(request)
    chosen = wanted.filter
    if chosen.topic is not None:
        check_topic(chosen.topic)
        require(grant, PUBLISH, chosen.topic)
    else:
        require_everywhere(grant)
    bounds = {
        name: moment_ms(value, field) if value is not None else None
        for name, field, value in (
            ("from_ms", "due_from", chosen.due_from),
            ("to_ms", "due_before", chosen.due_before),
        )
    }
    parameters = {
        "filter": {"topic": chosen.topic or "", "key": chosen.key or "", **bounds},
        "is_all": wanted.all,
        **(more or {}),
    }
    return await begun(kind, parameters, wanted.reason, actor_of(grant))


async def _switched(request: Request, grant: Grant, kind: str) -> Response:
    only_parameters(request)
    require_everywhere(grant)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _switch)
    return await begun(kind, {}, wanted.reason, actor_of(grant))


async def begun(kind: str, parameters: Mapping[str, Any], reason: str, actor: Actor) -> Response:
    """Start an operation and say where to look; a small one has run by then."""
    row = await in_thread(lambda: desk.start(kind, parameters, actor, reason=reason))
    answer = json_answer(_shown(row), 202)
    answer.headers["location"] = f"/api/v1/operations/{row.pk}"
    return answer


def actor_of(grant: Grant) -> Actor:
    """The token as the audit knows it; what it may do was checked here, by topic."""
    return token_actor(grant, frozenset((STEER_TIMERS, PAUSE_TIMERS, STEER_TRANSACTIONS)))


def _own(text: str, grant: Grant) -> Operation:
    try:
        number = uuid.UUID(text)
    except ValueError:
        raise NoOperation from None
    row = Operation.objects.filter(pk=number, actor=actor_of(grant).name).first()
    if row is None:
        raise NoOperation
    return row


def _own_and_reach(text: str, grant: Grant) -> tuple[Operation, Reach]:
    row = _own(text, grant)
    return row, reach_of(row.kind, row.parameters, row.preview)


async def in_thread(work: Callable[[], Result]) -> Result:
    """What `work` gives, which waits for the database or the broker; errors of operations become those of REST."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _with_database, work)


def _with_database(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (RequestError, ClientError):
        raise
    except errors.TooMany as error:
        raise TooManyMatch(str(error)) from None
    except errors.OperationError as error:
        raise OperationRefused(str(error), error.field) from None
    finally:
        connection.close()


def _shown(row: Operation) -> OperationShown:
    return OperationShown(
        id=str(row.pk),
        kind=row.kind,
        state=row.state,
        reason=row.reason,
        total=row.total,
        done=row.done,
        results=row.results,
        error=row.error or None,
        created_ms=round(row.created_at.timestamp() * 1000),
        finished_ms=round(row.finished_at.timestamp() * 1000) if row.finished_at is not None else None,
        preview=row.preview,
    )
