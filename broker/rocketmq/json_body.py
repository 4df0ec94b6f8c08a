"""JSON bodies of answers, in the forms that Java clients accept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

_encode = msgspec.json.Encoder().encode


def json_body(value: object) -> bytes:
    """Return plain JSON. Half a surrogate pair, which is no text, is said as U+FFFD: it must not hide all others."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_sayable(value))


def _sayable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_sayable(name): _sayable(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_sayable(member) for member in value]
    return value


def table_with_object_keys(rows: Iterable[tuple[object, object]]) -> msgspec.Raw:
    """`{{key object}:{value object},...}`: not JSON, but what fastjson writes for maps with objects as keys, and the
    only form that Java clients read in the answers to 202 and 208."""
    return msgspec.Raw(b"{" + b",".join(json_body(key) + b":" + json_body(value) for key, value in rows) + b"}")


def message_queue(broker_name: str, topic: str, queue_id: int) -> dict[str, object]:
    """Return a queue in RocketMQ's form (MessageQueue)."""
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}
