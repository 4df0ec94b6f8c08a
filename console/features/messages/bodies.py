"""A body for people: decompressed within a limit, decoded, JSON set out without changing a digit of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

from broker.rocketmq.layout import COMPRESSION_MASK, COMPRESSION_SHIFT, FLAG_COMPRESSED
from console.features.messages.shapes import Body, BodyForm

#: bytes that are decompressed at most, of a body that may be 4 MiB or a bomb
INFLATE_LIMIT_BYTES = 256 * 1024
#: bytes of a body that are shown as text, and as hex: a page stays below 100 kB
TEXT_LIMIT_BYTES = 32 * 1024
HEX_LIMIT_BYTES = 2 * 1024
#: JSON nested deeper is shown as plain text
JSON_DEPTH = 64
INDENT = "  "
HEX_ROW_BYTES = 16

#: types of compression, 0 with old clients (MessageSysFlag)
_TYPES = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


def body_of(stored: bytes, sys_flag: int) -> Body:
    """Return the body of a record; never raise, whatever the bytes are."""
    compression = (
        _TYPES.get(sys_flag >> COMPRESSION_SHIFT & COMPRESSION_MASK, "unknown") if sys_flag & FLAG_COMPRESSED else None
    )
    content, whole = _inflated(stored, compression)
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
    form, text, shown = _decoded(content, whole)
    return Body(
        form=form,
        text=text,
        hex=hex_rows(content[:HEX_LIMIT_BYTES]),
        stored_bytes=len(stored),
        full_bytes=len(content) if whole else None,
        shown_bytes=shown,
        truncated=not whole or shown < len(content),
        compression=compression,
    )


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


def _inflated(stored: bytes, compression: str | None) -> tuple[bytes | None, bool]:
    """Return the content, cut at INFLATE_LIMIT_BYTES, and whether it is whole; None when it cannot be read here."""
    if compression is None:
        return stored, True
    if compression != "zlib":
        return None, False
    machine = zlib.decompressobj()
    try:
        content = machine.decompress(stored, INFLATE_LIMIT_BYTES)
    except zlib.error:
        return None, False
    return content, machine.eof


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


def _pieces(text: str) -> Iterator[str]:
    """Yield strings whole, brackets, commas and colons alone, other tokens in pieces; no blanks. `text` is JSON."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == '"':
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif text[at] not in "{}[],: \t\r\n":
            while end < len(text) and text[end] not in '{}[],: \t\r\n"':
                end += 1
        if not text[at].isspace():
            yield text[at:end]
        at = end


def _deepest(text: str) -> int:
    depth = deepest = 0
    for piece in _pieces(text):
        depth += (piece in "{[") - (piece in "}]")
        deepest = max(deepest, depth)
    return deepest


def _laid(text: str) -> Iterator[str]:
    depth, before = 0, ""
    for piece in _pieces(text):
        closing = piece in ("}", "]")
        depth -= closing
        empty = closing and before in ("{", "[")
        if before == "," or (before in ("{", "[") and not closing) or (closing and not empty):
            yield "\n" + INDENT * depth
        yield ": " if piece == ":" else piece
        depth += piece in ("{", "[")
        before = piece
