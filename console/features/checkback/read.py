"""Check-back addresses as the Transactions page shows them: from the console's own table, which the worker writes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from console.features.checkback.allowed import AddressRefused, read_address
from console.features.checkback.models import CheckAddress

SHOWN = 20


@dataclass(frozen=True, slots=True)
class AddressRow:
    """Where a group is asked by HTTP; `outcome`: the last decision, or why there was none (hostile)."""

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
            asked_ms=_ms(row.asked_at),
            resting_until_ms=_ms(row.resting_until),
        )
        for row in rows
    )


def _origin(url: str) -> str:
    try:
        return str(read_address(url).origin)
    except AddressRefused:
        return ""


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
