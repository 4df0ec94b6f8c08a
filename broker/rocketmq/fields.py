"""Named fields of requests and the JSON bodies of both sides; what cannot be read is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from .codes import Answer
from .errors import RequestRefused

T = TypeVar("T")

LONG_MAX = (1 << 63) - 1
INT_MAX = (1 << 31) - 1


def text(ext: Mapping[str, str], name: str) -> str:
    """Return the field's value; refused if it is missing or not text."""
    value = ext.get(name)
    if value is None:
        raise RequestRefused(Answer.SYSTEM_ERROR, f"The field {name!r} is missing.")
    if not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The field {name!r} is not UTF-8.")
    return value


def whole(
    ext: Mapping[str, str], name: str, default: int | None = None, *, low: int = -LONG_MAX - 1, high: int = LONG_MAX
) -> int:
    """Return the field's value as a whole number from `low` to `high`; refused if it is missing and has no default."""
    value = ext.get(name)
    if value is None or value == "":
        if default is None:
            raise RequestRefused(Answer.SYSTEM_ERROR, f"The field {name!r} is missing.")
        return default
    digits = value[1:] if value[0] in "+-" else value
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The field {name!r} is not a whole number: {value[:40]!r}.")
    number = int(value)
    if not low <= number <= high:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The field {name!r} is {number}; allowed are {low} to {high}.")
    return number


def truth(ext: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return the field's value as Java's Boolean.parseBoolean reads it."""
    value = ext.get(name)
    return default if value is None else value.lower() == "true"


def body_as(kind: type[T], body: bytes) -> T:
    """Return the JSON body as a value of this kind; refused if it is not."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(Answer.INVALID_PARAMETER, f"The body cannot be read: {error}") from None


# JSON bodies of answers, in the forms that Java clients accept.

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
    """Return `{{key object}:{value object},...}`: not JSON, but what fastjson writes for maps with objects as keys, and
    the only form that Java clients read in the answers to 202 and 208."""
    return msgspec.Raw(b"{" + b",".join(json_body(key) + b":" + json_body(value) for key, value in rows) + b"}")


def message_queue(broker_name: str, topic: str, queue_id: int) -> dict[str, object]:
    """Return a queue in RocketMQ's form (MessageQueue)."""
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}
