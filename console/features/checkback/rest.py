"""Check-back addresses by REST: for tokens that administer producer groups (`manage.py token create --admin`)."""

from __future__ import annotations

from datetime import datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from console.features.checkback import registry
from console.features.checkback.models import CheckAddress
from console.operations.actor import Actor
from console.security.tokens import ADMIN, Grant

from ...rest.errors import CheckAddressTaken, CheckAddressUnknown, OperationRefused
from ...rest.grants import require
from ...rest.operations_bridge import in_thread
from ...rest.request_body import decode, read_body
from ...rest.responses import json_answer
from ...rest.state import Room
from ..messages.rest import only_parameters
from ..timers.rest_bulk import MAX_BODY_BYTES
from .rest_schemas import (
    CheckAddressChange,
    CheckAddressRows,
    CheckAddressShown,
    NewCheckAddress,
)

_new = msgspec.json.Decoder(NewCheckAddress)
_change = msgspec.json.Decoder(CheckAddressChange)


async def addresses(request: Request, grant: Grant, room: Room) -> Response:
    """All of the groups that the token administers."""
    only_parameters(request)
    rows = await in_thread(lambda: list(CheckAddress.objects.all()))
    return json_answer(
        CheckAddressRows(
            check_addresses=[_shown(row) for row in rows if grant.allows(ADMIN, row.group, "producer group")]
        )
    )


async def address(request: Request, grant: Grant, room: Room) -> Response:
    """One."""
    only_parameters(request)
    group = request.path_params["group"]
    row = await in_thread(lambda: CheckAddress.objects.filter(group=group).first())
    if row is None:
        raise CheckAddressUnknown
    return json_answer(_shown(row))


async def register(request: Request, grant: Grant, room: Room) -> Response:
    """A new one; the answer has its secret."""
    only_parameters(request)
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _new)
    require(grant, ADMIN, wanted.producer_group, "producer group")

    def work() -> tuple[CheckAddress, str]:
        try:
            return registry.register(
                wanted.producer_group, wanted.url, _actor(grant), reason=wanted.reason, is_enabled=wanted.enabled
            )
        except registry.GroupTaken as error:
            raise CheckAddressTaken(str(error)) from None

    row, secret = await in_thread(work)
    return json_answer(_shown(row, secret), 201)


async def change(request: Request, grant: Grant, room: Room) -> Response:
    """Another address, on or off, or a new secret."""
    only_parameters(request)
    group = request.path_params["group"]
    wanted = decode(await read_body(request, MAX_BODY_BYTES), _change)

    def work() -> tuple[CheckAddress, str | None]:
        try:
            return registry.change(
                group, _actor(grant), reason=wanted.reason, url=wanted.url, is_enabled=wanted.enabled,
                is_new_secret_wanted=wanted.new_secret,
            )  # fmt: skip
        except CheckAddress.DoesNotExist:
            raise CheckAddressUnknown from None

    row, secret = await in_thread(work)
    return json_answer(_shown(row, secret))


async def remove(request: Request, grant: Grant, room: Room) -> Response:
    """Ask there no more."""
    only_parameters(request, "reason")
    group = request.path_params["group"]
    reason = request.query_params.get("reason", "")
    if not reason.strip():
        raise OperationRefused("Say why: the reason is kept in the audit.", "reason")

    def work() -> CheckAddress:
        try:
            return registry.remove(group, _actor(grant), reason=reason)
        except CheckAddress.DoesNotExist:
            raise CheckAddressUnknown from None

    return json_answer(_shown(await in_thread(work)))


def _actor(grant: Grant) -> Actor:
    return Actor(f"token {grant.name}", frozenset())


def _shown(row: CheckAddress, secret: str | None = None) -> CheckAddressShown:
    return CheckAddressShown(
        producer_group=row.group, url=row.url, enabled=row.is_enabled, created_by=row.actor,
        created_ms=round(row.created_at.timestamp() * 1000), changed_ms=round(row.changed_at.timestamp() * 1000),
        asked_ms=_ms(row.asked_at), outcome=row.outcome, failures=row.failures,
        resting_until_ms=_ms(row.resting_until), secret=secret,
    )  # fmt: skip


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
