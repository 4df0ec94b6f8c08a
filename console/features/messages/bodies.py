"""A body for people: decompressed within a limit, decoded, JSON set out without changing a digit of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from broker.rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED
from console.features.messages.decoders import BodyType, Decoder, Fit, Opened, decompressed, opened
from console.features.messages.shapes import Body, BodyForm
from console.features.messages.tree import pieces

#: bytes of a body that are shown as text, and as hex: a page stays below 100 kB
TEXT_LIMIT_BYTES = 32 * 1024
HEX_LIMIT_BYTES = 2 * 1024
#: JSON nested deeper is shown as plain text
JSON_DEPTH = 64
INDENT = "  "
HEX_ROW_BYTES = 16

#: types of compression, 0 with old clients (MessageSysFlag)
_TYPES = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


def body_of(
    stored: bytes,
    sys_flag: int,
    properties: Mapping[str, str] | None = None,
    asked: str = Decoder.AUTOMATIC,
    body_type: BodyType | None = None,
) -> Body:
    """Return the body of a record, opened as RocketMQ's flags say, and then as its sender packed it or as `asked`;
    never raise, whatever the bytes are."""
    compression = (
        _TYPES.get(sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK, "unknown") if sys_flag & FLAG_COMPRESSED else None
    )
    content, whole = (stored, True) if compression is None else decompressed(stored, compression)
    if content is None:
        return Body(
            form=BodyForm.UNREADABLE,
            text="",
            hex=hex_rows(stored[:HEX_LIMIT_BYTES]),
            stored_bytes=len(stored),
            full_bytes=None,
            shown_bytes=0,
            truncated=len(stored) > HEX_LIMIT_BYTES,
            compression=compression,
        )
    found = Opened(content, is_whole=False)
    if whole:
        found = opened(content, properties or {}, asked, body_type, TEXT_LIMIT_BYTES)
    shown_of = found.content if found.text is None else found.text.encode("utf-8", "replace")
    form, text, shown = _decoded(shown_of, found.is_whole and found.is_text_whole)
    return Body(
        form=form,
        text=text,
        hex=hex_rows(found.content[:HEX_LIMIT_BYTES]),
        stored_bytes=len(stored),
        full_bytes=len(found.content) if found.is_whole else None,
        shown_bytes=shown,
        truncated=not (found.is_whole and found.is_text_whole) or shown < len(shown_of),
        compression=compression,
        decoders=found.decoders,
        asked=asked,
        has_failed=found.has_failed,
        typed=found.typed,
    )


def content_of(stored: bytes, sys_flag: int, properties: Mapping[str, str], body_type: BodyType | None = None) -> bytes:
    """Return the bytes that a search in bodies looks at: opened up to the limit, MessagePack and Protobuf as JSON."""
    found = _opened(stored, sys_flag, properties, body_type)
    return found.content if found.text is None else found.text.encode("utf-8", "replace")


def fits_type(stored: bytes, sys_flag: int, properties: Mapping[str, str], body_type: BodyType) -> bool:
    """Tell whether the body is a message of the type; an empty one is."""
    typed = _opened(stored, sys_flag, properties, body_type).typed
    return not stored or (typed is not None and typed.fit is Fit.FITS)


def _opened(stored: bytes, sys_flag: int, properties: Mapping[str, str], body_type: BodyType | None) -> Opened:
    content: bytes | None = stored
    if sys_flag & FLAG_COMPRESSED:
        content, _whole = decompressed(stored, _TYPES.get(sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK, "unknown"))
    return opened(content or b"", properties, body_type=body_type)


def hex_rows(content: bytes) -> str:
    """Return offset, bytes and ASCII, 16 bytes a row."""
    return "\n".join(
        f"{at:08x}  {row.hex(' '):<47}  {''.join(chr(byte) if 32 <= byte < 127 else '.' for byte in row)}"
        for at in range(0, len(content), HEX_ROW_BYTES)
        for row in (content[at : at + HEX_ROW_BYTES],)
    )


def set_out(text: str) -> str | None:
    """Return JSON with one member a line, tokens as written (big numbers, 1.10, double keys); None if not JSON."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list) or _deepest(text) > JSON_DEPTH:
        return None
    return "".join(_laid(text))


def _decoded(content: bytes, whole: bool) -> tuple[BodyForm, str, int]:
    """Return form, text and how many bytes of the content it shows."""
    if not content:
        return BodyForm.EMPTY, "", 0
    shown = content[:TEXT_LIMIT_BYTES]
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = len(shown) - error.start < 4 and (len(shown) < len(content) or not whole)
        if not cut:
            return BodyForm.HEX, "", min(len(content), HEX_LIMIT_BYTES)
        shown = shown[: error.start]
        text = shown.decode("utf-8")
    if any(ord(character) < 32 and character not in "\t\r\n" for character in text):
        return BodyForm.HEX, "", min(len(content), HEX_LIMIT_BYTES)
    laid = set_out(text) if whole and len(shown) == len(content) else None
    return (BodyForm.TEXT, text, len(shown)) if laid is None else (BodyForm.JSON, laid, len(shown))


def _deepest(text: str) -> int:
    depth = deepest = 0
    for piece in pieces(text):
        depth += (piece in "{[") - (piece in "}]")
        deepest = max(deepest, depth)
    return deepest


def _laid(text: str) -> Iterator[str]:
    depth, before = 0, ""
    for piece in pieces(text):
        closing = piece in ("}", "]")
        depth -= closing
        empty = closing and before in ("{", "[")
        if before == "," or (before in ("{", "[") and not closing) or (closing and not empty):
            yield "\n" + INDENT * depth
        yield ": " if piece == ":" else piece
        depth += piece in ("{", "[")
        before = piece
