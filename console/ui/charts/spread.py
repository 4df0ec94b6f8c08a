"""A lane as a stretch of time: now at the left edge, two hours at the right, each bar what falls due there."""

from __future__ import annotations

from collections.abc import Sequence

from console.ui.charts.scale import heat, log_place, place
from console.ui.charts.times import Box, ahead

WIDTH, HEIGHT = 250, 22
#: ticks of the axis: 1 s, 10 s, 1 min, 10 min, 1 h
_TICKS_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000)
_MOST_BAR = 18.0


def spread_svg(
    counts: Sequence[int], *, delay_ms: int, start_ms: int, end_ms: int, label: str, is_known: bool = True
) -> str:
    """Bars of a lane's buckets; the thin line ends where the level's delay ends."""
    step = WIDTH / len(counts)
    reach = log_place(delay_ms, start_ms, end_ms, WIDTH)
    # an empty lane says so once, and of one that was never used nothing is known
    values = [f"{count:,}" for count in counts] if any(counts) else ["0" if is_known else "\u2013"]
    told = ahead(start_ms, end_ms, values, Box(0, WIDTH, 0, HEIGHT))
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"{told}>']
    parts += [
        f'<path class="axis" d="M{place(log_place(tick, start_ms, end_ms, WIDTH))} 0V{HEIGHT}"/>' for tick in _TICKS_MS
    ]
    parts.append(f'<rect class="h0" x="0" y="10" width="{place(max(reach, 1))}" height="2" rx="1"/>')
    for index, count in enumerate(counts):
        if count > 0:
            level = heat(count, 100_000)
            high = min(_MOST_BAR, 2.5 + 3.1 * level)
            x, y = place(index * step + 0.5), place((HEIGHT - high) / 2)
            parts.append(
                f'<rect class="h{level}" x="{x}" y="{y}" width="{place(step - 1)}" height="{place(high)}" rx="1"/>'
            )
    parts.append(f'<path class="axis-2" d="M{place(reach)} 6v10"/><path class="now" d="M.75 0V{HEIGHT}"/></svg>')
    return "".join(parts)


def axis_svg(now: str) -> str:
    """The words above the lanes' stretches; they take no part in the text alternative."""
    words = [("10 s", 10_000), ("1 min", 60_000), ("10 min", 600_000)]
    told = ahead(500, 7_200_000, (), Box(0, WIDTH, 0, 14))
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} 14" aria-hidden="true"{told}><text x="0" y="11">{now}</text>']
    for text, ms in words:
        x = place(log_place(ms, 500, 7_200_000, WIDTH))
        parts.append(f'<text x="{x}" y="11" class="text-middle">{text}</text>')
    parts.append(f'<text x="{WIDTH}" y="11" class="text-end">2 h</text></svg>')
    return "".join(parts)
