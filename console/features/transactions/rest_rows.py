"""A transaction of the client as the REST interface shows it."""

from __future__ import annotations

from broker.client.admin_transactions import Transaction

from ...rest.identifiers import written
from .rest_schemas import TransactionShown


def shown(each: Transaction, broker: str | None) -> TransactionShown:
    """Without an id where its record, or its broker, is not known."""
    is_named = each.position is not None and broker is not None
    return TransactionShown(
        id=written(broker or "", each.topic, each.position or 0, each.transaction_id or "") if is_named else None,
        transaction_id=each.transaction_id, state=each.state, topic=each.topic, producer_group=each.group,
        keys=each.keys, tag=each.tags, stored_ms=each.store_ms, checks=each.checks, next_check_ms=each.next_check_ms,
        parked_ms=each.parked_ms, decided_ms=each.decided_ms, decided_by=each.by or None, reason=each.reason or None,
        producers=each.producers,
    )  # fmt: skip
