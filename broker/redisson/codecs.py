"""What turns values into bytes and back, by the name that Redisson gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .errors import CodecNotReadable, CodecNotWritable, ValueRefused, ValueUnreadable
from .jackson import JsonJacksonCodec, TypedJsonJacksonCodec
from .java_codecs import JAVA_ONLY, Unclear


class Codec(Protocol):
    """What a queue needs of a codec."""

    @property
    def name(self) -> str:
        """Redisson's name for it."""

    def encode(self, value: object) -> bytes:
        """The bytes of a value; raises ValueRefused."""

    def decode(self, value: bytes) -> object:
        """The value of these bytes; raises ValueUnreadable."""


class StringCodec:
    """Redisson's StringCodec: the text in UTF-8 and nothing else."""

    name = "StringCodec"

    def encode(self, value: object) -> bytes:
        """The bytes of a text."""
        if not isinstance(value, str):
            raise ValueRefused(self.name, f"it takes text, not {type(value).__name__}.")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueRefused(self.name, "it holds half a surrogate pair, which no UTF-8 can carry.") from error

    def decode(self, value: bytes) -> str:
        """The text of these bytes."""
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueUnreadable(self.name, value, "not UTF-8") from error


class BytesCodec:
    """Redisson's ByteArrayCodec: bytes as they are."""

    name = "ByteArrayCodec"

    def encode(self, value: object) -> bytes:
        """The bytes."""
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise ValueRefused(self.name, f"it takes bytes, not {type(value).__name__}.")
        return bytes(value)

    def decode(self, value: bytes) -> bytes:
        """The bytes."""
        return value


class JavaOnlyCodec:
    """A codec of Java's own: text, numbers and booleans are read for display, nothing is written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._read = JAVA_ONLY[name]

    def encode(self, value: object) -> bytes:
        """Always raises CodecNotWritable."""
        raise CodecNotWritable(self.name)

    def decode(self, value: bytes) -> object:
        """A text, number or boolean; raises CodecNotReadable for everything else."""
        try:
            return self._read(value)
        except Unclear as error:
            raise CodecNotReadable(self.name, value) from error


def codec_named(name: str) -> Codec:
    """The codec of that name, as in Redisson's configuration; raises ValueError with the known names."""
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
