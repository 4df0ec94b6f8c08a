"""Operations by REST: previewed or begun, how far one is, stopping it, and taking back what it did.

The console's own code does it, in a thread that may wait. What a token may touch is known before, where the request
names topics; where it names records, by what the preview finds them to be. Each token sees its own operations.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypeVar

from django.db import connection
from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.responses import Response

from broker.client import ClientError
from console.operations import errors, workflow
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, STEER_TRANSACTIONS, Actor
from console.operations.models import Operation
from console.operations.reading import masked_examples, masks_of
from console.operations.registry import kind_of
from console.operations.shown_once import shown_once
from console.rest.access import OWNER, Allow, InBody, OwnOperation
from console.rest.database import token_actor
from console.rest.errors import (
    NoOperation,
    OperationRefused,
    RequestError,
    TooManyMatch,
    TopicHasWaiting,
)
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN, OperationPreview, OperationShown, Reason
from console.rest.several import of_broker
from console.security.gate import VIEW
from console.security.tokens import CONSUME, PUBLISH, SETTINGS, Grant
from console.site.clock import epoch_ms
from console.site.slow_requests import for_this_request

Result = TypeVar("Result")
_threads = ThreadPoolExecutor(2, thread_name_prefix="api-operations")


async def begun(
    kind: str,
    parameters: Mapping[str, Any],
    reason: str,
    actor: Actor,
    *,
    allow: Allow | None = None,
    is_look: bool = False,
    broker: str = "",
) -> Response:
    """Begin an operation and say where to look (a small one has run by then), or say what it would touch.

    `broker`: at this one alone; raises BrokerUnknown.
    """

    def looked() -> OperationPreview:
        with of_broker(broker):
            return _looked(kind, parameters, allow)

    def started() -> OperationShown:
        with of_broker(broker):
            with shown_once() as secrets:
                shown = shown_of(_begun(kind, parameters, reason, actor, allow))
            return replace(shown, secrets=secrets) if secrets else shown

    if is_look:
        return json_answer(await in_thread(looked))
    shown = await in_thread(started)
    answer = json_answer(shown, 202)
    answer.headers["location"] = f"/api/v1/operations/{shown.id}"
    return answer


def _begun(kind: str, parameters: Mapping[str, Any], reason: str, actor: Actor, allow: Allow | None) -> Operation:
    row = workflow.draft(kind, parameters, actor)
    if allow is not None:
        try:
            allow(kind_of(row.kind).topics_touched(row.parameters, row.preview))
        except RequestError:
            row.delete()
            raise
    try:
        return workflow.confirm(row.pk, actor, reason=reason, is_typing_needed=False)
    except errors.PendingUndecided:
        row.delete()
        raise


def _looked(name: str, parameters: Mapping[str, Any], allow: Allow | None) -> OperationPreview:
    kind = kind_of(name)
    checked = kind.checked(parameters)
    preview = kind.preview(checked).as_row()
    if allow is not None:
        allow(kind.topics_touched(checked, preview))
    return OperationPreview(kind=name, preview=_masked(name, preview))


def shown_of(row: Operation) -> OperationShown:
    """Return an operation as REST tells it; names of what it touches as the masks leave them."""
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
        finished_ms=epoch_ms(row.finished_at),
        preview=_masked(row.kind, row.preview),
        told=kind_of(row.kind).told(row),
    )


def _masked(kind: str, preview: Mapping[str, Any]) -> dict[str, Any]:
    return {**preview, "examples": masked_examples(preview.get("examples", ()), masks_of(kind))}


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, which may wait for database or broker; errors of operations become those of REST."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _with_database, for_this_request(work))


def _with_database(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (RequestError, ClientError):
        raise
    except errors.TooMany as error:
        raise TooManyMatch(str(error)) from None
    except errors.PendingUndecided as error:
        raise TopicHasWaiting(str(error), error.waiting) from None
    except errors.OperationError as error:
        raise OperationRefused(str(error), error.field) from None
    finally:
        connection.close()


_OPERATION = "/operations/{id}"
#: who may begin operations, may look at them and stop them: at its own ones
_BEGINNERS = (PUBLISH, CONSUME, SETTINGS)


class TakenBack(Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason for taking back what an operation did to timers; all of it, or the items with these numbers."""

    reason: Reason
    items: Annotated[list[int], Meta(min_length=1, max_length=10_000)] | None = None


@route(
    "GET",
    _OPERATION,
    "How far an operation is",
    action=_BEGINNERS,
    on=OwnOperation(),
    answers=((200, "The operation.", OperationShown),),
    errors=(NoOperation,),
)
async def operation(call: Call) -> Response:
    """Answer how far an operation is; only that of the same token."""
    row = await _own(call)
    return json_answer(await in_thread(lambda: shown_of(row)))


@route(
    "POST",
    f"{_OPERATION}:abort",
    "Stop an operation after the batch under way",
    action=_BEGINNERS,
    permission=VIEW,
    on=OwnOperation(),
    answers=((200, "The operation.", OperationShown),),
    errors=(NoOperation,),
)
async def abort(call: Call) -> Response:
    """Stop an operation after the batch that is under way; what is done stays done."""
    row = await _own(call)
    return json_answer(await in_thread(lambda: shown_of(workflow.abort(row.pk, _actor(call.grant)))))


@route(
    "POST",
    f"{_OPERATION}:take-back",
    "Undo a cancel or a reschedule",
    action=PUBLISH,
    permission=STEER_TIMERS,
    on=(OwnOperation(), InBody()),
    answers=(BEGUN,),
    errors=(NoOperation,),
)
async def take_back(call: Call, body: TakenBack) -> Response:
    """Take back what a cancel or move of the same token did, as far as that still can be."""
    row = await _own(call)
    items = {} if body.items is None else {"items": body.items}
    parameters = {"operation": str(row.pk), **items}
    actor, allow = _actor(call.grant), call.preview_check()
    return await begun("timers.take_back", parameters, body.reason, actor, allow=allow, broker=row.broker)


async def _own(call: Call) -> Operation:
    """Return the operation that the address names, if the same token began it; raises NoOperation."""
    try:
        operation_id = uuid.UUID(call.named["id"])
    except ValueError:
        raise NoOperation from None
    actor = _actor(call.grant)
    # names of tokens are not unique: who it was made for has to be the same, too
    own = Operation.objects.filter(pk=operation_id, actor=actor.name, created_by=actor.user_id)
    row = await in_thread(own.first)
    if row is None:
        raise NoOperation
    call.was_checked(OWNER)
    return row


def _actor(grant: Grant) -> Actor:
    """Return the token as an actor; that its topics are allowed was checked when the operation began."""
    return token_actor(grant, frozenset((STEER_TIMERS, PAUSE_TIMERS, STEER_TRANSACTIONS)))
