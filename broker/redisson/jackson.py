"""JSON as Redisson's two JSON codecs write it, byte for byte.

`remove` and `contains` compare bytes, so a value that Java offered is found only when it is written exactly as Jackson
does: no white space, characters of the BMP raw, the others as two escapes with upper-case hex (U+1F600 is
\\uD83D\\uDE00), nulls left out. JsonJacksonCodec names the Java types, because its consumer throws on a bare object or
array *after* it has popped it:

    {"a": 1}    {"@class":"java.util.LinkedHashMap","a":1}
    [1]         ["java.util.ArrayList",[1]]
    5000000000  ["java.lang.Long",5000000000]     (in 32 bits: bare, an Integer)
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from .errors import ValueRefused, ValueUnreadable
from .java_codecs import (
    BYTES_CLASS,
    INT_MAX,
    INT_MIN,
    LIST_CLASS,
    LONG_MAX,
    LONG_MIN,
    MAP_CLASS,
    Fraction,
    JavaObject,
    JavaValue,
    Long,
    double_text,
    fraction,
    untyped,
)

_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_ESCAPED = re.compile('["\\\\\x00-\x1f\U00010000-\U0010ffff]')


class JsonJacksonCodec:
    """Redisson's JsonJacksonCodec: JSON with Java types.

    A dict is a LinkedHashMap; `JavaObject` gives another class. A UUID has its type since Redisson 4;
    `typed_uuid=False` writes it as the versions before did.
    """

    name = "JsonJacksonCodec"

    def __init__(self, *, typed_uuid: bool = True) -> None:
        self._typed_uuid = typed_uuid

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value; raise ValueRefused for None and for what Jackson has no type for."""
        if value is None:
            raise ValueRefused(self.name, "None arrives in Java as null, which there means that nothing came.")
        # Only inside something does a byte[] say what it is.
        outermost = _plain(value, self.name) if _is_bytes(value) else self._typed(value)
        return _utf8(outermost, self.name)

    def decode(self, value: bytes) -> object:
        """Return the value of these bytes; raise ValueUnreadable when they are not JSON."""
        return untyped(_parsed(value, self.name))

    def _typed(self, value: object) -> str:
        match value:
            case JavaValue(java_class=java_class, value=list() as items):
                return _pair(java_class, "[" + ",".join(map(self._typed_or_null, items)) + "]")
            case JavaValue():
                return _pair(value.java_class, _plain(value.value, self.name))
            case Mapping():
                return self._object(value)
            case list() | tuple():
                return _pair(LIST_CLASS, "[" + ",".join(map(self._typed_or_null, value)) + "]")
            case set() | frozenset():
                return _pair("java.util.HashSet", "[" + ",".join(map(self._typed_or_null, value)) + "]")
            case bool():
                return "true" if value else "false"
            case int():
                return _typed_int(value)
            case bytes() | bytearray() | memoryview():
                return _pair(BYTES_CLASS, _plain(value, self.name))
            case Decimal():
                return _pair("java.math.BigDecimal", _decimal(value, self.name))
            case datetime():
                return _pair("java.util.Date", str(_epoch_ms(value, self.name)))
            case uuid.UUID():
                return _pair("java.util.UUID", _text(str(value))) if self._typed_uuid else _text(str(value))
            case _:
                return _plain(value, self.name)

    def _typed_or_null(self, value: object) -> str:
        return "null" if value is None else self._typed(value)

    def _object(self, value: Mapping[object, object]) -> str:
        entries = {_key(key, self.name): each for key, each in value.items() if each is not None}
        java_class = value.java_class if isinstance(value, JavaObject) else MAP_CLASS
        if isinstance(value, JavaObject) and not value.is_map:
            # The properties of a class come sorted, and one of a primitive type needs no type of its own.
            parts = [f"{_text(key)}:{self._property(entries[key])}" for key in sorted(entries)]
        else:
            parts = [f"{_text(key)}:{self._typed(each)}" for key, each in entries.items()]
        return "{" + ",".join([f'"@class":{_text(java_class)}', *parts]) + "}"

    def _property(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, (bool, Long)):
            return str(value)
        return _plain(value, self.name) if _is_bytes(value) else self._typed(value)


class TypedJsonJacksonCodec:
    """Redisson's TypedJsonJacksonCodec(T): the same JSON without any type, the Java side knows the class.

    For a class write the properties sorted by name; for a Map their own order counts.
    """

    name = "TypedJsonJacksonCodec"

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value; raise ValueRefused for None and for what JSON has no form for."""
        if value is None:
            raise ValueRefused(self.name, "None arrives in Java as null, which there means that nothing came.")
        return _utf8(_plain(value, self.name), self.name)

    def decode(self, value: bytes) -> object:
        """Return the value of these bytes; raise ValueUnreadable when they are not JSON."""
        return _parsed(value, self.name)


def _plain(value: object, codec: str) -> str:
    """Return the value as JSON without types of Java."""
    match value:
        case None:
            return "null"
        case str():
            return _text(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            text = value.text if isinstance(value, Fraction) else double_text(value)
            return text if text[-1].isdigit() else _text(text)
        case Decimal():
            return _decimal(value, codec)
        case bytes() | bytearray() | memoryview():
            return _text(base64.b64encode(value).decode())
        case datetime():
            return str(_epoch_ms(value, codec))
        case uuid.UUID():
            return _text(str(value))
        case Mapping():
            kept = {_key(key, codec): each for key, each in value.items() if each is not None}
            return "{" + ",".join(f"{_text(key)}:{_plain(each, codec)}" for key, each in kept.items()) + "}"
        case list() | tuple() | set() | frozenset():
            return "[" + ",".join(_plain(each, codec) for each in value) + "]"
    raise ValueRefused(codec, f"{type(value).__name__} has no form in JSON that Java would read.")


def _is_bytes(value: object) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview))


def _typed_int(value: int) -> str:
    if INT_MIN <= value <= INT_MAX and not isinstance(value, Long):
        return str(value)
    if LONG_MIN <= value <= LONG_MAX:
        return _pair("java.lang.Long", str(int(value)))
    return _pair("java.math.BigInteger", str(value))


def _pair(java_class: str, inner: str) -> str:
    return f"[{_text(java_class)},{inner}]"


def _text(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    if character < " ":
        return f"\\u{ord(character):04X}"
    above = ord(character) - 0x10000
    return f"\\u{0xD800 + (above >> 10):04X}\\u{0xDC00 + (above & 0x3FF):04X}"


def _key(key: object, codec: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    raise ValueRefused(codec, f"a key of a map is text or a whole number, not {type(key).__name__}.")


def _decimal(value: Decimal, codec: str) -> str:
    if not value.is_finite():
        raise ValueRefused(codec, f"Java's BigDecimal knows no {value}.")
    return format(value, "f")


def _epoch_ms(value: datetime, codec: str) -> int:
    if value.tzinfo is None:
        raise ValueRefused(codec, "a datetime needs a time zone; without one it is ambiguous.")
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _utf8(text: str, codec: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueRefused(codec, "it holds half a surrogate pair, which no UTF-8 can carry.") from error


def _parsed(value: bytes, codec: str) -> object:
    try:
        # A BigDecimal keeps its trailing zeros, a Double reads as one.
        parsed: object = json.loads(value.decode(), parse_float=fraction)
    except (ValueError, RecursionError) as error:
        raise ValueUnreadable(codec, value, f"not JSON ({error})") from error
    return parsed
