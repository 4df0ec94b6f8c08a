"""Checking a store without changing it: every checksum of the log, queues and index against the log, the tables.

    report = check_store(OsFiles(), directory)

It takes no lock and writes nothing, so it may run beside a broker: what that broker has not written yet (queues and
index follow the log by some seconds, the last record may be under way) is counted as unfinished, not as damage; so is
what a kill or a power loss left of them behind the last checkpoint (``Vouched``).
Read ``store.py`` first. The walk through the log is written anew here on purpose, so that the store is not judged by
the code that wrote it; only the record codec is shared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..log.checkpoint import NO_INDEX, Checkpoint


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not as it must be. ``start`` and ``end`` are positions in the log, or bytes of the file."""

    path: str
    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.start:,}..{self.end:,}: {self.why}"


@dataclass(slots=True)
class Report:
    """Counts, damage, and what a broker that is running or was killed has yet to write."""

    counts: Counter[str] = field(default_factory=Counter)
    damages: list[Damage] = field(default_factory=list)
    unfinished: list[Damage] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Tell whether nothing in the store is damaged."""
        return not self.damages


class Vouched:
    """After a clean stop all of it. While a broker runs, and after it was killed or lost power, only what the last
    checkpoint vouches for: the rest is half written, torn or of records that were lost, and the next start makes it
    anew. Without a checkpoint that is everything.
    """

    def __init__(self, checkpoint: Checkpoint | None, *, was_stopped: bool) -> None:
        self._has_any = was_stopped or checkpoint is not None
        self._checkpoint = None if was_stopped else checkpoint

    @property
    def index_mark(self) -> tuple[str, int] | None:
        """The newest index file and the number behind its last entry; None: all that is there."""
        known = self._checkpoint
        return None if known is None else (known.index_name, known.index_number)

    def damages_of(self, report: Report, position: int = -1) -> list[Damage]:
        """Return where to put what is wrong about the record at a position, or about what comes before all records."""
        known = self._checkpoint
        is_behind = known is not None and (position >= known.position or known.index_name == NO_INDEX)
        return report.damages if self._has_any and not is_behind else report.unfinished
