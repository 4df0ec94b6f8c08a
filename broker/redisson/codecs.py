"""Codecs that turn values into bytes and back, by Redisson's names, and the packing of a value into a member.

A codec can be guessed from a queue's values, and a value shown as text for people.

Redisson packs a value into a member of its set and list. Since 3.21.1 (`Packing.NEW`, Lua struct format "Bc0Lc0"),
little-endian, no padding:

    | 1  n, nearly always 8 | n  random | 8  length of the value, u64 | value |

Up to 3.21.0 (`Packing.OLD`, "dLc0"):

    | 8  random double | 8  length of the value, u64 | value |

The random part only makes equal values distinct. Members written here hold a counter in it, big-endian, so that values
due in the same millisecond keep the order in which they were offered. A random part of another length counts only where
the old form does not fit: the first byte of an old member is chance.

A member that fits neither is poison: Java's transfer stops at it and repeats what came before it without end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .errors import CodecNotReadable, CodecNotWritable, MemberUnreadable, ValueRefused, ValueUnreadable
from .jackson import JsonJacksonCodec, TypedJsonJacksonCodec
from .java_codecs import JAVA_ONLY, Unclear, read_kryo


class Codec(Protocol):
    """The interface of a codec that a queue needs: values to bytes and back."""

    @property
    def name(self) -> str:
        """Redisson's name for it."""

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value; raises ValueRefused."""

    def decode(self, value: bytes) -> object:
        """Return the value of these bytes; raises ValueUnreadable."""


class StringCodec:
    """Redisson's StringCodec: the text in UTF-8 and nothing else."""

    name = "StringCodec"

    def encode(self, value: object) -> bytes:
        """Return the bytes of a text; raises ValueRefused."""
        if not isinstance(value, str):
            raise ValueRefused(self.name, f"it takes text, not {type(value).__name__}.")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueRefused(self.name, "it holds half a surrogate pair, which no UTF-8 can carry.") from error

    def decode(self, value: bytes) -> str:
        """Return the text of these bytes; raises ValueUnreadable."""
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueUnreadable(self.name, value, "not UTF-8") from error


class BytesCodec:
    """Redisson's ByteArrayCodec: bytes as they are."""

    name = "ByteArrayCodec"

    def encode(self, value: object) -> bytes:
        """Return the bytes as they are; raises ValueRefused for anything else."""
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise ValueRefused(self.name, f"it takes bytes, not {type(value).__name__}.")
        return bytes(value)

    def decode(self, value: bytes) -> bytes:
        """Return the bytes as they are."""
        return value


class JavaOnlyCodec:
    """A codec of Java's own: text, numbers and booleans are read for display, nothing is written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._read = JAVA_ONLY[name]

    def encode(self, value: object) -> bytes:
        """Refuse every value: raises CodecNotWritable."""
        raise CodecNotWritable(self.name)

    def decode(self, value: bytes) -> object:
        """Return a text, number or boolean; raises CodecNotReadable for everything else."""
        try:
            return self._read(value)
        except Unclear as error:
            raise CodecNotReadable(self.name, value) from error


def codec_named(name: str) -> Codec:
    """Return the codec of that name, as in Redisson's configuration; raise ValueError with the known names."""
    if name in JAVA_ONLY:
        return JavaOnlyCodec(name)
    try:
        return _CODECS[name]
    except KeyError:
        known = ", ".join(sorted([*_CODECS, *JAVA_ONLY]))
        raise ValueError(f"There is no codec {name!r}; known are {known}.") from None


_CODECS: Mapping[str, Codec] = {
    codec.name: codec for codec in (StringCodec(), BytesCodec(), JsonJacksonCodec(), TypedJsonJacksonCodec())
}


# Guessing codecs, and values as text.

#: Where none is certain, the first of these that reads all samples is named.
_ORDER = (
    "SerializationCodec",
    "MarshallingCodec",
    "JsonJacksonCodec",
    "TypedJsonJacksonCodec",
    "Kryo5Codec",
    "StringCodec",
)

#: What follows the version 4 in JBoss Marshalling: text, numbers, booleans, arrays, lists, objects.
_MARSHALLING_TAGS = [bytes([tag]) for tag in (0x04, 0x42, 0x53, *range(0x3D, 0x52))]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as a console shows it: its text, or hex when no codec reads it."""

    codec: str
    text: str
    is_hex: bool


def guess_codec(values: Iterable[bytes]) -> str | None:
    """Return the codec that fits all of these values, ByteArrayCodec when none does, None without a value."""
    samples = list(values)
    if not samples:
        return None
    for name in _ORDER:
        if all(_fits(name, value) for value in samples):
            return name
    return "ByteArrayCodec"


def show(value: bytes, codec: Codec | None = None) -> Shown:
    """Return a value as text, read with this codec or with the one that fits it; unreadable bytes come as hex."""
    chosen = codec or codec_named(guess_codec([value]) or "StringCodec")
    try:
        read = chosen.decode(value)
    except ValueUnreadable:
        return Shown(chosen.name, value.hex(), is_hex=True)
    if isinstance(read, bytes):
        return Shown(chosen.name, value.hex(), is_hex=True)
    if isinstance(chosen, (JsonJacksonCodec, TypedJsonJacksonCodec, StringCodec)):
        return Shown(chosen.name, value.decode(), is_hex=False)
    return Shown(chosen.name, str(read), is_hex=False)


def _fits(name: str, value: bytes) -> bool:
    match name:
        case "SerializationCodec":
            return value.startswith(b"\xac\xed\x00\x05")
        case "MarshallingCodec":
            return value.startswith(b"\x04") and value[1:2] in _MARSHALLING_TAGS
        case "JsonJacksonCodec":
            return _reads(name, value) and not _bare(value)
        case "Kryo5Codec":
            return value.startswith(b"\x01\x00") or _reads_kryo(value)
        case "StringCodec":
            return _reads(name, value) and value.decode().replace("\n", " ").replace("\t", " ").isprintable()
    return _reads(name, value)


def _bare(value: bytes) -> bool:
    """Tell whether a text is a JSON object or array without a Java type, which JsonJacksonCodec would not read."""
    text = value.lstrip()
    if text.startswith(b"{"):
        return b'"@class"' not in text
    return text.startswith(b"[") and not text.startswith(b'["')


def _reads(name: str, value: bytes) -> bool:
    try:
        codec_named(name).decode(value)
    except ValueUnreadable:
        return False
    return True


def _reads_kryo(value: bytes) -> bool:
    try:
        read_kryo(value)
    except Unclear:
        return False
    return True


# The packing of a value into a member.

RANDOM_BYTES = 8
LENGTH_BYTES = 8
#: Bytes before the value.
NEW_HEAD_BYTES = 1 + RANDOM_BYTES + LENGTH_BYTES
OLD_HEAD_BYTES = RANDOM_BYTES + LENGTH_BYTES
_LENGTH = struct.Struct("<Q")


class Packing(StrEnum):
    """The two forms that a member may have."""

    NEW = "new"
    OLD = "old"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A member taken apart."""

    packing: Packing
    random: bytes
    value: bytes


def pack(value: bytes, random: bytes, packing: Packing = Packing.NEW) -> bytes:
    """Return the member of this value; `random` has 8 bytes."""
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"the random part has {RANDOM_BYTES} bytes, not {len(random)}")
    head = bytes([RANDOM_BYTES]) if packing is Packing.NEW else b""
    return head + random + _LENGTH.pack(len(value)) + value


def detect(member: bytes, likely: Packing = Packing.NEW, size_bytes: int | None = None) -> Packing | None:
    """Return the packing of a member, None for poison. Its first bytes are enough if `size_bytes` says how long it is.

    One kind of member fits both: 17 bytes that begin with 08 and end with 00. There `likely`, the packing of the rest
    of the queue, decides.
    """
    size = len(member) if size_bytes is None else size_bytes
    new_head, is_old = _new_head(member, size), _old_head(member, size) > 0
    if new_head == NEW_HEAD_BYTES:
        return likely if is_old else Packing.NEW
    if is_old:
        return Packing.OLD
    return Packing.NEW if new_head else None


def certain(member: bytes, size_bytes: int | None = None) -> Packing | None:
    """Return the packing of a member that fits only one, None for all others."""
    first, second = (detect(member, likely, size_bytes) for likely in Packing)
    return first if first is second else None


def likely_packing(members: Sequence[bytes], sizes: Sequence[int] | None = None) -> Packing:
    """Return the packing of the last member that fits only one; new when none does. `sizes` where they are cut."""
    lengths = sizes or [len(member) for member in members]
    told = (certain(member, size) for member, size in zip(reversed(members), reversed(lengths), strict=True))
    return next((packing for packing in told if packing), Packing.NEW)


def unpack(member: bytes, likely: Packing = Packing.NEW) -> Unpacked:
    """Take a member apart; raises MemberUnreadable for poison."""
    packing = detect(member, likely)
    if packing is None:
        raise MemberUnreadable(member)
    if packing is Packing.OLD:
        return Unpacked(packing, member[:RANDOM_BYTES], member[OLD_HEAD_BYTES:])
    head = _new_head(member, len(member))
    return Unpacked(packing, member[1 : head - LENGTH_BYTES], member[head:])


def _new_head(member: bytes, size: int) -> int:
    """Return the bytes before the value in the new form, 0 if it is none; the random part's length byte is honoured."""
    head = 1 + member[0] + LENGTH_BYTES if member else 0
    if not head or len(member) < head or member[0] == 0:
        return 0
    return head if _LENGTH.unpack_from(member, head - LENGTH_BYTES)[0] == size - head else 0


def _old_head(member: bytes, size: int) -> int:
    if len(member) < OLD_HEAD_BYTES:
        return 0
    return OLD_HEAD_BYTES if _LENGTH.unpack_from(member, RANDOM_BYTES)[0] == size - OLD_HEAD_BYTES else 0
