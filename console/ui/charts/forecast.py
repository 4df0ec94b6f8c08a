"""What will be due in a stretch of time, against what the broker was measured to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.ui.charts.scale import heat, nice_ceiling, place
from console.ui.charts.strip import Mark
from console.ui.charts.times import Box, Times, even

WIDTH, SCALE, HEIGHT, FOOT = 1120, 1056, 172, 150
_HIGH = 142
#: annotations that are drawn
HERDS = 2
#: the capacity is drawn if the axis need not be longer than so many times the fullest bar
_STRETCH = 3


@dataclass(frozen=True, slots=True)
class HerdMark:
    """A herd, its words already escaped."""

    share: float
    first: str
    second: str


def forecast_svg(
    per_s: Sequence[float], *, label: str, capacity: float | None, capacity_text: str, ticks: Sequence[Mark],
    warnings: Sequence[HerdMark], is_now: bool, span_ms: tuple[int, int] | None = None,
) -> str:  # fmt: skip
    """Bars of messages per second (the mean of a slot) over `span_ms`; the dashed line is the capacity."""
    peak = max(per_s, default=0.0)
    shown = capacity is not None and peak > 0 and capacity <= peak * _STRETCH
    top = nice_ceiling(max(peak, capacity if shown and capacity else 0.0))
    step = SCALE / max(1, len(per_s))
    times = span_ms and Times(*span_ms, [f"{rate_text(value)}/s" for value in per_s])
    told = even(times or None, Box(0, SCALE, 6, FOOT))
    parts = [f'<svg class="chart min-wide" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"{told}>']
    for share in (0, 1 / 3, 2 / 3, 1):
        y = place(FOOT - _HIGH * share)
        parts.append(f'<path class="axis" d="M0 {y}H{SCALE}"/>')
        parts.append(
            f'<text class="text-end" x="{WIDTH}" y="{place(FOOT - _HIGH * share + 4)}">'
            f"{rate_text(top * share)}/s</text>"
        )
    by_heat: dict[int, list[str]] = {}
    for index, value in enumerate(per_s):
        if value > 0:
            high = max(1.5, _HIGH * value / top)
            bar = f"M{place(index * step + 0.5)} {FOOT}v-{place(high)}h{place(max(step - 1, 0.8))}v{place(high)}z"
            by_heat.setdefault(heat(round(value * 1000), round(peak * 1000)), []).append(bar)
    parts += [f'<path class="h{level}" d="{"".join(bars)}"/>' for level, bars in sorted(by_heat.items())]
    if shown and capacity is not None:
        y = place(FOOT - _HIGH * capacity / top)
        parts.append(
            f'<path class="cap" d="M0 {y}H{SCALE}"/>'
            f'<text class="text-ruby" x="6" y="{_above(y)}">{capacity_text}</text>'
        )
    for index, warning in enumerate(warnings[:HERDS]):
        parts += _annotated(warning, 24 + 34 * index)
    for tick in ticks:
        parts.append(f'<text class="text-middle" x="{place(tick.share * SCALE)}" y="{FOOT + 18}">{tick.text}</text>')
    if is_now:
        parts.append(f'<path class="now" d="M.75 6V{FOOT}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _annotated(warning: HerdMark, y: int) -> list[str]:
    x = warning.share * SCALE
    left = x > SCALE * 0.6
    anchor, at = (" text-end", x - 8) if left else ("", x + 10)
    return [
        f'<path class="line-brass" d="M{place(x)} {y - 14}V{FOOT}"/>',
        f'<text class="text-brass{anchor}" x="{place(at)}" y="{y}">{warning.first}</text>',
        f'<text class="text-muted{anchor}" x="{place(at)}" y="{y + 15}">{warning.second}</text>',
    ]


def _above(y: str) -> str:
    return place(max(12.0, float(y) - 5))


def rate_text(value: float) -> str:
    """A rate with as many digits as it needs."""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"
