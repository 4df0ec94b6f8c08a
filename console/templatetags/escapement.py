"""How the console writes numbers, spans of time, moments and where they come from."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import cache
from typing import Literal

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.security.topic_scope import current_topics
from console.site.durations import sign_of, signs
from console.site.evidence import Evidence

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def span(ms: float) -> str:
    """450 ms, 4.98 s, 47.2 s, 1 min 58 s, 2 min, 1 h 06 min, 6 d 4 h: with units, so that none is taken for a time
    of day, in the reader's language. A smaller unit of which there is none is left out.

    Rounded down, as a countdown is; `span` of static/js/clocks.js writes the same.
    """
    ms = max(0, int(ms))
    if ms < SECOND:
        return f"{ms} {sign_of('ms')}"
    if ms < MINUTE:
        second = sign_of("s")
        return f"{ms // 10 / 100:.2f} {second}" if ms < 10 * SECOND else f"{ms // 100 / 10:.1f} {second}"
    if ms < HOUR:
        return _with_rest(ms // MINUTE, "min", ms // SECOND % 60, "s", digits=2)
    if ms < DAY:
        return _with_rest(ms // HOUR, "h", ms // MINUTE % 60, "min", digits=2)
    return _with_rest(ms // DAY, "d", ms // HOUR % 24, "h")


def _with_rest(whole: int, unit: str, rest: int, smaller: str, digits: int = 1) -> str:
    text = f"{whole} {sign_of(unit)}"
    return f"{text} {rest:0{digits}d} {sign_of(smaller)}" if rest else text


def delay_name(ms: int) -> str:
    """The name of a delay in its largest whole unit: 1 s, 30 min, 2 h, 3 d."""
    for unit_ms, sign in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {sign_of(sign)}"
    return f"{ms:,} {sign_of('ms')}"


def wheel_marks() -> tuple[str, str, str]:
    """The words beside the outer ring of a wheel."""
    first, second, third = (f"+{delay_name(at * SECOND)}" for at in (15, 30, 45))
    return first, second, third


register = template.Library()

UNKNOWN = mark_safe('<span class="faint">&ndash;</span>')  # nosec B308 - our own text
#: what a filter is given: a template resolves a field of a row that is not there to an empty text
Figure = float | Literal[""] | None


@register.filter
def figure(value: Figure) -> SafeString | str:
    """A count with thousands separators; a dash when unknown."""
    return UNKNOWN if value is None or value == "" else f"{value:,.0f}"


@register.filter
def unless(value: Figure, is_stale: object) -> Figure:
    """A figure that is not known while what it was read from is stale."""
    return None if is_stale else value


@register.filter
def rate(value: Figure) -> SafeString | str:
    """A rate per second with as many decimals as it deserves."""
    if value is None or value == "":
        return UNKNOWN
    if value >= 10 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


@register.filter
def millis(value: Figure) -> SafeString | str:
    """Milliseconds with one decimal below a hundred."""
    if value is None or value == "":
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


@register.filter
def late(ms: float | None) -> SafeString | str:
    """How late something was, with one decimal below a tenth of a second: 4.1 ms, 218 ms, 1.20 s."""
    if ms is None or ms >= SECOND:
        return length(ms)
    return f"{millis(ms)} {sign_of('ms')}"


@register.filter
def size(value: Figure) -> SafeString | str:
    """Bytes in B, kB, MB, GB (powers of 1,000)."""
    if value is None or value == "":
        return UNKNOWN
    number = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:,.0f} {unit}" if unit == "B" or number >= 100 else f"{number:,.1f} {unit}"
        number /= 1000
    return UNKNOWN


@register.filter
def delay(delay_ms: int) -> str:
    """The name of a delay: 1 s, 30 min, 2 h."""
    return delay_name(delay_ms)


@register.filter
def percent(value: Figure) -> SafeString | str:
    """A share of one in per cent."""
    return UNKNOWN if value is None or value == "" else f"{value:.0%}".replace("%", " %")


def _moment(ms: int, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(ms / 1000, zone or get_current_timezone())


def _full(ms: int, at: datetime) -> str:
    """2026-11-22 02:30:00.125 CET: digits but for the zone's name, which is escaped."""
    return f"{at.isoformat(' ', 'seconds')[:19]}.{ms % 1000:03d} {_zone(at.tzname() or '')}"


@cache
def _zone(name: str) -> str:
    return escape(name)


# Hundreds of moments stand on a page: what is written here is digits, names of zones and words of ours, escaped. A list
# looks up the person's zone once for all of them, which takes longer than the rest, as does `mark_safe`.


@register.simple_tag
def moment(ms: int | None, style: str = "full", zone: tzinfo | None = None) -> SafeString:
    """A moment with its zone; `time` leaves the day to the hover text."""
    if ms is None:
        return UNKNOWN
    at = _moment(ms, zone)
    full = _full(ms, at)
    text = full[11:23] if style == "time" else full
    return SafeString(f'<time datetime="{at.isoformat()}" title="{full}">{text}</time>')  # nosec B703 - as said above


#: what fell due so short a time ago is on its way: the mirror follows a broker, and a page the mirror
LATE_MS = 2_000


def is_late(due_ms: int, as_of_ms: int) -> bool:
    """Tell whether what was still pending at `as_of_ms` was overdue then, not just on its way."""
    return as_of_ms - due_ms > LATE_MS


def until(due_ms: int, now_ms: int, as_of_ms: int | Literal[""] | None = None) -> str:
    """Return what is left until a moment, escaped; of what is overdue by how much it is late.

    `as_of_ms`: when it was seen to be pending, where that is not just now.
    """
    left = due_ms - now_ms
    if left > 0:
        return span(left)
    if not is_late(due_ms, as_of_ms or now_ms):
        return escape(_("now"))
    return escape(_("%(span)s late") % {"span": span(-left)})


@register.simple_tag
def due_forms() -> SafeString:
    """How the browser writes what is left, is due, was due, or is late: "#" stands for by how much. As attributes."""
    forms = {
        "late": _("%(span)s late") % {"span": "#"},
        "in": _("in %(span)s") % {"span": "#"},
        "ago": _("{} ago").format("#"),
        "now": _("now"),
        "units": signs(),
    }
    return format_html_join(" ", 'data-{}="{}"', forms.items())


@register.simple_tag
def due(
    due_ms: int | Literal[""] | None, now_ms: int, zone: tzinfo | None = None, as_of_ms: int | Literal[""] | None = None
) -> SafeString:
    """What is left until a moment, counted down by the browser; what is overdue says so."""
    if due_ms is None or due_ms == "":
        return UNKNOWN
    # a template that has no evidence gives nothing
    return _counted(due_ms, until(due_ms, now_ms, as_of_ms or None), "", is_late(due_ms, as_of_ms or now_ms), zone)


@register.simple_tag
def due_in(due_ms: int | Literal[""] | None, now_ms: int) -> SafeString:
    """The same as a part of a sentence: in 4.20 s, now, 4.20 s late."""
    if due_ms is None or due_ms == "":
        return UNKNOWN
    text = until(due_ms, now_ms)
    if due_ms > now_ms:
        text = escape(_("in %(span)s") % {"span": text})
    return _counted(due_ms, text, "data-in ", is_late(due_ms, now_ms), None)


def _counted(due_ms: int, text: str, form: str, late: bool, zone: tzinfo | None) -> SafeString:
    full = _full(due_ms, _moment(due_ms, zone))
    marks = f"{form}{'data-is-late ' if late else ''}"
    return SafeString(f'<time {marks}data-due-ms="{due_ms}" title="{full}">{text}</time>')  # nosec B703 - as said above


@register.simple_tag
def age(since_ms: int | Literal[""] | None, now_ms: int, zone: tzinfo | None = None) -> SafeString:
    """How long ago something was, counted on by the browser."""
    if since_ms is None or since_ms == "":
        return UNKNOWN
    full = _full(since_ms, _moment(since_ms, zone))
    text = span(max(0, now_ms - since_ms))
    return SafeString(f'<time data-since-ms="{since_ms}" title="{full}">{text}</time>')  # nosec B703 - as said above


@register.simple_tag
def ago(since_ms: int | Literal[""] | None, now_ms: int, zone: tzinfo | None = None) -> SafeString:
    """How long ago something was, in words: for a moment that nothing beside it calls an age."""
    text = age(since_ms, now_ms, zone)
    return text if text == UNKNOWN else format_html(_("{} ago"), text)


@register.simple_tag
def length(ms: float | None) -> SafeString | str:
    """A span of time."""
    return UNKNOWN if ms is None else span(ms)


@register.inclusion_tag("ui/evidence.html")
def evidence(found: Evidence, now_ms: int) -> dict[str, object]:
    """The line at a sheet's upper right: who said it, asked how, how old, exact or not."""
    said: list[SafeString | str] = [found.source] if found.source else []
    if found.requests:
        numbers = ", ".join(map(str, found.requests))
        said.append(ngettext("request %(numbers)s", "requests %(numbers)s", len(found.requests)) % {"numbers": numbers})
    if found.as_of_ms is not None:
        said.append(format_html(_("{} ago"), age(found.as_of_ms, now_ms)))
    if found.stale_reason is None and found.as_of_ms is not None:
        said.append(_("exact") if found.exact else _("estimated"))
    return {"found": found, "said": said}


_MARKS = {
    "ok": '<circle class="fill-verd" cx="6" cy="6" r="4"/>',
    "look": '<path class="fill-brass" d="M6 .8 11.4 10.6H.6Z"/>',
    "asked": '<path class="fill-half" d="M6 .8 11.4 10.6H.6Z"/>',
    "broken": '<path class="fill-ruby" d="M6 .5 11.5 6 6 11.5.5 6Z"/>',
    "idle": '<circle class="line-faint" cx="6" cy="6" r="3.6"/>',
    "wait": '<circle class="line-steel" cx="6" cy="6" r="4"/><path class="line-steel" d="M6 3.6V6l1.7 1"/>',
    "cross": '<path class="line-faint" d="M2.5 2.5l7 7M9.5 2.5l-7 7"/>',
}


@register.simple_tag
def mark(kind: str) -> SafeString:
    """A shape that says a state beside its word: ok, look, asked, broken, idle, wait, cross."""
    shape = _MARKS[kind]
    return mark_safe(f'<svg class="mark" width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>')  # noqa: S308 - the shape is ours # nosec B308 B703


@register.simple_tag
def limited() -> bool:
    """Whether the reader sees some topics only: what is not there for him may be there for others."""
    return not current_topics().is_all
