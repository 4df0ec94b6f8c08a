"""The manifest: what belongs to a backup, and the checksums that prove it.

JSON with a number of its format first. A program refuses a manifest of a newer format instead of guessing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal

from .errors import BackupDamaged, BackupRefused

#: Of this program; a change that an older one would misread gets the next number.
FORMAT = 1
MANIFEST = "manifest.json"
PARTIAL = "partial.json"
LOG_FOLDER, OBJECT_FOLDER = "commitlog", "objects"

PartKind = Literal["log", "table", "derived"]
_KINDS = ("log", "table", "derived")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the store. Of its ``size_bytes`` the first ``stored_bytes`` are in the backup, the rest is zero."""

    path: str
    kind: PartKind
    size_bytes: int
    stored_bytes: int
    sha256: str

    @property
    def stored_as(self) -> str:
        """The path of the file in the backup."""
        return self.path if self.kind == "log" else f"{OBJECT_FOLDER}/{self.sha256}"

    @property
    def start_position(self) -> int:
        """The position in the log at which a segment begins."""
        return int(self.path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Manifest:
    """A backup at a position: every record that ends there or before, and what else the store consisted of.

    Moments in ms. ``checkpoint_position``: as far as derived files vouch for the log; None: they do not.
    """

    program: str
    broker: str
    taken_ms: int
    position: int
    min_position: int
    first_ms: int
    last_ms: int
    segment_size_bytes: int
    checkpoint_position: int | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    left_out: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def segments(self) -> list[Part]:
        """The parts that are segments of the log, oldest first."""
        return sorted((part for part in self.parts if part.kind == "log"), key=lambda part: part.start_position)

    @property
    def stored_bytes(self) -> int:
        """The bytes of all parts; those that are alike are one file."""
        return sum({part.stored_as: part.stored_bytes for part in self.parts}.values())

    def with_parts(self, parts: list[Part]) -> Manifest:
        """Return the manifest with other parts."""
        return replace(self, parts=tuple(parts))

    def to_bytes(self) -> bytes:
        """Return the file, with a checksum over the rest of it."""
        value = {"format": self.format, **asdict(self)}
        return json.dumps({**value, "sha256": _checksum(value)}, indent=1).encode()


def parse(content: bytes, where: str) -> Manifest:
    """Return the manifest. Raises BackupRefused for one of a newer program, BackupDamaged for what is none."""
    try:
        value = json.loads(content)
        number = int(value["format"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise BackupDamaged(where, "it is no manifest") from None
    if number > FORMAT:
        raise BackupRefused(
            f"{where} was written by a newer Escapement ({value.get('program', 'unknown')}): its format is {number},"
            f" this program reads up to {FORMAT}. Restore it with that version or a later one. Nothing was changed."
        )
    try:
        checksum = value.pop("sha256")
        if checksum != _checksum(value):
            raise BackupDamaged(where, "its checksum differs")
        parts = tuple(_checked(Part(**part)) for part in value.pop("parts"))
        left_out = tuple(value.pop("left_out"))
        return Manifest(**value, parts=parts, left_out=left_out)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise BackupDamaged(where, f"it has not the shape it must have: {error!r}") from None


def _checked(part: Part) -> Part:
    """Return a part whose path leads nowhere but into the store; raises ValueError."""
    names = part.path.split("/")
    is_hash = len(part.sha256) == 64 and not set(part.sha256) - set("0123456789abcdef")
    if part.kind not in _KINDS or not is_hash or not 0 <= part.stored_bytes <= part.size_bytes:
        raise ValueError(part.path)
    if any(name in ("", ".", "..") or "\0" in name or "\\" in name for name in names):
        raise ValueError(part.path)
    if part.kind == "log" and not (names[0] == LOG_FOLDER and len(names) == 2 and names[1].isdigit()):
        raise ValueError(part.path)
    return part


def _checksum(value: dict[str, Any]) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
