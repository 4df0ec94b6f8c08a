"""Check-back addresses by REST, for tokens that administer producer groups (`manage.py token create --admin`)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from console.features.checkback import registry
from console.features.checkback.models import CheckAddress
from console.operations.actor import Actor
from console.rest.access import InBody, InRows, ProducerGroup
from console.rest.errors import CheckAddressTaken, CheckAddressUnknown, OperationRefused
from console.rest.operations import in_thread
from console.rest.person import PersonGrant
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import ProducerGroupName, Reason
from console.security.tokens import ADMIN, Grant
from console.site.clock import epoch_ms

Url = Annotated[str, Meta(min_length=1, max_length=500, description="https://host/path; its origin is on a list.")]

#: what a person needs who asks without a token: the stock permissions of the rows
VIEW_ADDRESS, ADD_ADDRESS = "console.view_checkaddress", "console.add_checkaddress"
CHANGE_ADDRESS, DELETE_ADDRESS = "console.change_checkaddress", "console.delete_checkaddress"


class NewCheckAddress(Struct, forbid_unknown_fields=True, kw_only=True):
    """An address to register, where a producer group is asked what became of a half."""

    producer_group: ProducerGroupName
    url: Url
    reason: Reason
    enabled: bool = True


class CheckAddressChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to an address; a new secret replaces the old one at once."""

    reason: Reason
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
    """The addresses of all groups that the token administers."""

    check_addresses: list[CheckAddressShown]


class Removal(Struct, kw_only=True):
    """The reason why an address is removed."""

    reason: Annotated[str, Meta(description="Kept in the audit log.")] = ""


_ADDRESSES = "/check-addresses"
_ADDRESS = _ADDRESSES + "/{group}"


@route(
    "POST",
    _ADDRESSES,
    "Register a check-back address",
    action=ADMIN,
    permission=ADD_ADDRESS,
    on=InBody(),
    answers=((201, "It is checked from now on; the secret is shown this once.", CheckAddressShown),),
    errors=(CheckAddressTaken, OperationRefused),
)
async def register(call: Call, body: NewCheckAddress) -> Response:
    """Register an address; the answer has its secret."""
    call.require(body.producer_group, "producer group")

    def work() -> tuple[CheckAddress, str]:
        try:
            return registry.register(
                body.producer_group, body.url, _actor(call.grant), reason=body.reason, is_enabled=body.enabled
            )
        except registry.GroupTaken as error:
            raise CheckAddressTaken(str(error)) from None

    row, secret = await in_thread(work)
    return json_answer(_shown(row, secret), 201)


@route(
    "GET",
    _ADDRESSES,
    "List check-back addresses",
    action=ADMIN,
    permission=VIEW_ADDRESS,
    on=InRows(),
    answers=((200, "Addresses.", CheckAddressRows),),
)
async def addresses(call: Call) -> Response:
    """List the addresses of the groups that the token administers."""
    is_visible = call.row_check("producer group")
    rows = await in_thread(lambda: list(CheckAddress.objects.all()))
    return json_answer(CheckAddressRows(check_addresses=[_shown(row) for row in rows if is_visible(row.group)]))


@route(
    "GET",
    _ADDRESS,
    "Get a check-back address",
    action=ADMIN,
    permission=VIEW_ADDRESS,
    on=ProducerGroup(),
    answers=((200, "The address.", CheckAddressShown),),
    errors=(CheckAddressUnknown,),
)
async def address(call: Call) -> Response:
    """Answer the address of one group, without its secret."""
    row = await in_thread(CheckAddress.objects.filter(group=call.named["group"]).first)
    if row is None:
        raise CheckAddressUnknown
    return json_answer(_shown(row))


@route(
    "PATCH",
    _ADDRESS,
    "Change a check-back address",
    action=ADMIN,
    permission=CHANGE_ADDRESS,
    on=ProducerGroup(),
    answers=((200, "As it is now; with its secret if that is new.", CheckAddressShown),),
    errors=(CheckAddressUnknown, OperationRefused),
)
async def change(call: Call, body: CheckAddressChange) -> Response:
    """Set another address, switch it on or off, or make a new secret."""

    def work() -> tuple[CheckAddress, str | None]:
        try:
            return registry.change(
                call.named["group"],
                _actor(call.grant),
                reason=body.reason,
                url=body.url,
                is_enabled=body.enabled,
                is_new_secret_wanted=body.new_secret,
            )
        except CheckAddress.DoesNotExist:
            raise CheckAddressUnknown from None

    row, secret = await in_thread(work)
    return json_answer(_shown(row, secret))


@route(
    "DELETE",
    _ADDRESS,
    "Remove a check-back address",
    action=ADMIN,
    permission=DELETE_ADDRESS,
    on=ProducerGroup(),
    answers=((200, "It is no longer checked.", CheckAddressShown),),
    errors=(CheckAddressUnknown, OperationRefused),
)
async def remove(call: Call, query: Removal) -> Response:
    """Remove an address, which is asked no more."""
    if not query.reason.strip():
        raise OperationRefused("Enter a reason. It is kept in the audit log.", "reason")

    def work() -> CheckAddress:
        try:
            return registry.remove(call.named["group"], _actor(call.grant), reason=query.reason)
        except CheckAddress.DoesNotExist:
            raise CheckAddressUnknown from None

    return json_answer(_shown(await in_thread(work)))


def _actor(grant: Grant) -> Actor:
    return grant.actor if isinstance(grant, PersonGrant) else Actor(grant.who, frozenset())


def _shown(row: CheckAddress, secret: str | None = None) -> CheckAddressShown:
    return CheckAddressShown(
        producer_group=row.group,
        url=row.url,
        enabled=row.is_enabled,
        created_by=row.actor,
        created_ms=round(row.created_at.timestamp() * 1000),
        changed_ms=round(row.changed_at.timestamp() * 1000),
        asked_ms=epoch_ms(row.asked_at),
        outcome=row.outcome,
        failures=row.failures,
        resting_until_ms=epoch_ms(row.resting_until),
        secret=secret,
    )
