"""Cancelling on an Apache RocketMQ broker: request 370 with a handle made from the parked message itself.

That broker notes the wish and says nothing of what became of it: the outcome is `recall_noted`, never `cancelled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from broker.client import Admin, BrokerRefused, ClientError, Producer
from console.features.timers.apache_records import WHEEL_TOPIC, handle_of, row_of_record
from console.operations.kind import ItemResult
from console.site.kept_clients import KeptClients

#: ILLEGAL_OPERATION: the moment is past, or recalls are switched off there (recallMessageEnable)
_ILLEGAL = 604

_producers = KeptClients(lambda namesrv: Producer(group="escapement-console", namesrv=namesrv))


def hang_up() -> None:
    """End the connection; the next recall makes a new one."""
    _producers.hang_up()


def recall(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
    """One request a target; raises ClientError only when nothing was sent at all."""
    producer = _producers.at(settings.ESCAPEMENT_NAMESRV)
    broker = next(iter(admin.brokers())).name
    return [_recalled(admin, producer, broker, target) for target in targets]


def _recalled(admin: Admin, producer: Producer, broker: str, target: Mapping[str, Any]) -> ItemResult:
    if "position" not in target:
        return ItemResult("refused", {"error": "not-supported"})
    try:
        record = admin.message_at(target["position"], topic=WHEEL_TOPIC)
    except BrokerRefused as refusal:
        return ItemResult("unknown", {"error": str(refusal)})
    except ClientError as error:
        return ItemResult("refused", {"error": str(error)})
    row = row_of_record(record)
    if row is None:
        return ItemResult("unknown", {"error": "no timer is parked at this position"})
    told = {"topic": row.topic, "unique_key": row.unique_key, "due_ms": row.due_ms}
    try:
        producer.recall(row.topic, handle_of(record, broker))
    except BrokerRefused as refusal:
        outcome = "already_delivered" if refusal.code == _ILLEGAL and "time" in refusal.remark else "refused"
        return ItemResult(outcome, {**told, "error": refusal.remark or str(refusal)})
    except ClientError as error:
        return ItemResult("refused", {**told, "error": str(error)})
    return ItemResult("recall_noted", told)
