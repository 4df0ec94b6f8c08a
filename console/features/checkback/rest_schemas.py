"""What requests and answers about check-back addresses look like."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..timers.rest_bulk_schemas import BulkReason
from ..transactions.rest_schemas import Group

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
