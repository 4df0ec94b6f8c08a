"""Which codec a queue's values were probably written with, and a value as text for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .codecs import Codec, StringCodec, codec_named
from .errors import ValueUnreadable
from .jackson import JsonJacksonCodec, TypedJsonJacksonCodec
from .java_codecs import Unclear, read_kryo

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
    """The codec that fits all of these values, ByteArrayCodec when none does, None without a value."""
    samples = list(values)
    if not samples:
        return None
    for name in _ORDER:
        if all(_fits(name, value) for value in samples):
            return name
    return "ByteArrayCodec"


def show(value: bytes, codec: Codec | None = None) -> Shown:
    """A value as text, read with this codec or with the one that fits it; bytes that nothing reads come as hex."""
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
    """A JSON object or array without a Java type, which JsonJacksonCodec would not read."""
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
