"""Check-back addresses by REST, for tokens that administer producer groups (`manage.py token create --admin`)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from console.features.checkback import registry
from console.features.checkback.models import CheckAddress
from console.features.messages.rest import only_parameters
from console.features.timers.rest_bulk import MAX_BODY_BYTES
from console.features.timers.rest_bulk_schemas import BulkReason
from console.features.transactions.rest_schemas import Group
from console.operations.actor import Actor
from console.rest.errors import CheckAddressTaken, CheckAddressUnknown, OperationRefused
from console.rest.grants import require
from console.rest.needs import Need
from console.rest.operations_bridge import in_thread
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Operation
from console.rest.state import Room
from console.security.tokens import ADMIN, Grant

Url = Annotated[str, Meta(min_length=1, max_length=500, description="https://host/path; its origin is on a list.")]


class NewCheckAddress(Struct, forbid_unknown_fields=True, kw_only=True):
    """Where the producers of a group are asked what became of a half."""

    producer_group: Group
    url: Url
    reason: BulkReason
    enabled: bool = True


class CheckAddressChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be another one; the old secret is good no more once there is a new one."""

    reason: BulkReason
    url: Url | None = None
    enabled: bool | None = None
    new_secret: bool = False


class CheckAddressShown(Struct, kw_only=True):
    """An address. `secret` is told when it is made, and never again. `outcome`: the last decision, or why there was
    none; `failures` in a row; until `resting_until_ms` it is not asked, because it failed so often."""

    producer_group: str
    url: str
    enabled: bool
    created_by: str
    created_ms: int
    changed_ms: int
    asked_ms: int | None
    outcome: str
    failures: int
    resting_until_ms: int | None
    secret: str | None = None


class CheckAddressRows(Struct, kw_only=True):
    """All addresses of groups that the token administers."""

    check_addresses: list[CheckAddressShown]


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


_ADDRESSES = "/check-addresses"
_ONE = _ADDRESSES + "/{group}"
#: the group of the address is one of producers
_NEEDS = (Need((ADMIN,), "group", "producer group"),)

OPERATIONS = (
    Operation(
        "POST", _ADDRESSES, "Register where a producer group is asked", ADMIN, register,
        NewCheckAddress, ((201, "It is asked from now on; the secret is told this once.", CheckAddressShown),),
        narrows="body",
    ),
    Operation(
        "GET", _ADDRESSES, "List check-back addresses", ADMIN, addresses, None,
        ((200, "Addresses.", CheckAddressRows),), narrows="rows",
    ),
    Operation(
        "GET", _ONE, "Look at a check-back address", ADMIN, address, None,
        ((200, "The address.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "PATCH", _ONE, "Change a check-back address", ADMIN, change, CheckAddressChange,
        ((200, "As it is now; with its secret if that is new.", CheckAddressShown),), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _ONE, "Remove a check-back address", ADMIN, remove, None,
        ((200, "It is asked no more.", CheckAddressShown),), (("reason", "Kept in the audit."),), needs=_NEEDS,
    ),
)  # fmt: skip
