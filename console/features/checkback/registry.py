"""Check-back addresses: registered, changed and removed, checked and in the audit, and as the pages show them.

The worker writes into the same rows how each address does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from broker.client.errors import InvalidArgument
from broker.client.names import check_group
from console.features.checkback.allowed import AddressRefused, AllowList, read_address
from console.features.checkback.models import CheckAddress, digest, make_secret, new_salt
from console.features.checkback.request import HttpLimits
from console.operations.actor import Actor
from console.operations.errors import InvalidName, InvalidParameter, ReasonMissing
from console.operations.models import AuditEntry
from console.security.keys import secret_keys
from console.site.clock import epoch_ms

#: Each may have some connections open at a time.
MOST_ADDRESSES = 100
REASON_LENGTH = 500


class GroupTaken(InvalidParameter):
    """The group has an address already."""

    def __init__(self, group: str) -> None:
        super().__init__("producer_group", f"Group {group} has an address already; change or remove that.")


def allow_list() -> AllowList:
    """Return the origins that the settings allow. Raises AddressRefused for one that cannot be read."""
    return AllowList(settings.CHECKBACK_ORIGINS, settings.CHECKBACK_NETWORKS)


def http_limits() -> HttpLimits:
    """Return the limits for questions, from the settings."""
    return HttpLimits(settings.CHECKBACK_TIMEOUT_S, settings.CHECKBACK_ANSWER_BYTES)


def register(group: str, url: str, actor: Actor, *, reason: str, is_enabled: bool = True) -> tuple[CheckAddress, str]:
    """Register an address. Returns the new row, and its secret, which is shown once.

    Raises InvalidParameter (GroupTaken) and ReasonMissing.
    """
    check_reason(reason)
    check(group, url, is_new=True)
    row = CheckAddress(group=group, url=url, is_enabled=is_enabled, created_by_id=actor.user_id, actor=actor.name)
    secret = _new_secret(row)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit("register", actor, reason, {"new": row.shown()})
    except IntegrityError:
        raise GroupTaken(group) from None
    return row, secret


def change(
    group: str,
    actor: Actor,
    *,
    reason: str,
    url: str | None = None,
    is_enabled: bool | None = None,
    is_new_secret_wanted: bool = False,
) -> tuple[CheckAddress, str | None]:
    """Change an address. Returns the row as it is now, and its new secret if one was wanted.

    Raises CheckAddress.DoesNotExist, and what `register` raises.
    """
    check_reason(reason)
    with transaction.atomic():
        row = CheckAddress.objects.select_for_update().get(group=group)
        before = row.shown()
        row.url = row.url if url is None else url
        row.is_enabled = row.is_enabled if is_enabled is None else is_enabled
        check(group, row.url)
        secret = _new_secret(row) if is_new_secret_wanted else None
        row.save(update_fields=["url", "is_enabled", "salt", "digest", "changed_at"])
        done = {"old": before, "new": row.shown(), "is_secret_new": is_new_secret_wanted}
        audit("change", actor, reason, done)
    return row, secret


def remove(group: str, actor: Actor, *, reason: str) -> CheckAddress:
    """Remove an address, and return its row. Raises CheckAddress.DoesNotExist and ReasonMissing."""
    check_reason(reason)
    with transaction.atomic():
        row = CheckAddress.objects.select_for_update().get(group=group)
        audit("remove", actor, reason, {"old": row.shown()})
        row.delete()
    return row


def secret_of(row: CheckAddress) -> str | None:
    """Return the secret of an address; None if it was made from none of the keys that there are."""
    secrets = (make_secret(row.group, row.salt, key) for key in secret_keys())
    return next((secret for secret in secrets if digest(secret) == row.digest), None)


def groups_of_older_keys() -> list[str]:
    """Return the groups whose secrets end with SECRET_KEY_FALLBACKS, or have ended."""
    rows = CheckAddress.objects.order_by("group")
    return [row.group for row in rows if digest(make_secret(row.group, row.salt)) != row.digest]


def check(group: str, url: str, *, is_new: bool = False) -> None:
    """Raise InvalidParameter unless the group is one, the address is allowed, and there is room for a new one."""
    if is_new and CheckAddress.objects.count() >= MOST_ADDRESSES:
        raise InvalidParameter("producer_group", f"There are {MOST_ADDRESSES} addresses already, which is the limit.")
    try:
        check_group(group)
    except InvalidArgument as error:
        raise InvalidName("producer_group", error) from None
    if group in settings.ESCAPEMENT_PRODUCER_GROUPS:
        raise InvalidParameter(
            "producer_group",
            f"Group {group} is in ESCAPEMENT_PRODUCER_GROUPS: its halves are answered by the database.",
        )
    try:
        allow_list().check_origin(read_address(url))
    except AddressRefused as error:
        raise InvalidParameter("url", str(error)) from None


def check_reason(reason: str) -> None:
    """Raise ReasonMissing or InvalidParameter (too long) for a reason that cannot be kept."""
    if not reason.strip():
        raise ReasonMissing
    if len(reason) > REASON_LENGTH:
        raise InvalidParameter("reason", f"At most {REASON_LENGTH} characters are kept.")


def audit(step: str, actor: Actor, reason: str, result: dict[str, Any]) -> None:
    """Write an entry of the audit."""
    AuditEntry.objects.create(
        user_id=actor.user_id,
        actor=actor.name,
        what=AuditEntry.What.FINISHED,
        kind=f"check_addresses.{step}",
        reason=reason.strip(),
        result={**result, **actor.told},
    )


def _new_secret(row: CheckAddress) -> str:
    row.salt = new_salt()
    secret = make_secret(row.group, row.salt)
    row.digest = digest(secret)
    return secret


SHOWN = 20


@dataclass(frozen=True, slots=True)
class AddressRow:
    """The address that a group is asked at; `outcome`: the last decision, or why there was none (untrusted text)."""

    group: str
    origin: str
    #: False: switched off
    is_asked: bool
    outcome: str
    #: in a row
    failures: int
    asked_ms: int | None
    #: left alone until then, because it failed so often
    resting_until_ms: int | None


def address_rows() -> tuple[AddressRow, ...]:
    """Return the addresses, those that fail most first."""
    rows = CheckAddress.objects.order_by("-failures", "group")[:SHOWN]
    return tuple(
        AddressRow(
            group=row.group,
            origin=_origin(row.url),
            is_asked=row.is_enabled,
            outcome=row.outcome,
            failures=row.failures,
            asked_ms=epoch_ms(row.asked_at),
            resting_until_ms=epoch_ms(row.resting_until),
        )
        for row in rows
    )


def _origin(url: str) -> str:
    try:
        return str(read_address(url).origin)
    except AddressRefused:
        return ""
