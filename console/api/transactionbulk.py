"""Many transactions at once: an operation of the console, with its audit, asked for by a token."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from broker.client.names import check_topic
from broker.client.transactions_admin import Action
from console.credentials import PUBLISH, Grant

from .bulk import MAX_BODY_BYTES, actor_of, begun
from .grants import require, require_everywhere
from .looking import only_parameters
from .moments import moment_ms
from .reading import decode, read_body
from .room import Room
from .transactionschemas import ManyTransactions, TransactionFilter

Handler = Callable[[Request, Grant, Room], Awaitable[Response]]
_many = msgspec.json.Decoder(ManyTransactions)


def operation(action: Action) -> Handler:
    """The handler of one action on all that match."""

    async def handler(request: Request, grant: Grant, room: Room) -> Response:
        only_parameters(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), _many)
        chosen = wanted.filter
        if chosen.topic is not None:
            check_topic(chosen.topic)
            require(grant, PUBLISH, chosen.topic)
        else:
            require_everywhere(grant)
        parameters: dict[str, Any] = {
            "filter": {
                "state": chosen.state, "topic": chosen.topic or "", "group": chosen.producer_group or "",
                "before_ms": _before_ms(chosen),
            },
            "is_all": wanted.all,
        }  # fmt: skip
        return await begun(f"transactions.{action}", parameters, wanted.reason, actor_of(grant))

    handler.__doc__ = f"Do {action} to all that match."
    return handler


def _before_ms(chosen: TransactionFilter) -> int | None:
    """By the broker's clock where a moment is given; an age counts from this server's."""
    if chosen.stored_before is not None:
        return moment_ms(chosen.stored_before, "stored_before")
    if chosen.older_than_ms is not None:
        return max(0, time.time_ns() // 1_000_000 - chosen.older_than_ms)
    return None
