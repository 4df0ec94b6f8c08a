"""Check-back addresses as the Transactions page shows them: from the console's own table, which the worker writes."""

from __future__ import annotations

from datetime import datetime

from console.features.checkback.allowed import AddressRefused, read_address
from console.features.checkback.models import CheckAddress
from console.features.transactions.shapes import AddressRow

SHOWN = 20


def address_rows() -> tuple[AddressRow, ...]:
    """Return the addresses, those that fail first."""
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
