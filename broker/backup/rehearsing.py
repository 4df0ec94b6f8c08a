"""Rehearsing a backup: restored to a directory of its own, opened by an engine, counted, checked, removed.

The engine is driven by nobody: it has no sockets and is not ticked, so nothing is released, asked or answered. The
store that the backup was taken of is not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..engine.config import EngineConfig
from ..engine.disk import Files, join
from ..engine.engine import Engine
from ..engine.fsck import Report
from ..engine.fsck.store import check_store
from ..engine.fsck.survey import counts_of, sizes_of
from ..engine.log.checkpoint import CLOCK_MARK, reached_ms
from .restoring import Restored


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a restored backup was found to be. ``walked``: records that the start read in the log."""

    restored: Restored
    restore_s: float
    start_s: float
    walked: int
    counts: dict[str, int]
    report: Report


def rehearse(
    files: Files,
    root: str,
    restore: Callable[[], Restored],
    now_ms: int,
    *,
    delay_levels: str | None = None,
) -> Rehearsal:
    """Restore by a call to ``root`` and look at the store. Raises as the restore, and StoreUnsupported, OSError."""
    begin_s = time.monotonic()
    restored = restore()
    restored_s = time.monotonic()
    is_simulated = files.exists(join(root, CLOCK_MARK))
    moment_ms = (reached_ms(files, root) or now_ms) if is_simulated else now_ms
    manifest = restored.manifest
    sizes = {"segment_size_bytes": manifest.segment_size_bytes, **manifest.sizes, **sizes_of(files, root)}
    config: dict[str, Any] = {"root": root, "is_simulated": is_simulated, **sizes}
    if delay_levels is not None:
        config["delay_levels"] = delay_levels
    engine = Engine.open(EngineConfig(**config), files, moment_ms)
    try:
        started_s = time.monotonic()
        counts = counts_of(engine, moment_ms)
        walked = engine.health().records_recovered
    finally:
        engine.close(moment_ms)
    report = check_store(files, root)
    return Rehearsal(restored, restored_s - begin_s, started_s - restored_s, walked, counts, report)
