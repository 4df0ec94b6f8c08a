"""Many transactions at once: an operation of the console, with its audit, asked for by a token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client.transactions import Action
from console.security.tokens import Grant
from console.site.clock import now_ms

from ...rest.choice_schemas import ChosenTransaction
from ...rest.errors import SchemaViolated
from ...rest.grants import require_where
from ...rest.moments import moment_ms
from ...rest.operations_bridge import Allow, allowed, begun
from ...rest.request_body import decode, read_body
from ...rest.state import Room
from ..messages.rest import only_parameters
from ..timers.rest_bulk import MAX_BODY_BYTES, actor_of
from .rest import named
from .rest_schemas import ManyTransactions, TransactionFilter

#: halves that are asked for at a time
_AT_ONCE = 32
Handler = Callable[[Request, Grant, Room], Awaitable[Response]]
_many = msgspec.json.Decoder(ManyTransactions)


def operation(action: Action) -> Handler:
    """The handler of one action on all that match, or on those that are chosen."""

    async def handler(request: Request, grant: Grant, room: Room) -> Response:
        only_parameters(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), _many)
        if (wanted.filter is None) == (wanted.transactions is None):
            raise SchemaViolated("Give filter or transactions, and not both.")
        allow: Allow | None = None
        if wanted.transactions is not None:
            parameters: dict[str, Any] = {"targets": await _targets(wanted.transactions, grant, room)}
            allow = None if all(each.id is not None for each in wanted.transactions) else allowed(grant)
        else:
            parameters = {"filter": _filter(wanted.filter, grant), "is_all": wanted.all}
        return await begun(
            f"transactions.{action}", parameters, wanted.reason, actor_of(grant), allow=allow, is_look=wanted.preview
        )  # fmt: skip

    handler.__doc__ = f"Do {action} to all that match, or to those that are chosen."
    return handler


async def _targets(chosen: Sequence[ChosenTransaction], grant: Grant, room: Room) -> list[dict[str, int]]:
    """Where their halves are: asked of the broker for those that are named by an id, a few at a time."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def target(each: ChosenTransaction) -> dict[str, int]:
        if each.id is not None and each.offset is None and each.position is None:
            async with gate:
                return (await named(each.id, grant, room)).place
        if each.id is not None or each.offset is None or each.position is None:
            raise SchemaViolated("A transaction is named by id, or by offset and position.")
        return {"offset": each.offset, "position": each.position}

    return await asyncio.gather(*map(target, chosen))


def _filter(chosen: TransactionFilter | None, grant: Grant) -> dict[str, Any]:
    """As operations have it; the token has to allow its topic, or all of them."""
    chosen = chosen or TransactionFilter()
    require_where(grant, chosen.topic)
    return {
        "state": chosen.state, "topic": chosen.topic or "", "group": chosen.producer_group or "",
        "before_ms": _before_ms(chosen),
    }  # fmt: skip


def _before_ms(chosen: TransactionFilter) -> int | None:
    """By the broker's clock where a moment is given; an age counts from the pages' now."""
    if chosen.stored_before is not None:
        return moment_ms(chosen.stored_before, "stored_before")
    if chosen.older_than_ms is not None:
        return max(0, now_ms() - chosen.older_than_ms)
    return None
