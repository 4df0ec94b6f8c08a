"""Spans of time as pages write them: by the server, and by the script that counts them down."""

from __future__ import annotations

SPANS = [
    (0, "0 ms"), (-5, "0 ms"), (0.9, "0 ms"), (450, "450 ms"), (999.9, "999 ms"), (1_000, "1.00 s"),
    (4_989, "4.98 s"), (9_999, "9.99 s"), (10_000, "10.0 s"), (59_999, "59.9 s"), (60_000, "1 min"),
    (60_999, "1 min"),
    (66_000, "1 min 06 s"), (372_000, "6 min 12 s"), (3_599_999, "59 min 59 s"), (3_600_000, "1 h"), (3_659_999, "1 h"),
    (3_960_000, "1 h 06 min"), (86_399_999, "23 h 59 min"), (86_400_000, "1 d"), (273_600_000, "3 d 4 h"),
    (315_360_000_000, "3650 d"),
]  # fmt: skip
#: and what they are in Chinese
SIGNS = {"ms": "毫秒", "s": "秒", "min": "分", "h": "小时", "d": "天"}


def in_chinese(text: str) -> str:
    """Return a span with the units of a page in Chinese."""
    return " ".join(SIGNS.get(part, part) for part in text.split())
