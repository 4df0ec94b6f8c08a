"""Reading the named fields and JSON bodies of requests; what cannot be read is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
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
