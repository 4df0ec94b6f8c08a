"""The state of a store in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .log.checkpoint import DamagedRange
from .store import Store

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


def assess(
    store: Store,
    *,
    failure: str | None,
    closed: bool,
    disk_ratio: float,
    started_ms: int,
    records_recovered: int,
    unreadable: Mapping[int, int],
) -> Health:
    """Return how a store is; the worst state counts, every reason is said. ``unreadable``: messages by delay level."""
    state: State = "OK"
    reasons: list[str] = []
    if store.damaged:
        state = "DEGRADED"
        size = sum(known.end - known.start for known in store.damaged)
        reasons.append(
            f"{len(store.damaged)} place(s) of the log, {size:,} bytes, cannot be read; run fsck for a list."
        )
    if unreadable:
        state = "DEGRADED"
        counts = ", ".join(f"{count:,} of delay level {level}" for level, count in sorted(unreadable.items()))
        reasons.append(f"Delayed messages that cannot be read were passed over since the start: {counts}; run fsck.")
    if disk_ratio > store.config.disk_refuse_ratio:
        state = "READONLY"
        reasons.append("The disk is too full; sends are refused until space is free.")
    if failure is not None:
        state = "FAILED"
        reasons.append(f"Writing to disk failed: {failure}.")
    return Health(
        state="CLOSED" if closed else state,
        reasons=tuple(reasons),
        damaged=tuple(store.damaged),
        started_ms=started_ms,
        log_min_position=store.log.min_position,
        log_end_position=store.visible_position,
        durable_position=store.log.durable_position,
        disk_used_ratio=disk_ratio,
        pending_bytes=store.pending_bytes,
        records_recovered=records_recovered,
    )
