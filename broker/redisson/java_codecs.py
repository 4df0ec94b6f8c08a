"""What can be read of the codecs that only Java writes: text, numbers and booleans, for display.

| Codec | Text | Numbers and booleans |
|---|---|---|
| Kryo5Codec | 03, then see `_kryo_text` | 02 / 09 zigzag varint, 0a double little-endian, 05 boolean |
| MarshallingCodec | 04, then 3d, 3e + units u8, 3f + units u16 | 4b int, 4c long, 4f double, 50 / 51 true / false |
| SerializationCodec | aced0005 74 + length u16 | none: they are objects there |

Objects and collections mean nothing without their classes; they stay bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NoReturn

#: Bytes of the longest varint that Kryo writes, of a long.
KRYO_LONGEST = 9


class Unclear(Exception):
    """These bytes are not a simple value of this codec."""


def read_kryo(value: bytes) -> object:
    """A text, number or boolean of Kryo 5."""
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
    """A text, number or boolean of JBoss Marshalling."""
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
    """A text of Java's serialization."""
    if value[:5] == b"\xac\xed\x00\x05\x74" and len(value) >= 7 and _number(">H", value[5:7]) == len(value) - 7:
        return _modified_utf8(value[7:])
    return _unclear()


JAVA_ONLY: Mapping[str, Callable[[bytes], object]] = {
    "Kryo5Codec": read_kryo,
    "MarshallingCodec": read_marshalling,
    "SerializationCodec": read_serialization,
}


def _kryo_text(rest: bytes) -> str:
    """81 is empty; ASCII of 2 to 32 characters ends with a byte whose bit 7 is set; else units + 1, then the units.

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


def _counted(raw: bytes, units: int | float) -> str:
    """A text that says how many UTF-16 units it has."""
    text = _modified_utf8(raw)
    if sum(2 if character > "\uffff" else 1 for character in text) != units:
        return _unclear()
    return text


def _varint(rest: bytes, flags: int, first_bits: int) -> tuple[int, int]:
    """A varint, little end first, and how many bytes it took; `flags` are set in its first byte and say nothing.

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


def _modified_utf8(text: bytes) -> str:
    """Java's UTF-8, in which a character beyond the BMP is two surrogates of 3 bytes each and NUL may be c0 80."""
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
