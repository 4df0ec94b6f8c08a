"""Operations by REST: how far one is, stopping it, and taking back what it did; each token sees its own ones."""

from __future__ import annotations

import uuid
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from console.operations import workflow
from console.operations.actor import PAUSE_TIMERS, STEER_TIMERS, STEER_TRANSACTIONS, Actor
from console.operations.models import Operation
from console.rest.access import OWNER, InBody, OwnOperation
from console.rest.database import token_actor
from console.rest.errors import NoOperation
from console.rest.operations_bridge import begun, in_thread, shown_of
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN, OperationShown, Reason
from console.security.tokens import CONSUME, PUBLISH, SETTINGS, Grant

_OPERATION = "/operations/{id}"
#: who may begin operations, may look at them and stop them: at its own ones
_BEGINNERS = (PUBLISH, CONSUME, SETTINGS)


class TakenBack(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why what an operation did to timers is taken back; all of it, or the items with these numbers."""

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
    "Take back what an operation cancelled or moved",
    action=PUBLISH,
    on=(OwnOperation(), InBody()),
    answers=(BEGUN,),
    errors=(NoOperation,),
)
async def take_back(call: Call, body: TakenBack) -> Response:
    """Take back what a cancel or move of the same token did, as far as that still can be."""
    row = await _own(call)
    items = {} if body.items is None else {"items": body.items}
    parameters = {"operation": str(row.pk), **items}
    return await begun("timers.take_back", parameters, body.reason, _actor(call.grant), allow=call.preview_check())


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
