"""JSON files in RocketMQ's shape.

Its writer leaves whole numbers as object keys unquoted (``{0:11}``): such files are read, strict JSON is written
(RocketMQ reads that too). What is written here carries a checksum under a key of its own, which RocketMQ ignores and
leaves out when it writes: a flipped digit in an offset would lose messages without a trace.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar
from zlib import crc32

from . import atomic
from .files import Files

T = TypeVar("T")

#: CRC32 of the file as it would be without this key.
CHECKSUM_KEY = "escapementCrc32"
_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(-?\d+)(?=\s*:)')


def parse(content: bytes) -> dict[str, Any]:
    """Return the object; raises ValueError for anything else, and where a checksum does not match."""
    text = content.decode()
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        quoted = _STRING_OR_BARE_KEY.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], text)
        value = json.loads(quoted)
    if not isinstance(value, dict):
        raise ValueError("The file holds no JSON object.")
    checksum = value.pop(CHECKSUM_KEY, None)
    if checksum is not None and checksum != crc32(_encode(value)):
        raise ValueError("The file is not what was written: its checksum differs.")
    return value


def load(files: Files, path: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what ``read`` makes of the file's object or, where that cannot be read, of its ``.bak``'s; else None."""

    def parse_and_read(content: bytes) -> T:
        try:
            return read(parse(content))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"The file has not the shape it must have: {error!r}.") from None

    return atomic.load_valid(files, path, parse_and_read)


def is_readable(files: Files, path: str) -> bool:
    """Tell whether the file itself, not only its ``.bak``, can be read."""
    content = atomic.load(files, path)
    try:
        return content is not None and bool(parse(content))
    except (ValueError, RecursionError):
        return False


def dump(value: dict[str, Any]) -> bytes:
    """Return the object as strict JSON, with its checksum."""
    return _encode({**value, CHECKSUM_KEY: crc32(_encode(value))})


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode()
