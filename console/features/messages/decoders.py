"""Bodies that their senders packed: gzip, zlib, raw deflate, zstd, lz4, MessagePack and Protobuf, within a limit.

What a body is follows from its first bytes and from what its sender says in its properties, or is chosen by hand;
Protobuf from the descriptor that somebody gave its topic. No byte of it is trusted: what cannot be opened stays as it
is, a bomb is cut at the limit.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgpack
from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

#: bytes that are decompressed at most, of a body that may be 4 MiB or a bomb
INFLATE_LIMIT_BYTES = 256 * 1024
#: of the window that zstd may ask for (8 MiB, as it advises readers), a power of two
_ZSTD_WINDOW_LOG = 23


class Decoder(TextChoices):
    """The ways to open a body, as an address names them."""

    AUTOMATIC = "", _("automatically")
    NONE = "none", _("as stored")
    GZIP = "gzip", "gzip"
    ZLIB = "zlib", "zlib"
    DEFLATE = "deflate", "deflate"
    ZSTD = "zstd", "zstd"
    LZ4 = "lz4", "lz4"
    MESSAGEPACK = "msgpack", "MessagePack"
    PROTOBUF = "protobuf", "Protobuf"


@dataclass(frozen=True, slots=True)
class BodyType:
    """The Protobuf type of a topic's bodies: its full name, and the compiled descriptors that have it."""

    topic: str
    name: str
    files: bytes


class Fit(StrEnum):
    """How a body and the type of its topic's bodies go together."""

    FITS = "fits"
    #: it is no message of the type
    DIFFERS = "differs"
    #: more bytes than are opened
    LARGE = "large"
    #: the descriptors cannot be read (any more)
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class TypedBody:
    """What a body is by the type of its topic's bodies. `unknown`: places of fields that the type does not have, of a
    large body not all of them."""

    topic: str
    name: str
    fit: Fit
    has_unknown: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A body after its decoders. `text` is JSON that says what MessagePack or Protobuf held."""

    content: bytes
    #: False: cut at the limit, or it ends too early
    is_whole: bool = True
    decoders: tuple[str, ...] = ()
    text: str | None = None
    #: it is not what somebody chose
    has_failed: bool = False
    is_text_whole: bool = True
    #: None: its topic has no descriptor, or it was not asked for
    typed: TypedBody | None = None


def opened(
    content: bytes,
    properties: Mapping[str, str],
    asked: str = Decoder.AUTOMATIC,
    body_type: BodyType | None = None,
    most_characters: int = INFLATE_LIMIT_BYTES,
) -> Opened:
    """Return the body opened in the way that was asked for; never raise, whatever the bytes are.

    `most_characters`: of Protobuf no more is written.
    """
    if asked == Decoder.NONE or not content:
        return Opened(content)
    told = _told(properties)
    if asked == Decoder.PROTOBUF:
        found = _decompressed_by_itself(content, told)
        found = found if body_type is None else _with_protobuf(found, body_type, most_characters)
        return replace(found, has_failed=found.text is None)
    if asked == Decoder.MESSAGEPACK:
        text = unpacked(content)
        return Opened(content, decoders=(_NAMED,), text=text) if text is not None else Opened(content, has_failed=True)
    if asked != Decoder.AUTOMATIC:
        inner, is_whole = decompressed(content, asked)
        if inner is None:
            return Opened(content, has_failed=True)
        found = Opened(inner, is_whole, (asked,))
    else:
        found = _decompressed_by_itself(content, told)
    if body_type is not None:
        found = _with_protobuf(found, body_type, most_characters)
    return found if found.text is not None else _with_messagepack(found, told)


def decompressed(content: bytes, name: str) -> tuple[bytes | None, bool]:
    """Return the content up to the limit, and whether it is whole; None: it is not that, or not known here."""
    open_stream = _STREAMS.get(name)
    if open_stream is None:
        return None, False
    try:
        return open_stream(content)
    except (zlib.error, RuntimeError, EOFError, ValueError, OSError, MemoryError):
        return None, False


def unpacked(content: bytes) -> str | None:
    """Return MessagePack as JSON, each key and number as it stands there; None: it is none."""
    try:
        value = msgpack.unpackb(
            content, strict_map_key=False, object_pairs_hook=_Members, unicode_errors="backslashreplace"
        )
        return _written(value)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError, msgpack.UnpackException):
        return None


_NAMED = str(Decoder.MESSAGEPACK.label)
#: of MessagePack: maps and lists
_HOLDERS = frozenset([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_MAGIC = ((b"\x1f\x8b\x08", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4"))
_ZLIB = tuple(bytes((0x78, level)) for level in (0x01, 0x5E, 0x9C, 0xDA))


def _told(properties: Mapping[str, str]) -> str:
    """Return what the sender says of how the body is packed, in the properties that are used for it."""
    names = ("content-encoding", "content-type", "encoding", "compression")
    return " ".join(text.lower() for name, text in properties.items() if name.lower().replace("_", "-") in names)


def _candidates(content: bytes, told: str) -> list[str]:
    found = [name for magic, name in _MAGIC if content.startswith(magic)]
    found += ["zlib"] if content.startswith(_ZLIB) else []
    return found + [name for name in ("gzip", "zstd", "lz4", "zlib", "deflate") if name in told and name not in found]


def _decompressed_by_itself(content: bytes, told: str) -> Opened:
    """Return it decompressed as its first bytes or its sender say, or as it is."""
    for name in _candidates(content, told):
        inner, is_whole = decompressed(content, name)
        # a guess counts only if the stream was read to its end, or to the limit
        if inner is not None and (is_whole or len(inner) >= INFLATE_LIMIT_BYTES):
            return Opened(inner, is_whole, (name,))
    return Opened(content)


def _with_protobuf(found: Opened, body_type: BodyType, most_characters: int) -> Opened:
    """Return it as JSON where it is a message of the type, and how it goes together with it."""
    # Protobuf's library takes some 7 MB: it is loaded where a topic has a descriptor
    from console.features.messages.descriptor_sets import SetRefused
    from console.features.messages.protobuf_text import NotThatType, reader_of

    fit = Fit.LARGE
    if found.is_whole and len(found.content) <= INFLATE_LIMIT_BYTES:
        try:
            told = reader_of(body_type.files, body_type.name).read(found.content, most_characters)
        except NotThatType:
            fit = Fit.DIFFERS
        except SetRefused:
            fit = Fit.UNUSABLE
        else:
            typed = TypedBody(body_type.topic, body_type.name, Fit.FITS, told.has_unknown, told.unknown)
            decoders = (*found.decoders, str(Decoder.PROTOBUF.label))
            return replace(found, decoders=decoders, text=told.text, is_text_whole=told.is_whole, typed=typed)
    return replace(found, typed=TypedBody(body_type.topic, body_type.name, fit))


def _with_messagepack(found: Opened, told: str) -> Opened:
    """Return it as JSON where it is MessagePack: the sender says so, or it is a map or a list of it and no text."""
    content = found.content
    if not found.is_whole or not content:
        return found
    if "msgpack" not in told and "messagepack" not in told and (content[0] not in _HOLDERS or _is_text(content)):
        return found
    text = unpacked(content)
    if text is None:
        return found
    return replace(found, decoders=(*found.decoders, _NAMED), text=text)


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class _Members(list[Any]):
    """The members of a map, in their order; a key may be there twice, and need not be a text."""


def _written(value: Any) -> str:
    if isinstance(value, _Members):
        return "{" + ",".join(f"{_key(key)}:{_written(each)}" for key, each in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, bytes):
        return f'"0x{value.hex()}"'
    if isinstance(value, msgpack.Timestamp):
        return f'{{"timestamp":"{value.seconds}.{value.nanoseconds:09d}"}}'
    if isinstance(value, msgpack.ExtType):
        return f'{{"extension":{value.code},"data":"0x{value.data.hex()}"}}'
    return json.dumps(value, ensure_ascii=False)


def _key(value: Any) -> str:
    return json.dumps(value if isinstance(value, str) else _written(value), ensure_ascii=False)


def _inflated(window_bits: int) -> Callable[[bytes], tuple[bytes, bool]]:
    def inflate(content: bytes) -> tuple[bytes, bool]:
        machine = zlib.decompressobj(window_bits)
        return machine.decompress(content, INFLATE_LIMIT_BYTES), machine.eof and not machine.unused_data

    return inflate


def _zstd(content: bytes) -> tuple[bytes, bool]:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # from Python 3.14 on
    except ImportError:
        from backports import zstd

    machine = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})
    try:
        found = machine.decompress(content, INFLATE_LIMIT_BYTES)
    except zstd.ZstdError as error:
        raise ValueError from error
    return found, machine.eof and not machine.unused_data


def _lz4(content: bytes) -> tuple[bytes, bool]:
    from lz4 import frame

    machine = frame.LZ4FrameDecompressor()
    found = machine.decompress(content, max_length=INFLATE_LIMIT_BYTES)
    return found, machine.eof and not machine.unused_data


_STREAMS: Mapping[str, Callable[[bytes], tuple[bytes, bool]]] = {
    "gzip": _inflated(31), "zlib": _inflated(15), "deflate": _inflated(-15), "zstd": _zstd, "lz4": _lz4,
}  # fmt: skip
