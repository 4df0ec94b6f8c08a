"""Transactions on an Apache RocketMQ broker: END_TRANSACTION for each as its producer would send it, resume by 323."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.client import Admin, BrokerRefused, ClientError, Decision
from broker.client.transactions import Action
from broker.rocketmq.topics import PARKED_HALF_TOPIC
from console.features.transactions.apache_records import copy_id, read_newest
from console.features.transactions.shapes import TransactionRow
from console.operations.kind import ItemResult
from console.site.mirrored import mirrored

_DECISIONS: Mapping[str, Decision] = {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK}


def steer(admin: Admin, action: Action, done: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
    """Do it to each in its turn; raises ClientError when the broker cannot be read."""
    if action == "check":
        return [ItemResult("refused", {"error": "not-supported"}) for _ in targets]
    rows = {row.position: row for row in read_newest(admin).rows}
    return [_steer(admin, action, done, rows.get(target["position"])) for target in targets]


def _steer(admin: Admin, action: Action, done: str, row: TransactionRow | None) -> ItemResult:
    if row is None or row.position is None:
        return ItemResult("unknown")
    if not row.is_undecided:
        return ItemResult("already_decided", {"position": row.position})
    try:
        if action == "resume":
            return _resume(admin, done, row)
        admin.end_transaction(
            _DECISIONS[action], group=row.group, offset=row.offset, position=row.position,
            transaction_id=row.transaction_id, topic=row.topic,
        )  # fmt: skip
    except BrokerRefused as error:
        return ItemResult("refused", {"error": error.remark, "code": error.code})
    except ClientError as error:
        # the answer is lost, not the decision
        return ItemResult("unknown", {"error": str(error)})
    return ItemResult(done, {"position": row.position})


def _resume(admin: Admin, done: str, row: TransactionRow) -> ItemResult:
    here = mirrored()
    name = copy_id(row, here.broker.address if here.broker else "")
    if not row.is_parked or not name:
        return ItemResult("refused", {"error": "It is not parked; only parked ones are resumed."})
    admin.resume_check(name, topic=PARKED_HALF_TOPIC)
    return ItemResult(done, {"position": row.position})
