"""Half queue and op queue side by side: each half a row at the left, each op record a card at the right.

A decision is a line from one to the other. Texts come escaped. The order of both sides is that of their offsets; a card
stands where its halves are, as far as the cards above leave room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.ui.charts.scale import place

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
    "undecided": '<path class="fill-brass" d="M566 {high}l5.5 9.5h-11Z"/>',
    "alone": '<path class="fill-brass" d="M566 {high}l5.5 9.5h-11Z"/>',
    "parked": '<path class="fill-ruby" d="M566 {high}l5.5 5.5-5.5 5.5-5.5-5.5Z"/>',
    "fresh": '<circle class="line-faint" cx="566" cy="{y}" r="4"/>',
    "unknown": '<circle class="line-faint dash" cx="566" cy="{y}" r="4"/>',
}
_WORDS = {"undecided": "text-brass", "alone": "text-brass", "parked": "text-ruby"}


def board_svg(halves: Sequence[HalfMark], ops: Sequence[OpMark], *, label: str, heads: Sequence[str]) -> str:
    """`heads`: the eight words above the columns, five at the left and three at the right (op, decides, decision)."""
    places = _places(len(halves), ops)
    end = max([_TOP + _ROW * len(halves), *(y + _CARD / 2 + 6 for y in places)])
    parts = [f'<svg class="chart min-wide" viewBox="0 0 {WIDTH} {place(end)}" role="group" aria-label="{label}">']
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
