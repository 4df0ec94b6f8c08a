"""Values that Java wrote: of codecs that only Java writes, and of JSON with Java types.

Of the codecs that only Java writes text, numbers and booleans are read, for display:

| Codec | Text | Numbers and booleans |
|---|---|---|
| Kryo5Codec | 03, then see `_kryo_text` | 02 / 09 zigzag varint, 0a double little-endian, 05 boolean |
| MarshallingCodec | 04, then 3d, 3e + units u8, 3f + units u16 | 4b int, 4c long, 4f double, 50 / 51 true / false |
| SerializationCodec | aced0005 74 + length u16 | none: they are objects there |

Objects and collections mean nothing without their classes; they stay bytes.

`untyped` is the reading half of Redisson's JsonJacksonCodec: what JSON with Java types means in Python. `Long`,
`JavaObject` and `JavaValue` are values that Python has no own type for; `double_text` is how Java writes a number.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import NoReturn

#: Bytes of the longest varint that Kryo writes, of a long.
KRYO_LONGEST = 9


class Unclear(Exception):
    """These bytes are not a simple value of this codec."""


def read_kryo(value: bytes) -> object:
    """Return a text, number or boolean of Kryo 5."""
    match value[:1], value[1:]:
        case b"\x03", rest:
            return _kryo_text(rest)
        case b"\x02" | b"\x09", rest:
            raw, used = _varint(rest, 0, 7)
            return (raw >> 1) ^ -(raw & 1) if used == len(rest) else _unclear()
        case b"\x05", (b"\x00" | b"\x01") as flag:
            return flag == b"\x01"
        case b"\x0a", rest if len(rest) == 8:
            return _number("<d", rest)
    return _unclear()


def read_marshalling(value: bytes) -> object:
    """Return a text, number or boolean of JBoss Marshalling."""
    if value[:1] != b"\x04":
        return _unclear()
    tag, rest = value[1:2], value[2:]
    match tag:
        case b"\x3d" if not rest:
            return ""
        case b"\x3e" if rest:
            return _counted(rest[1:], rest[0])
        case b"\x3f" if len(rest) >= 2:
            return _counted(rest[2:], _number(">H", rest[:2]))
        case b"\x4b" if len(rest) == 4:
            return _number(">i", rest)
        case b"\x4c" if len(rest) == 8:
            return _number(">q", rest)
        case b"\x4f" if len(rest) == 8:
            return _number(">d", rest)
        case b"\x50" | b"\x51" if not rest:
            return tag == b"\x50"
    return _unclear()


def read_serialization(value: bytes) -> object:
    """Return a text of Java's serialization."""
    if value[:5] == b"\xac\xed\x00\x05\x74" and len(value) >= 7 and _number(">H", value[5:7]) == len(value) - 7:
        return _modified_utf8(value[7:])
    return _unclear()


def _counted(raw: bytes, units: int | float) -> str:
    """Return a text that says how many UTF-16 units it has."""
    text = _modified_utf8(raw)
    if sum(2 if character > "\uffff" else 1 for character in text) != units:
        return _unclear()
    return text


def _kryo_text(rest: bytes) -> str:
    """Read a text: 81 is empty; ASCII of 2 to 32 characters ends with a byte whose bit 7 is set; else units + 1, units.

    That count is a varint whose first byte has bit 7 set, bit 6 as its continuation and 6 bits of value.
    """
    if not rest:
        return _unclear()
    if not rest[0] & 0x80:
        if rest[-1] & 0x80 and rest[:-1].isascii():
            return (rest[:-1] + bytes([rest[-1] & 0x7F])).decode("ascii")
        return _unclear()
    count, used = _varint(rest, 0x80, 6)
    return _counted(rest[used:], count - 1)


def _modified_utf8(text: bytes) -> str:
    """Read Java's UTF-8, in which a character beyond the BMP is two surrogates of 3 bytes each and NUL may be c0 80."""
    try:
        units = text.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return _unclear()


def _number(form: str, raw: bytes) -> int | float:
    (number,) = struct.unpack(form, raw)
    assert isinstance(number, (int, float))
    return number


def _unclear() -> NoReturn:
    raise Unclear


def _varint(rest: bytes, flags: int, first_bits: int) -> tuple[int, int]:
    """Return a varint, little end first, and how many bytes it took; `flags` are set in its first byte and say nothing.

    The ninth byte is the last and has 8 bits of value: Kryo never takes a tenth.
    """
    value = shift = 0
    for used, byte in enumerate(rest):
        if used == KRYO_LONGEST - 1:
            return value | byte << shift, used + 1
        bits = first_bits if used == 0 else 7
        plain = byte & ~flags if used == 0 else byte
        value |= (plain & ((1 << bits) - 1)) << shift
        shift += bits
        if not plain >> bits:
            return value, used + 1
    return _unclear()


JAVA_ONLY: Mapping[str, Callable[[bytes], object]] = {
    "Kryo5Codec": read_kryo,
    "MarshallingCodec": read_marshalling,
    "SerializationCodec": read_serialization,
}


# JSON with Java types.

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
#: The class that a plain Python dict has in Java: it keeps the order, as a dict does.
MAP_CLASS = "java.util.LinkedHashMap"
LIST_CLASS = "java.util.ArrayList"
#: How Java names the class of byte[].
BYTES_CLASS = "[B"


class Long(int):
    """A java.lang.Long that would fit into an Integer: JSON for Java writes the two differently."""


class JavaObject(dict[str, object]):
    """A map or an object of a Java class other than LinkedHashMap: its entries, and `java_class`."""

    def __init__(self, java_class: str, entries: Mapping[str, object]) -> None:
        super().__init__(entries)
        self.java_class = java_class

    @property
    def is_map(self) -> bool:
        """Tell whether this is one of Java's own maps: entries keep their order, and a Long says that it is one."""
        return self.java_class.startswith("java.util.")

    def __repr__(self) -> str:
        return f"JavaObject({self.java_class!r}, {super().__repr__()})"


class JavaValue(tuple[str, object]):
    """A value that JSON holds as [class, value] and Python has no type for, such as java.time.Duration."""

    def __new__(cls, java_class: str, value: object) -> JavaValue:
        """Make a value of this class."""
        return super().__new__(cls, (java_class, value))

    @property
    def java_class(self) -> str:
        """The name of the Java class."""
        return self[0]

    @property
    def value(self) -> object:
        """The value in the form that JSON holds."""
        return self[1]


def double_text(number: float) -> str:
    """Return a double as Java's Double.toString writes it: 19.9, 1.0E7, 1.0E-5; NaN and Infinity by name."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        text = format(Decimal(repr(number)), "f")
        return text if "." in text else text + ".0"
    sign, digits, _ = Decimal(repr(number)).as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    exponent = Decimal(repr(number)).adjusted()
    return f"{'-' if sign else ''}{kept[0]}.{kept[1:] or '0'}E{exponent}"


_CLASS_NAME = re.compile(r"\[*[\w$]+(\.[\w$]+)+;?|\[+[ZBCSIJFD]")


class Fraction(float):
    """A number with a fraction, and its digits as they were written."""

    text: str


def fraction(text: str) -> Fraction:
    """Return a number as a JSON parser meets it."""
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


def _fits(value: object) -> bool:
    """Tell whether Python would write the value as another class than BigInteger."""
    return not isinstance(value, int) or LONG_MIN <= value <= LONG_MAX


_CLASSES: Mapping[str, Callable[[object], object]] = {
    "java.lang.Long": lambda value: Long(value) if isinstance(value, int) else JavaValue("java.lang.Long", value),
    "java.math.BigInteger": lambda value: JavaValue("java.math.BigInteger", value) if _fits(value) else value,
    "java.math.BigDecimal": _big_decimal,
    "java.util.Date": _date,
    "java.util.UUID": _uuid,
    BYTES_CLASS: _bytes,
}


def untyped(parsed: object) -> object:
    """Return Python's value for JSON with Java types; bare arrays and objects are taken as they are."""
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
