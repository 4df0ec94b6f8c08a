"""What JSON with Java types means in Python: the reading half of Redisson's JsonJacksonCodec."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from .java_values import (
    BYTES_CLASS,
    LIST_CLASS,
    LONG_MAX,
    LONG_MIN,
    MAP_CLASS,
    JavaObject,
    JavaValue,
    Long,
)

_CLASS_NAME = re.compile(r"\[*[\w$]+(\.[\w$]+)+;?|\[+[ZBCSIJFD]")


class Fraction(float):
    """A number with a fraction, and its digits as they were written."""

    text: str


def fraction(text: str) -> Fraction:
    """A number as a JSON parser meets it."""
    number = Fraction(text)
    number.text = text
    return number


def _date(value: object) -> object:
    if not isinstance(value, int):
        return JavaValue("java.util.Date", value)
    try:
        return datetime.fromtimestamp(value // 1000, UTC).replace(microsecond=value % 1000 * 1000)
    except (OverflowError, ValueError, OSError):
        return JavaValue("java.util.Date", value)


def _bytes(value: object) -> object:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error:
        return JavaValue(BYTES_CLASS, value)


def _uuid(value: object) -> object:
    try:
        return uuid.UUID(str(value))
    except ValueError:
        return JavaValue("java.util.UUID", value)


def _big_decimal(value: object) -> object:
    try:
        return Decimal(value.text if isinstance(value, Fraction) else str(value))
    except ArithmeticError:
        return JavaValue("java.math.BigDecimal", value)


_CLASSES: Mapping[str, Callable[[object], object]] = {
    "java.lang.Long": lambda value: Long(value) if isinstance(value, int) else JavaValue("java.lang.Long", value),
    "java.math.BigInteger": lambda value: JavaValue("java.math.BigInteger", value) if _fits(value) else value,
    "java.math.BigDecimal": _big_decimal,
    "java.util.Date": _date,
    "java.util.UUID": _uuid,
    BYTES_CLASS: _bytes,
}


def _fits(value: object) -> bool:
    """Whether Python would write it as another class than BigInteger."""
    return not isinstance(value, int) or LONG_MIN <= value <= LONG_MAX


def untyped(parsed: object) -> object:
    """Python's value for JSON with Java types; bare arrays and objects are taken as they are."""
    if isinstance(parsed, dict):
        java_class = parsed.get("@class")
        if not isinstance(java_class, str):
            return {key: untyped(each) for key, each in parsed.items()}
        entries = {key: untyped(each) for key, each in parsed.items() if key != "@class"}
        return entries if java_class == MAP_CLASS else JavaObject(java_class, entries)
    if isinstance(parsed, list):
        if len(parsed) == 2 and isinstance(parsed[0], str) and _CLASS_NAME.fullmatch(parsed[0]):
            return _typed_value(parsed[0], parsed[1])
        return [untyped(each) for each in parsed]
    return parsed


def _typed_value(java_class: str, value: object) -> object:
    if isinstance(value, list):
        if java_class == LIST_CLASS:
            return [untyped(each) for each in value]
        return JavaValue(java_class, [untyped(each) for each in value])
    if java_class in _CLASSES:
        return _CLASSES[java_class](value)
    return JavaValue(java_class, untyped(value))
