"""Reads the first page."""

from __future__ import annotations

from console.queries.clock import now_ms
from console.queries.shapes.evidence import Evidence, StaleReason
from console.queries.shapes.overview import MirrorRow, Overview

NOTHING = Evidence(source="mirror", as_of_ms=None, exact=True, stale_reason=StaleReason.MIRROR_EMPTY)


def overview() -> Overview:
    """What is wrong, what happens next, how much."""
    mirror = MirrorRow("never", 0, None, None, None, None, "")
    return Overview(NOTHING, now_ms(), (), (), mirror, (), None, None, None, None, 0, 0, None, None)
