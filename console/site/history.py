"""Sparkline history: 60 slots of 5 s, as the mirror keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from broker.mirror.models import SLOT_MS, SLOTS

__all__ = ["SLOTS", "SLOT_MS", "History"]


@dataclass(frozen=True, slots=True)
class History:
    """Mean rates per second, oldest first, always SLOTS long; None is a gap (the mirror did not run), never 0."""

    per_s: tuple[float | None, ...] = (None,) * SLOTS
    #: epoch ms at which the last (newest, complete) slot ended; None when nothing is known
    end_ms: int | None = None

    @property
    def known(self) -> bool:
        """Whether at least one slot has a value."""
        return any(value is not None for value in self.per_s)

    @property
    def latest(self) -> float | None:
        """Mean of the newest two slots that are known among the last two (10 s)."""
        recent = [value for value in self.per_s[-2:] if value is not None]
        return sum(recent) / len(recent) if recent else None

    @property
    def quiet_ms(self) -> int | None:
        """How long nothing has happened, at most the history's length; None if the newest slot is unknown."""
        if self.per_s[-1] is None:
            return None
        silent = takewhile(lambda value: value == 0, reversed(self.per_s))
        return sum(1 for _ in silent) * SLOT_MS

    @property
    def total(self) -> int:
        """The number of messages in all known slots."""
        return round(sum(value for value in self.per_s if value is not None) * SLOT_MS / 1000)

    @property
    def peak(self) -> float | None:
        """The highest rate of all slots, for the scale of a chart."""
        known = [value for value in self.per_s if value is not None]
        return max(known) if known else None
