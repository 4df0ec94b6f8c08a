"""Lanes of delay levels: what waits on each, how far its queue is, what is due in the next minute, and rates as lines.

A lane is a stretch of time: now at the left edge, two hours at the right, each bar what falls due there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from console.features.schedule.shapes import AXIS_START_MS, BUCKETS, HORIZON_MS, Lane, LaneState, NextMinute
from console.site.mirrored import History
from console.templatetags.escapement import delay_name
from console.ui.charts import Box, Times, ahead, even, heat, log_place, nice_ceiling, opened, place, sparks

SPREAD_WIDTH, SPREAD_HEIGHT = 250, 22
#: ticks of the axis: 1 s, 10 s, 1 min, 10 min, 1 h
_TICKS_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000)
_MOST_BAR = 18.0


def spread_svg(
    counts: Sequence[int], *, delay_ms: int, start_ms: int, end_ms: int, label: str, is_known: bool = True
) -> str:
    """Bars of a lane's buckets; the thin line ends where the level's delay ends."""
    step = SPREAD_WIDTH / len(counts)
    reach = log_place(delay_ms, start_ms, end_ms, SPREAD_WIDTH)
    # an empty lane says so once, and of one that was never used nothing is known
    values = [f"{count:,}" for count in counts] if any(counts) else ["0" if is_known else "\u2013"]
    told = ahead(start_ms, end_ms, values, Box(0, SPREAD_WIDTH, 0, SPREAD_HEIGHT))
    parts = [opened(SPREAD_WIDTH, SPREAD_HEIGHT, label, told)]
    parts += [
        f'<path class="axis" d="M{place(log_place(tick, start_ms, end_ms, SPREAD_WIDTH))} 0V{SPREAD_HEIGHT}"/>'
        for tick in _TICKS_MS
    ]
    parts.append(f'<rect class="h0" x="0" y="10" width="{place(max(reach, 1))}" height="2" rx="1"/>')
    for index, count in enumerate(counts):
        if count > 0:
            level = heat(count, 100_000)
            high = min(_MOST_BAR, 2.5 + 3.1 * level)
            x, y = place(index * step + 0.5), place((SPREAD_HEIGHT - high) / 2)
            parts.append(
                f'<rect class="h{level}" x="{x}" y="{y}" width="{place(step - 1)}" height="{place(high)}" rx="1"/>'
            )
    parts.append(f'<path class="axis-2" d="M{place(reach)} 6v10"/><path class="now" d="M.75 0V{SPREAD_HEIGHT}"/></svg>')
    return "".join(parts)


def axis_svg(now: str) -> str:
    """The words above the lanes' stretches; they take no part in the text alternative."""
    ticks = _TICKS_MS[1:4]
    told = ahead(500, 7_200_000, (), Box(0, SPREAD_WIDTH, 0, 14))
    parts = [
        f'<svg class="chart" viewBox="0 0 {SPREAD_WIDTH} 14" aria-hidden="true"{told}><text x="0" y="11">{now}</text>'
    ]
    for ms in ticks:
        x = place(log_place(ms, 500, 7_200_000, SPREAD_WIDTH))
        parts.append(f'<text x="{x}" y="11" class="text-middle">{delay_name(ms)}</text>')
    parts.append(f'<text x="{SPREAD_WIDTH}" y="11" class="text-end">{delay_name(7_200_000)}</text></svg>')
    return "".join(parts)


PROGRESS_WIDTH = 150


def progress_svg(released: float, persisted: float | None) -> str:
    """Shares of the queue, 0 to 1. What waits is never thinner than two units, however long the queue is."""
    done = min(released * PROGRESS_WIDTH, PROGRESS_WIDTH - 2) if released < 1 else float(PROGRESS_WIDTH)
    parts = [
        f'<svg class="chart" viewBox="0 0 {PROGRESS_WIDTH} 10" aria-hidden="true">',
        f'<rect class="fill-line" x="0" y="3" width="{place(done)}" height="4" rx="1"/>',
    ]
    if done < PROGRESS_WIDTH:
        parts.append(
            f'<rect class="h4" x="{place(done)}" y="3" width="{place(PROGRESS_WIDTH - done)}" height="4" rx="1"/>'
        )
    if persisted is not None:
        saved = min(persisted * PROGRESS_WIDTH, done)
        x = saved if persisted == released else min(saved, done - 3)
        parts.append(f'<path class="line-ink" d="M{place(max(0.75, x - 1.5 if persisted == released else x))} 1.5v7"/>')
    parts.append(f'<path class="now" d="M{place(min(max(done, 0.75), PROGRESS_WIDTH - 0.75))} 0v10"/></svg>')
    return "".join(parts)


MINUTE_WIDTH, MINUTE_HEIGHT, MINUTE_FOOT = 1140, 102, 92
MINUTE_BAR = 18
MINUTE_SCALE = 1080


def minute_svg(counts: Sequence[int], *, start_s: int, label: str, now: str, peak_text: str) -> str:
    """Bars, a scale at the right, seconds below, the fullest second named. `start_s`: epoch second of the left edge."""
    peak = max(counts, default=0)
    top = nice_ceiling(peak)
    times = Times(start_s * 1000, (start_s + len(counts)) * 1000, [f"{count:,}" for count in counts])
    told = even(times, Box(0, len(counts) * MINUTE_BAR, 8, MINUTE_FOOT))
    parts = [opened(MINUTE_WIDTH, MINUTE_HEIGHT, label, told, style="chart min-wide")]
    for share in (0, 0.5, 1):
        y = MINUTE_FOOT - 72 * share
        parts.append(f'<path class="axis" d="M0 {place(y)}H{MINUTE_SCALE}"/>')
        if share:
            parts.append(f'<text x="{MINUTE_SCALE + 8}" y="{place(y + 4)}">{_count(top * share)}/s</text>')
    for index, count in enumerate(counts):
        if count:
            high = max(1.5, 72 * count / top)
            level = 5 if count == peak else 3 if count > peak / 2 else 2
            parts.append(
                f'<rect class="h{level}" x="{index * MINUTE_BAR + 1}" y="{place(MINUTE_FOOT - high)}" width="16" '
                f'height="{place(high)}" rx="1.5"/>'
            )
    if peak:
        at = list(counts).index(peak) * MINUTE_BAR + MINUTE_BAR / 2
        anchor = "text-end" if at > MINUTE_SCALE * 0.75 else "" if at < MINUTE_SCALE * 0.2 else "text-middle"
        parts.append(f'<text x="{place(at)}" y="11" class="text-strong {anchor}">{peak_text}</text>')
    parts.append(f'<text x="0" y="{MINUTE_HEIGHT + 2}" class="text-strong">{now}</text>')
    for index in range(1, len(counts)):
        second = (start_s + index) % 60
        if second % 10 == 0 and index > 2:
            parts.append(
                f'<text x="{index * MINUTE_BAR}" y="{MINUTE_HEIGHT + 2}" class="text-middle">:{second:02d}</text>'
            )
    parts.append(f'<path class="now" d="M.75 8V{MINUTE_FOOT}"/></svg>')
    return "".join(parts)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


register = template.Library()


@register.simple_tag
def lane_axis(zero: str = "") -> SafeString:
    """The words above the lanes; `zero` stands where they begin."""
    return mark_safe(axis_svg(escape(zero or _("now"))))  # noqa: S308 - escaped above # nosec B308 B703


@register.simple_tag
def lane_spread(lane: Lane) -> SafeString:
    """A lane's stretch of due times."""
    words = {"level": lane.level, "count": f"{lane.backlog or 0:,}", "delay": delay_name(lane.delay_ms)}
    label = _("Level %(level)s: %(count)s messages due over the next %(delay)s") % words
    counts = lane.spread.counts if lane.spread is not None else (0,) * BUCKETS
    is_known = lane.spread is not None and lane.state != LaneState.NEVER_USED
    drawing = spread_svg(
        counts,
        delay_ms=lane.delay_ms,
        start_ms=AXIS_START_MS,
        end_ms=HORIZON_MS,
        label=escape(label),
        is_known=is_known,
    )
    return mark_safe(drawing)  # noqa: S308 - the label is escaped, the rest is numbers # nosec B308 B703


@register.simple_tag
def lane_progress(lane: Lane) -> SafeString | str:
    """Released and saved up to here."""
    if lane.released_share is None:
        return ""
    return mark_safe(progress_svg(lane.released_share, lane.persisted_share))  # noqa: S308 - numbers only # nosec B308 B703


@register.simple_tag
def spark(history: History, what: str, width: int = 64) -> SafeString:
    """Five minutes as a line."""
    return sparks(what, width)(history)


@register.simple_tag
def minute(bars: NextMinute, zero: str = "") -> SafeString:
    """The next sixty seconds."""
    peak_text = ""
    label = _("Messages due in each of the next 60 seconds, all levels; none")
    if bars.peak_second is not None:
        at = datetime.fromtimestamp(bars.start_ms // 1000 + bars.peak_second, UTC).astimezone(get_current_timezone())
        words = {
            "count": f"{bars.peak:,}",
            "level": bars.peak_level,
            "at": f"{at:%H:%M:%S}",
            "total": f"{bars.total:,}",
        }
        peak_text = _("%(count)s at %(at)s, most on level %(level)s") % words
        label = _("%(total)s messages due in the next 60 seconds, all levels; highest %(count)s at %(at)s") % words
    texts = {"label": escape(label), "now": escape(zero or _("now")), "peak_text": escape(peak_text)}
    drawing = minute_svg(bars.counts, start_s=bars.start_ms // 1000, **texts)
    return mark_safe(drawing)  # noqa: S308 - texts are escaped, the rest is numbers # nosec B308 B703
