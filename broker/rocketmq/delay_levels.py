"""What a delay level is, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DelayLevel:
    """A level, counted from 1, and how long it delays."""

    number: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class LevelStatus:
    """One level as an operator sees it. Lateness: visible to consumers minus due, of the last five minutes."""

    number: int
    delay_ms: int
    min_offset: int
    offset: int
    max_offset: int
    persisted_offset: int
    persisted_ms: int | None
    next_due_ms: int | None
    oldest_store_ms: int | None
    released_total: int
    released_per_s: float
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    early_total: int
