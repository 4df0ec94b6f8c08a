"""Spans of time as short text, the same in both languages: digits and unit signs."""

from __future__ import annotations

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def span(ms: float) -> str:
    """0.003 s, 4.98 s, 47.2 s, 1:58, 1:59:59, 6 d 4 h: precise where it is short."""
    ms = max(0, ms)
    if ms < 10 * SECOND:
        return f"{ms / 1000:.3f} s" if ms < SECOND else f"{ms / 1000:.2f} s"
    if ms < MINUTE:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms // SECOND)
    if ms < HOUR:
        return f"{seconds // 60}:{seconds % 60:02d}"
    if ms < DAY:
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{seconds // 86_400} d {seconds // 3600 % 24} h"


def delay_name(ms: int) -> str:
    """The name of a delay in its largest whole unit: 1 s, 30 min, 2 h, 3 d."""
    for unit_ms, sign in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {sign}"
    return f"{ms:,} ms"
