"""The Timers page in words and drawings: what stands around the pure charts of console.ui.charts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.features.timers.shapes import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    ZOOMS,
    Forecast,
    Herd,
    Lateness,
    Stretch,
    TimersPage,
    WheelSlot,
    Zoom,
    window_of,
)
from console.security.topic_scope import current_topics
from console.site.clock import local_time
from console.site.durations import sign_of
from console.templatetags.escapement import is_late, size, span, until, wheel_marks
from console.ui.charts import Times
from console.ui.timer_charts import (
    Cell,
    HerdMark,
    Hub,
    Mark,
    Slot,
    binned,
    forecast_svg,
    lateness_svg,
    small_svg,
    strip_svg,
    wheel_svg,
)

register = template.Library()

#: which zoom a slot of each ring opens
_RING_ZOOMS = ("1s", "1m", "1h")
#: distance of the marks below a stretch; years and months are counted, not measured
_TICKS_MS = {"30d": 3 * DAY, "7d": DAY, "1d": 3 * HOUR, "1h": 10 * MINUTE, "1m": 10 * SECOND, "1s": 100}


def stamp(ms: int, step_ms: int) -> str:
    """A moment as exactly as a slot of this width needs."""
    at = local_time(ms)
    if step_ms >= DAY:
        return f"{at:%Y-%m-%d}"
    if step_ms >= MINUTE:
        return f"{at:%m-%d %H:%M}"
    return f"{at:%H:%M:%S}" if step_ms >= SECOND else f"{at:%H:%M:%S}.{ms % 1000:03d}"


@register.simple_tag
def timer_wheel(page: TimersPage) -> SafeString:
    """Draw the three rings of the wheel."""
    wheel = page.wheel
    assert wheel is not None, "the page draws a wheel only if there is one"
    herds = [herd.due_ms for herd in page.forecast.herds] if page.forecast else []
    zooms = ("", "", "") if page.is_past else _RING_ZOOMS
    rings = [_ring(ring, zoom, herds) for ring, zoom in zip(wheel.rings, zooms, strict=True)]
    words = {"seconds": f"{wheel.rings[0].total:,}", "hours": f"{wheel.rings[2].total:,}"}
    label = _(
        "Timer wheel: outer ring the next 60 seconds (%(seconds)s due), middle ring the next 60 minutes, "
        "inner ring the next 24 hours (%(hours)s due); now at the top, clockwise"
    ) % words  # fmt: skip
    drawing = wheel_svg(
        rings,
        label=escape(label),
        now=escape(_("at that time") if page.is_past else _("now")),
        marks=wheel_marks(),
        hub=_hub(page),
        times=[Times(ring.start_ms, ring.end_ms, [f"{slot.count:,}" for slot in ring.slots]) for ring in wheel.rings],
    )
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


@register.simple_tag
def timer_strip(page: TimersPage) -> SafeString:
    """The chosen stretch, each slot a link that opens it."""
    wheel = page.wheel
    assert wheel is not None, "the page draws a strip only if there is a wheel"
    strip, zoom = wheel.strip, ZOOMS[page.zoom]
    cells = [
        Cell(index, slot.count, _slot_title(slot, strip.step_ms), "" if page.is_past else _opens(zoom, slot.start_ms))
        for index, slot in enumerate(strip.slots)
        if slot.count
    ]  # fmt: skip
    pointer_ms = wheel.read_ms or page.now_ms
    pointer = None
    if strip.start_ms <= pointer_ms < strip.end_ms:
        text = _("pointer %(at)s") % {"at": stamp(pointer_ms, SECOND)}
        pointer = Mark(_share(strip, pointer_ms), escape(text))
    rolls = [
        Mark(_share(strip, ms), escape(_roll_text(ms, count)))
        for ms, count in wheel.rolls
        if strip.start_ms <= ms < strip.end_ms
    ]
    label = _("%(count)s messages due from %(start)s to %(end)s, in slots of %(step)s") % {
        "count": f"{strip.total:,}", "start": stamp(strip.start_ms, strip.step_ms),
        "end": stamp(strip.end_ms, strip.step_ms), "step": step_name(strip.step_ms),
    }  # fmt: skip
    ticks = list(_ticks(strip, page.zoom))
    drawing = strip_svg(
        cells, len(strip.slots), label=escape(label), pointer=pointer, ticks=ticks, rolls=rolls,
        span_ms=(strip.start_ms, strip.end_ms),
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


@register.simple_tag
def timer_forecast(page: TimersPage) -> SafeString:
    """The load that comes, with the capacity."""
    forecast = page.forecast
    assert forecast is not None, "the page draws a forecast only if there is one"
    stretch = forecast.stretch
    marks = [
        HerdMark(_share(stretch, herd.due_ms), escape(_herd_first(herd)), escape(_herd_second(forecast, herd)))
        for herd in sorted(forecast.herds, key=lambda herd: -herd.last_late_ms)
    ]  # fmt: skip
    label = ngettext(
        "Messages due per second; %(herds)s burst that will be late",
        "Messages due per second; %(herds)s bursts that will be late",
        len(forecast.herds),
    ) % {"herds": len(forecast.herds)}
    capacity_text = _("capacity %(rate)s/s") % {"rate": f"{forecast.capacity_per_s or 0:,.0f}"}
    drawing = forecast_svg(
        [slot.count * 1000 / stretch.step_ms for slot in stretch.slots],
        label=escape(label), capacity=forecast.capacity_per_s, capacity_text=escape(capacity_text),
        ticks=list(_ticks(stretch, page.zoom)), warnings=marks, is_now=page.at_ms is None,
        span_ms=(stretch.start_ms, stretch.end_ms),
    )  # fmt: skip
    return mark_safe(drawing)  # noqa: S308 - every text is escaped # nosec B308 B703


@register.simple_tag
def herd_words(forecast: Forecast, herd: Herd) -> str:
    """500,000 due at 00:00:00; capacity 25,000/s; the last one about 20 s late."""
    return f"{_herd_first(herd)}; {_herd_second(forecast, herd)}"


@register.simple_tag
def lateness_bars(lateness: Lateness) -> SafeString:
    """The histogram with its numbers."""
    label = _("Lateness of %(count)s released timers in ms") % {"count": f"{lateness.count:,}"}
    return mark_safe(lateness_svg(binned(lateness.histogram), label=escape(label)))  # noqa: S308 - escaped # nosec B308 B703


@register.simple_tag
def lateness_row(lateness: Lateness) -> SafeString:
    """The histogram within a row."""
    label = _("Lateness, %(count)s releases") % {"count": f"{lateness.count:,}"}
    return mark_safe(small_svg(binned(lateness.histogram), label=escape(label)))  # noqa: S308 - escaped # nosec B308 B703


@register.simple_tag
def zoom_words(name: str) -> str:
    """A zoom's name for people."""
    words = {
        "10y": _("10 years"), "1y": _("1 year"), "30d": _("30 days"), "7d": _("7 days"), "1d": _("1 day"),
        "1h": _("1 hour"), "1m": _("1 minute"), "1s": _("1 second"),
    }  # fmt: skip
    return words[name]


@register.simple_tag
def zoom_names() -> list[str]:
    """All zooms, the widest first."""
    return list(ZOOMS)


@register.simple_tag
def neighbour_ms(page: TimersPage, direction: str) -> int | None:
    """Where the stretch before or behind begins; there is none before now."""
    window = window_of(page.zoom, page.at_ms, page.now_ms)
    if direction == "later":
        return window.later_ms
    return window.earlier_ms if window.start_ms > page.now_ms else None


def step_name(step_ms: int) -> str:
    """The width of a slot."""
    for unit_ms, sign in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if step_ms >= unit_ms:
            return f"{step_ms // unit_ms} {sign_of(sign)}"
    return f"{step_ms} {sign_of('ms')}"


@register.simple_tag
def slot_width(stretch: Stretch) -> str:
    """The width of its slots."""
    return step_name(stretch.step_ms)


def _ring(ring: Stretch, zoom: str, herds: list[int]) -> list[Slot]:
    return [
        Slot(
            slot.count,
            _slot_title(slot, ring.step_ms),
            _opens_zoom(zoom, slot.start_ms) if zoom else "",
            any(slot.start_ms <= due_ms < slot.start_ms + ring.step_ms for due_ms in herds),
        )
        if slot.count
        else Slot(0)
        for slot in ring.slots
    ]


def _slot_title(slot: WheelSlot, step_ms: int) -> str:
    figures = f"{stamp(slot.start_ms, step_ms)} · {slot.count:,}"
    return f"{figures} · {escape(size(slot.size_bytes))}" if slot.size_bytes is not None else figures


def _opens(zoom: Zoom, start_ms: int) -> str:
    """The next zoom at this slot; below that, the messages themselves."""
    if zoom.opens is None:
        return escape(f"{reverse('timer_list')}?from={start_ms + 1}&to={start_ms + zoom.step_ms + 1}")
    return _opens_zoom(zoom.opens, start_ms)


def _opens_zoom(name: str, start_ms: int) -> str:
    """A second stands where it ends: its parts begin a second before."""
    return escape(f"?zoom={name}&at={start_ms - SECOND if name == '1s' else start_ms}")


def _hub(page: TimersPage) -> Hub:
    due_ms = page.figures.next_due_ms
    if page.figures.paused:
        return Hub(escape(_("all timers are")), escape(_("paused")), "")
    if not current_topics().is_all:
        # one's own next one is told with one's own figures, not in the middle of everybody's
        return Hub("", "", escape(_("of the whole broker")))
    if due_ms is None:
        return Hub(escape(_("nothing pending")), "\u2013", "")
    first = page.first.rows[0] if page.first.rows and page.at_ms is None else None
    below = escape(first.topic[:40]) if first else ""
    last = escape(_("slot %(number)s") % {"number": due_ms // 1000})
    left = until(due_ms, page.now_ms)
    return Hub(escape(_("next due")), left, below, last, due_ms, is_late(due_ms, page.now_ms))


def _roll_text(ms: int, count: int) -> str:
    return _("next roll %(at)s: %(count)s") % {"at": stamp(ms, MINUTE), "count": f"{count:,}"}


def _herd_first(herd: Herd) -> str:
    return _("%(count)s due at %(at)s") % {"count": f"{herd.count:,}", "at": f"{local_time(herd.due_ms):%H:%M:%S}"}


def _herd_second(forecast: Forecast, herd: Herd) -> str:
    words = {"rate": f"{forecast.capacity_per_s or 0:,.0f}", "late": span(herd.last_late_ms)}
    if forecast.capacity_per_s is None:
        return _("the last one about %(late)s late") % words
    return _("capacity %(rate)s/s; the last one about %(late)s late") % words


def _share(stretch: Stretch, ms: int) -> float:
    """Where a moment is: 0 at the left edge, 1 at the right."""
    return (ms - stretch.start_ms) / (stretch.end_ms - stretch.start_ms)


def _ticks(stretch: Stretch, zoom: str) -> Iterator[Mark]:
    """Words at round moments; one at the left edge would meet the pointer's."""
    for ms, text in _round_moments(stretch.start_ms, stretch.end_ms, zoom):
        share = _share(stretch, ms)
        if 0.02 < share < 0.985:
            yield Mark(share, text)


def _round_moments(start_ms: int, end_ms: int, zoom: str) -> Iterator[tuple[int, str]]:
    if zoom in ("10y", "1y"):
        at = local_time(start_ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        while True:
            at = (at + timedelta(days=32)).replace(day=1)
            ms = round(at.timestamp() * 1000)
            if ms >= end_ms:
                return
            if zoom == "1y" or at.month == 1:
                yield ms, f"{at:%Y-%m}" if zoom == "1y" else f"{at:%Y}"
    step_ms = _TICKS_MS[zoom]
    for ms in range(start_ms - start_ms % step_ms + step_ms, end_ms, step_ms):
        at = local_time(ms)
        if step_ms >= DAY:
            yield ms, f"{at:%m-%d}"
        elif step_ms >= MINUTE:
            yield ms, f"{at:%H:%M}"
        else:
            yield ms, f"{at:%H:%M:%S}" if step_ms >= SECOND else f".{ms % 1000:03d}"
