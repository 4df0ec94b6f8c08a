"""A kombu message as the body of a message here, and what Celery's headers say about when it is due.

The body is the JSON that kombu's other transports write. A task with an `eta` is sent without it, as a timer: whoever
receives it is to begin at once. What the eta was stays beside it, in the header `timer`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kombu.utils.json import dumps, loads

from ..client import Message
from ..client.names import MAX_SCHEDULE_KEY_CHARACTERS
from .naming import key_of

Raw = dict[str, Any]

_TEXTS = ("utf-8", "us-ascii")
#: What travels beside a message: AMQP's properties, and kombu's own. Other options of a publish are for no broker.
_PROPERTIES = frozenset({
    "app_id", "body_encoding", "cluster_id", "correlation_id", "delivery_info", "delivery_mode", "delivery_tag",
    "expiration", "message_id", "priority", "reply_to", "timestamp", "type", "user_id",
})  # fmt: skip


class Parcel(NamedTuple):
    """What is sent of a kombu message. `due_ms` and `key`: of a timer; a message that is not waited for has neither."""

    body: bytes
    tag: str | None
    keys: list[str]
    due_ms: int | None = None
    key: str | None = None
    #: whether the sender waits until it is on the disk
    is_durable: bool = True


def parcel_of(message: Raw, now_ms: int | None = None) -> Parcel:
    """Return what is sent of a message for a queue; a task with an ETA in the future is a timer with its id as key."""
    headers = message.get("headers") or {}
    properties = message.get("properties") or {}
    message = message | {"properties": {name: properties[name] for name in properties if name in _PROPERTIES}}
    task_id = headers.get("id")
    due_ms = _due_ms(headers)
    if due_ms is not None:
        message = message | {"headers": {**headers, "eta": None, "timer": headers["eta"]}}
        if due_ms <= (int(time.time() * 1000) if now_ms is None else now_ms):
            due_ms = None
    keys = key_of(task_id)
    is_name = bool(keys) and len(keys[0]) <= MAX_SCHEDULE_KEY_CHARACTERS and keys[0].isprintable()
    return Parcel(
        dumps(message).encode(),
        str(headers["task"]) if headers.get("task") else None,
        keys,
        due_ms,
        keys[0] if is_name and due_ms is not None else None,
        properties.get("delivery_mode") != 1,
    )


def _due_ms(headers: Mapping[str, Any]) -> int | None:
    eta = headers.get("eta") if headers.get("task") else None
    if not isinstance(eta, str):
        return None
    try:
        moment = datetime.fromisoformat(eta)
    except ValueError:
        return None  # the worker says what is wrong with it, as it would with any broker
    return epoch_ms(moment)


def epoch_ms(moment: datetime) -> int:
    """Return a time as epoch ms, rounded up; one without a time zone is in that of the Celery app."""
    if moment.tzinfo is None:
        from celery import current_app

        moment = moment.replace(tzinfo=current_app.timezone)
    return math.ceil(moment.timestamp() * 1000)


def raw_of(message: Message, *, is_again: bool) -> Raw:
    """Return the kombu message that a message holds; what no Celery program sent is bytes that it does not know."""
    raw = _read(message.body)
    if raw is None:
        raw = {
            "body": message.body.decode("utf-8", "replace"), "headers": {}, "content-type": "application/data",
            "content-encoding": "utf-8",
            "properties": {"delivery_info": {"exchange": "", "routing_key": message.topic}, "priority": 0},
        }  # fmt: skip
    if is_again:
        raw["properties"]["delivery_info"]["redelivered"] = True
    return raw


def _read(body: bytes) -> Raw | None:
    """Return the kombu message of a body, None for what has not its form."""
    try:
        raw = loads(body)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None  # kombu makes dates, decimals and more of what is marked so, with each one's own errors
    if not isinstance(raw, dict):
        return None
    properties, headers = raw.get("properties"), raw.setdefault("headers", {})
    has_form = isinstance(properties, dict) and isinstance(properties.get("delivery_info"), dict)
    return raw if has_form and isinstance(headers, dict | None) else None


def is_expired(message: Message, raw: Raw, ttl_ms: int | None) -> bool:
    """Tell whether a message has waited longer than its sender, or its queue, lets it (AMQP's expiration)."""
    own = raw["properties"].get("expiration")
    limits = [limit for limit in (ttl_ms, int(own) if str(own).isdigit() else None) if limit is not None]
    return bool(limits) and time.time() * 1000 - message.store_ms > min(limits)


def is_text(encoding: str | None) -> bool:
    """Tell whether a body of this encoding is text, which is stored as people can read it."""
    return (encoding or "").lower() in _TEXTS
