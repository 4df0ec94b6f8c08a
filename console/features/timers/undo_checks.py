"""Whether a timer that was cancelled or moved can still be put back: asked of the broker, answered with a code.

An Apache RocketMQ broker cannot be asked where a timer is: there only its records are looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.client import Admin, BrokerRefused, InvalidArgument, NotSupported
from console.features.timers.apache_records import WHEEL_TOPIC, row_of_record
from console.features.timers.recreate import unique_id_again
from console.features.timers.rows import one_timer
from console.features.timers.shapes import TimerRow
from console.operations.models import OperationItem

_OVER = {"released": "already_delivered", "cancelled": "already_cancelled", "unknown": "gone"}


def former_ms(of: str, item: OperationItem) -> int:
    """The moment at which it was due before the operation of kind `of` touched it; 0: not known."""
    name = "previous_due_ms" if of == "timers.reschedule" else "due_ms"
    return int(item.result.get(name) or item.label.get("due_ms") or 0)


def obstacle(admin: Admin, of: str, target: Mapping[str, Any]) -> str:
    """Why not, as an outcome; "": it can be. Raises ClientError when the broker does not answer."""
    if target["position"] is None:
        return "gone"
    try:
        return _of_moved(admin, target) if of == "timers.reschedule" else _of_cancelled(admin, target)
    except NotSupported:
        return _of_noted(admin, target)
    except (BrokerRefused, InvalidArgument):
        return "gone"


def _of_moved(admin: Admin, target: Mapping[str, Any]) -> str:
    state, row, _ = one_timer(admin, {"position": target["position"]})
    if state == "pending" and row is not None and row.unique_key == target["uniqueKey"]:
        if row.due_ms == target["formerMs"]:
            return "already_taken_back"
        return "" if row.due_ms == target["movedMs"] else "changed_since"
    return _OVER.get(state, "changed_since")


def _of_cancelled(admin: Admin, target: Mapping[str, Any]) -> str:
    row = _record(admin, target)
    if row is None:
        return "gone"
    again = {"topic": row.topic, "uniqueKey": unique_id_again(row.position, row.unique_key)}
    if one_timer(admin, again)[0] != "unknown":
        return "already_taken_back"
    if row.schedule_key:
        state, holder, _ = one_timer(admin, {"topic": row.topic, "scheduleKey": row.schedule_key})
        if state == "pending" and holder is not None:
            return "key_taken"
    return ""


def _of_noted(admin: Admin, target: Mapping[str, Any]) -> str:
    """By Apache RocketMQ's own index of parked records."""
    row = _record(admin, target)
    if row is None:
        return "gone"
    again = unique_id_again(row.position, row.unique_key)
    return "already_taken_back" if admin.message_by_unique_id(WHEEL_TOPIC, again) is not None else ""


def _record(admin: Admin, target: Mapping[str, Any]) -> TimerRow | None:
    """The parked record, None if another one stands there."""
    row = row_of_record(admin.message_at(target["position"], topic=WHEEL_TOPIC))
    if row is None or (target["topic"] and row.topic != target["topic"]):
        return None
    return row
