"""JSON files in RocketMQ's shape.

Its writer leaves whole numbers as object keys unquoted (``{0:11}``): such files are read, strict JSON is written
(RocketMQ reads that too).
"""

from __future__ import annotations

import json
import re
from typing import Any

from . import atomic
from .files import Files

_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(-?\d+)(?=\s*:)')


def parse(content: bytes) -> dict[str, Any]:
    """Return the object; raises ValueError for anything else."""
    text = content.decode()
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        quoted = _STRING_OR_BARE_KEY.sub(lambda match: f'"{match[1]}"' if match[1] else match[0], text)
        value = json.loads(quoted)
    if not isinstance(value, dict):
        raise ValueError("The file holds no JSON object.")
    return value


def load(files: Files, path: str) -> dict[str, Any] | None:
    """Return the object of a file or of its ``.bak``; None if neither can be read."""
    return atomic.load_valid(files, path, parse)


def dump(value: dict[str, Any]) -> bytes:
    """Return the object as strict JSON."""
    return json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True).encode()
