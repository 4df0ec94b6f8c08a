"""The state of a store in one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .store.checkpoint import DamagedRange

State = Literal["OK", "DEGRADED", "READONLY", "FAILED", "CLOSED"]


@dataclass(frozen=True, slots=True)
class Health:
    """OK; DEGRADED: some records cannot be read; READONLY: sends are refused; FAILED: restart the broker."""

    state: State
    reasons: tuple[str, ...]
    damaged: tuple[DamagedRange, ...]
    started_ms: int
    log_min_position: int
    log_end_position: int
    durable_position: int
    disk_used_ratio: float
    pending_bytes: int
    records_recovered: int
