"""The scripts that run inside Redis: one file each, behind the parts they share.

Each is one atomic step after which Java reads a whole queue, and takes no longer than about one pass over its list.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text and the digest under which Redis keeps it."""

    name: str
    text: str
    sha: str

    @classmethod
    def of(cls, name: str, text: str) -> Script:
        """Return the script of this text, with its SHA-1."""
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _script(name: str, *parts: str) -> Script:
    text = "\n".join((_HERE / f"{part}.lua").read_text() for part in (*parts, name))
    return Script.of(name, text)


_INDEXED = ("packing", "index")
OFFER = _script("offer", "packing")
TRANSFER = _script("transfer", *_INDEXED, "places", "batch")
FINISH = _script("finish")
CLAIM = _script("claim", *_INDEXED, "places", "batch")
RELEASE = _script("release")
BY_VALUE = _script("byvalue", *_INDEXED)
STEER = _script("steer", *_INDEXED)
POLL = _script("poll", *_INDEXED)
SURVEY = _script("survey", "packing")
PAGE = _script("page", "packing")
DUE = _script("due")
DAMAGE = _script("damage", *_INDEXED)
REPAIR = _script("repair", *_INDEXED)
TEND = _script("tend", *_INDEXED)
