"""JSON bodies of answers, in the forms that Java clients accept."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

_encode = msgspec.json.Encoder().encode


def json_body(value: object) -> bytes:
    """Plain JSON."""
    return _encode(value)


def table_with_object_keys(rows: Iterable[tuple[object, object]]) -> msgspec.Raw:
    """`{{key object}:{value object},...}`: not JSON, but what fastjson writes for maps with objects as keys, and the
    only form that Java clients read in the answers to 202 and 208."""
    return msgspec.Raw(b"{" + b",".join(_encode(key) + b":" + _encode(value) for key, value in rows) + b"}")


def message_queue(broker_name: str, topic: str, queue_id: int) -> dict[str, object]:
    """A MessageQueue of RocketMQ."""
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}
