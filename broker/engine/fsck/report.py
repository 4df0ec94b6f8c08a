"""What a check found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


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
