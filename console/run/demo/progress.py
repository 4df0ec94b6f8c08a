"""Where the replay is: kept in one small file, so that it goes on where it stopped."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything that leaves up to `minute` (of the replayed year) has been sent; `sent` counts messages."""

    minute: float
    sent: int


def load(path: Path) -> Progress | None:
    """The last progress; None if there is none or the file is damaged (then the replay begins anew)."""
    try:
        kept = json.loads(path.read_text())
        return Progress(float(kept["minute"]), int(kept["sent"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, progress: Progress) -> None:
    """Replace the file in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(progress)))
    os.replace(fresh, path)
