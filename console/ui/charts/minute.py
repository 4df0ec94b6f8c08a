"""What falls due in each of the next sixty seconds."""

from __future__ import annotations

from collections.abc import Sequence

from console.ui.charts.scale import nice_ceiling, place
from console.ui.charts.times import Box, Times, even

WIDTH, HEIGHT, FOOT = 1140, 102, 92
_BAR = 18
_SCALE = 1080


def minute_svg(counts: Sequence[int], *, start_s: int, label: str, now: str, peak_text: str) -> str:
    """Bars, a scale at the right, seconds below, the fullest second named. `start_s`: epoch second of the left edge."""
    peak = max(counts, default=0)
    top = nice_ceiling(peak)
    times = Times(start_s * 1000, (start_s + len(counts)) * 1000, [f"{count:,}" for count in counts])
    told = even(times, Box(0, len(counts) * _BAR, 8, FOOT))
    parts = [f'<svg class="chart min-wide" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"{told}>']
    for share in (0, 0.5, 1):
        y = FOOT - 72 * share
        parts.append(f'<path class="axis" d="M0 {place(y)}H{_SCALE}"/>')
        if share:
            parts.append(f'<text x="{_SCALE + 8}" y="{place(y + 4)}">{_count(top * share)}/s</text>')
    for index, count in enumerate(counts):
        if count:
            high = max(1.5, 72 * count / top)
            level = 5 if count == peak else 3 if count > peak / 2 else 2
            parts.append(
                f'<rect class="h{level}" x="{index * _BAR + 1}" y="{place(FOOT - high)}" width="16" '
                f'height="{place(high)}" rx="1.5"/>'
            )
    if peak:
        at = list(counts).index(peak) * _BAR + _BAR / 2
        anchor = "text-end" if at > _SCALE * 0.75 else "" if at < _SCALE * 0.2 else "text-middle"
        parts.append(f'<text x="{place(at)}" y="11" class="text-strong {anchor}">{peak_text}</text>')
    parts.append(f'<text x="0" y="{HEIGHT + 2}" class="text-strong">{now}</text>')
    for index in range(1, len(counts)):
        second = (start_s + index) % 60
        if second % 10 == 0 and index > 2:
            parts.append(f'<text x="{index * _BAR}" y="{HEIGHT + 2}" class="text-middle">:{second:02d}</text>')
    parts.append(f'<path class="now" d="M.75 8V{FOOT}"/></svg>')
    return "".join(parts)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
