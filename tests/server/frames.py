"""The recorded frames of the official client and broker."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

_RECORDED = Path(__file__).parents[1] / "data" / "wire" / "frames.jsonl.gz"


@dataclass(frozen=True)
class Recorded:
    """One frame as it was on the wire, and what the recorder read in its header."""

    family: str
    kind: str
    code: int
    serialize: str
    header: dict[str, Any]
    frame: bytes


@cache
def recorded_frames() -> tuple[Recorded, ...]:
    """All recorded frames in order."""
    with gzip.open(_RECORDED, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Recorded(row["file"], row["kind"], row["code"], row["serialize"], row["header"], bytes.fromhex(row["frame"]))
        for row in rows
    )


def recorded_exchanges(code: int, serialize: str = "JSON") -> list[tuple[Recorded, Recorded]]:
    """(request, answer) pairs of one request code whose request used a serialisation."""
    frames = recorded_frames()
    pairs = pairwise(frames)
    return [
        (request, answer)
        for request, answer in pairs
        if request.kind == "request"
        and answer.kind == "response"
        and request.code == code == answer.code
        and request.serialize == serialize
    ]
