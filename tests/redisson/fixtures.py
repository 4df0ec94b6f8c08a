"""What the real Redisson wrote, as recorded in tests/data/redisson."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "redisson"


@dataclass(frozen=True)
class Offer:
    """One offer of the real client."""

    source: str
    java_type: str
    text: str
    encoded: bytes
    random: bytes
    member: bytes
    packing: str
    score: int


@cache
def offers() -> tuple[Offer, ...]:
    """Every offer that did not fail in the client."""
    found = []
    for path in sorted((DATA / "data").glob("*.json")):
        for each in json.loads(path.read_text())["offers"]:
            if "error" not in each:
                found.append(
                    Offer(
                        source=path.stem,
                        java_type=each["java_type"],
                        text=each["text"],
                        encoded=bytes.fromhex(each["encoded_hex"]),
                        random=bytes.fromhex(each["random_hex"]),
                        member=bytes.fromhex(each["member_hex"]),
                        packing="new" if each["packing"] == "Bc0Lc0" else "old",
                        score=each["score"],
                    )
                )
    return tuple(found)


def offers_of(codec: str) -> tuple[Offer, ...]:
    """The offers of all versions with this codec."""
    return tuple(offer for offer in offers() if offer.source.split("-", 1)[1] == codec)


@cache
def transcript(name: str) -> dict[str, Any]:
    """One transcript, parsed."""
    loaded: dict[str, Any] = json.loads((DATA / "transcripts" / f"{name}.json").read_text())
    return loaded
