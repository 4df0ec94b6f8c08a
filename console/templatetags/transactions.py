"""Transactions in words and drawings: the board, the state of a half, the life of one.

The board is half queue and op queue side by side: each half a row at the left, each op record a card at the right.

A decision is a line from one to the other. Texts come escaped. The order of both sides is that of their offsets; a card
stands where its halves are, as far as the cards above leave room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.features.transactions.shapes import (
    LOOK_AFTER_PERIODS,
    Board,
    LifeEvent,
    OpRow,
    TransactionEvent,
    TransactionLife,
    TransactionRow,
    TransactionState,
)
from console.site.chosen import choice_of, choosing, chosen
from console.site.clock import local_time
from console.templatetags.escapement import delay_name, is_late, span, until
from console.templatetags.visible import visible
from console.ui.charts import FOLD_MS, Stop, drawn_of, left_out, life_svg, place

WIDTH = 1160
_ROW, _TOP = 34, 34
#: where the halves end, where a line begins and ends
_LEFT_END, _FROM, _TO = 560, 571, 800
#: text baselines below the middle of a row or card
_BASE = 4
_CARD, _CARD_GAP = 28, 8


@dataclass(frozen=True, slots=True)
class HalfMark:
    """One half; `kind` is committed, rolled, decided, undecided, alone, parked, fresh or unknown."""

    offset: str
    name: str
    topic: str
    group: str
    age: str
    kind: str
    #: what is said beside it; empty for one that has a line
    note: str
    href: str


@dataclass(frozen=True, slots=True)
class OpMark:
    """One op record; `halves` are places in the list of halves, each with its kind."""

    offset: str
    decides: str
    word: str
    age: str
    halves: Sequence[tuple[int, str]]


_DOTS: Mapping[str, str] = {
    "committed": '<circle class="fill-verd" cx="566" cy="{y}" r="4"/>',
    "rolled": '<path class="line-faint" d="M562 {up}l8 8M570 {up}l-8 8"/>',
    "decided": '<circle class="fill-faint" cx="566" cy="{y}" r="4"/>',
    "undecided": '<path class="fill-half" d="M566 {high}l5.5 9.5h-11Z"/>',
    "alone": '<path class="fill-brass" d="M566 {high}l5.5 9.5h-11Z"/>',
    "parked": '<path class="fill-ruby" d="M566 {high}l5.5 5.5-5.5 5.5-5.5-5.5Z"/>',
    "fresh": '<circle class="line-faint" cx="566" cy="{y}" r="4"/>',
    "unknown": '<circle class="line-faint dash" cx="566" cy="{y}" r="4"/>',
}
_WORDS = {"undecided": "text-muted", "alone": "text-brass", "parked": "text-ruby"}


def board_svg(halves: Sequence[HalfMark], ops: Sequence[OpMark], *, label: str, heads: Sequence[str]) -> str:
    """`heads`: the eight words above the columns, five at the left and three at the right (op, decides, decision)."""
    places = _places(len(halves), ops)
    end = max([_TOP + _ROW * len(halves), *(y + _CARD / 2 + 6 for y in places)])
    parts = [f'<svg class="chart min-board" viewBox="0 0 {WIDTH} {place(end)}" role="group" aria-label="{label}">']
    for (x, style), head in zip(_HEADS, heads, strict=True):
        parts.append(f'<text class="{style}" x="{x}" y="16">{head}</text>')
    for op, y in zip(ops, places, strict=True):
        for row, kind in op.halves:
            style = {"committed": "line-verd", "rolled": "line-faint"}.get(kind, "line-faint dash")
            start = place(_middle(row))
            parts.append(f'<path class="{style}" d="M{_FROM} {start}C680 {start} 680 {place(y)} {_TO} {place(y)}"/>')
    parts += [_half(half, _middle(row)) for row, half in enumerate(halves)]
    parts += [_op(op, y) for op, y in zip(ops, places, strict=True)]
    parts.append("</svg>")
    return "".join(parts)


_HEADS = (
    ("0", ""), ("92", ""), ("262", ""), ("400", ""), ("552", "text-end"),
    ("812", ""), ("884", ""), ("1062", ""),
)  # fmt: skip


def _middle(row: int) -> float:
    return _TOP + _ROW * (row + 0.5)


def _places(count: int, ops: Sequence[OpMark]) -> list[float]:
    """The middle of each card: at its halves, below the card before, and no lower than is needed at the end."""
    found: list[float] = []
    for op in ops:
        wanted = sum(_middle(row) for row, _ in op.halves) / len(op.halves) if op.halves else _middle(0)
        found.append(max(wanted, found[-1] + _CARD + _CARD_GAP if found else _middle(0)))
    floor = _TOP + _ROW * count - _CARD / 2
    for index in range(len(found) - 1, -1, -1):
        if found[index] <= floor:
            break
        room = _middle(0) + index * (_CARD + _CARD_GAP)
        found[index] = max(floor, room)
        floor = found[index] - _CARD - _CARD_GAP
    return found


def _half(half: HalfMark, y: float) -> str:
    base, accent = place(y + _BASE), _WORDS.get(half.kind, "")
    dot = _DOTS[half.kind].format(y=place(y), up=place(y - 4), high=place(y - 5.5))
    name = f'<text class="mono text-muted" x="92" y="{base}">{half.name}</text>'
    if half.href:
        name = f'<a class="link" href="{half.href}">{name}</a>'
    note = f'<text class="halo {accent}" x="582" y="{base}">{half.note}</text>' if half.note else ""
    return (
        f'<path class="axis" d="M0 {place(y + _ROW / 2)}H{_LEFT_END}"/>'
        f'<text class="mono" x="0" y="{base}">{half.offset}</text>{name}'
        f'<text class="text-muted" x="262" y="{base}">{half.topic}</text>'
        f'<text class="text-muted" x="400" y="{base}">{half.group}</text>'
        f'<text class="text-end {accent or "text-muted"}" x="552" y="{base}">{half.age}</text>{dot}{note}'
    )


def _op(op: OpMark, y: float) -> str:
    base = place(y + _BASE)
    return (
        f'<rect class="fill-line soft" x="{_TO}" y="{place(y - _CARD / 2)}" '
        f'width="{WIDTH - _TO}" height="{_CARD}" rx="4"/>'
        f'<text class="mono" x="812" y="{base}">{op.offset}</text>'
        f'<text class="mono text-muted" x="884" y="{base}">{op.decides}</text>'
        f'<text class="text-strong" x="1062" y="{base}">{op.word}</text>'
        f'<text class="text-end text-muted" x="1150" y="{base}">{op.age}</text>'
    )


register = template.Library()

#: offsets that a card names; the others are counted
_NAMED = 2
#: events drawn; the table has all
_MOST_STOPS = 10
#: the grace that is assumed where the broker does not tell its own (BrokerConfig.transactionTimeOut)
_GRACE_MS = 6_000
_KINDS = {
    TransactionState.COMMITTED: "committed",
    TransactionState.ROLLED_BACK: "rolled",
    TransactionState.DECIDED: "decided",
    TransactionState.ENDING: "fresh",
    TransactionState.PARKED: "parked",
    TransactionState.UNKNOWN: "unknown",
    TransactionState.REPLACED: "unknown",
}
_MARKS = {
    TransactionState.COMMITTED: "ok",
    TransactionState.PARKED: "broken",
    TransactionState.OPEN: "wait",
    TransactionState.DUE: "look",
    TransactionState.ENDING: "wait",
    TransactionState.ROLLED_BACK: "cross",
}
_STOPS = {
    TransactionEvent.ROLLED_BACK: "failed",
    TransactionEvent.PARKED: "moved",
    TransactionEvent.CHECK: "moved",
    TransactionEvent.RESUMED: "moved",
}


@register.filter
def decided_by(who: str) -> str:
    """Who decided: before the address of a client a broker writes the part that it played."""
    role, _blank, address = who.partition(" ")
    if role == "producer" and address:
        return _("producer %(address)s") % {"address": address}
    if role == "check" and address:
        return _("check %(address)s") % {"address": address}
    return who


@register.filter
def state_mark(state: str) -> str:
    """The shape beside a state."""
    return _MARKS.get(TransactionState(state), "idle")


@register.simple_tag
def delay_words(ms: int | None) -> str:
    """A setting's span of time."""
    return "\u2013" if ms is None else delay_name(ms)


@register.simple_tag
def checks_words(row: TransactionRow, most: int | None) -> str:
    """How often its producer was asked, of how often at most."""
    if row.checks is None:
        return "\u2013" if most is None else f"\u2013 / {most}"
    return f"{row.checks}" if most is None else f"{row.checks} / {most}"


@register.simple_tag
def asked_words(row: TransactionRow) -> str:
    """Who would be asked next."""
    if row.producers is None:
        return _("not reported by this broker")
    if not row.producers:
        return _("none: no producer of %(group)s is connected") % {"group": row.group or "\u2013"}
    first = row.producers[0]
    more = len(row.producers) - 1
    if not more:
        return first
    return ngettext("%(first)s or %(more)s other", "%(first)s or one of %(more)s others", more) % {
        "first": first, "more": more,
    }  # fmt: skip


@register.simple_tag
def board_drawing(board: Board, now_ms: int, timeout_ms: int | None, most: int | None, broker: str = "") -> SafeString:
    """Both queues with their lines; a half leads to its page, at `broker` where the page is about several."""
    with choosing(choice_of(broker) if broker else chosen()):
        halves = [_half_mark(row, now_ms, timeout_ms or _GRACE_MS, most) for row in board.halves]
    places = {row.offset: place for place, row in enumerate(board.halves)}
    ops = [_op_mark(op, places, now_ms) for op in board.ops]
    label = _("Half queue on the left, op queue on the right; %(halves)s half messages, %(open)s of them undecided") % {
        "halves": len(halves), "open": sum(row.is_undecided for row in board.halves),
    }  # fmt: skip
    heads = (
        _("offset"), _("transaction"), _("real topic"), _("group"), _("age"), _("op"), _("decides"), _("decision"),
    )  # fmt: skip
    drawn = board_svg(halves, ops, label=escape(label), heads=[escape(head) for head in heads])
    return mark_safe(drawn)  # noqa: S308 - every text is escaped # nosec B308 B703


@register.simple_tag
def life_drawing(data: TransactionLife) -> SafeString | str:
    """The time line: half, checks, decision, delivery; and the next check of one that is open."""
    stops: list[Stop] = []
    shown, omitted = drawn_of(data.events, _MOST_STOPS)
    for number, event in enumerate(shown):
        apart = event.ms - stops[-1].ms if stops else 0
        gap = escape(span(apart)) if apart > FOLD_MS else ""
        if omitted and number == 1:
            gap = left_out(omitted)
        kind = _STOPS.get(event.kind, "done")
        stops.append(Stop(event.ms, escape(event_words(event)), _time(event.ms), kind, gap))
    row = data.row
    if row is not None and row.next_check_ms is not None and stops and not row.is_parked and row.is_undecided:
        left = until(row.next_check_ms, data.now_ms)
        late = is_late(row.next_check_ms, data.now_ms)
        at = _time(row.next_check_ms)
        stops.append(Stop(row.next_check_ms, escape(_("next check")), at, "ahead", left, is_late=late))
    if not stops:
        return ""
    label = escape(_("Lifecycle of the transaction: %(count)s events") % {"count": len(data.events)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped # nosec B308 B703


@register.filter
def event_words(event: LifeEvent) -> str:
    """What happened, with the number of a check."""
    if event.kind is TransactionEvent.CHECK and event.count is not None:
        return _("check %(count)s") % {"count": event.count}
    if event.kind is TransactionEvent.UNKNOWN_CHECKS and event.count is not None:
        words = _("check %(count)s") if event.first == event.count else _("checks %(first)s to %(count)s")
        return words % {"first": event.first, "count": event.count}
    return str(event.kind.label)


def _half_mark(row: TransactionRow, now_ms: int, grace_ms: int, most: int | None) -> HalfMark:
    kind, note = _standing(row, now_ms, grace_ms, most)
    return HalfMark(
        offset=f"{row.offset:,}",
        name=escape(_short(visible(row.name), 24)),
        topic=escape(_short(row.topic, 20)),
        group=escape(_short(row.group, 15)),
        # of what is not seen nothing is known: no age is not an age of nothing
        age="" if row.store_ms is None else span(max(0, now_ms - row.store_ms)),
        kind=kind,
        note=escape(note),
        href=reverse("transaction", args=[row.position]) if row.position is not None else "",
    )


def _standing(row: TransactionRow, now_ms: int, grace_ms: int, most: int | None) -> tuple[str, str]:
    """Its mark and what is said beside it; nothing beside one that has a line."""
    if row.state not in (TransactionState.OPEN, TransactionState.DUE):
        return _KINDS[row.state], _beside(row, most)
    if row.store_ms is None:
        # of what is not seen it is not known either whether it is fresh
        return "unknown", ""
    checks = checks_words(row, most)
    if row.is_alone:
        return "alone", _("%(checks)s; no producer connected") % {"checks": checks}
    if now_ms - row.store_ms < LOOK_AFTER_PERIODS * grace_ms:
        return "fresh", _("new")
    if row.next_check_ms is not None and row.next_check_ms > now_ms:
        words = {"checks": checks, "left": span(row.next_check_ms - now_ms)}
        return "undecided", _("%(checks)s checks, next in %(left)s") % words
    return "undecided", _("%(checks)s checks") % {"checks": checks}


def _beside(row: TransactionRow, most: int | None) -> str:
    if row.state is TransactionState.PARKED:
        return _("parked after %(checks)s") % {"checks": checks_words(row, most)}
    if row.state is TransactionState.UNKNOWN:
        return _("decided before the records read")
    if row.state in (TransactionState.ENDING, TransactionState.REPLACED):
        return str(row.state.label)
    return ""


def _op_mark(op: OpRow, places: dict[int, int], now_ms: int) -> OpMark:
    words = list(dict.fromkeys(op.words))
    named = " ".join(f"{half:,}" for half in op.halves[:_NAMED])
    more = len(op.halves) - _NAMED
    return OpMark(
        offset=f"{op.offset:,}",
        decides=f"{named} +{more}" if more > 0 else named,
        word=escape(_decision(words)),
        age=span(max(0, now_ms - op.store_ms)),
        halves=[(places[half], _KINDS[word]) for half, word in zip(op.halves, op.words, strict=True)],
    )


def _decision(words: Sequence[TransactionState]) -> str:
    if len(words) > 1:
        return _("both")
    return {
        TransactionState.COMMITTED: _("commit"), TransactionState.ROLLED_BACK: _("rollback"),
    }.get(words[0], _("not reported"))  # fmt: skip


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _time(ms: int) -> str:
    return f"{local_time(ms):%m-%d %H:%M:%S}.{ms % 1000:03d}"
