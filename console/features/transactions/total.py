"""Transactions of several brokers in total: figures added up, lists merged by time, a board for each broker.

Of a broker that is away figures are those of its newest snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol, TypeVar

from console.features.transactions.shapes import (
    Board,
    GroupRow,
    OpRow,
    TransactionFigures,
    TransactionList,
    TransactionRow,
    TransactionsPage,
)
from console.last_known import Away, last_known
from console.site.evidence import joined
from console.site.merged import Part, Place, Places, merged

Value = TypeVar("Value")

#: the part of a snapshot
PART = "transactions"

#: halves of all boards together, and of one board at least
_HALVES, _LEAST_HALVES = 16, 4


def page_of_all(
    pages: Sequence[TransactionsPage], source: str, count: int, figures: Callable[[TransactionList], TransactionFigures]
) -> TransactionsPage:
    """Return the page of all brokers from those of each; `figures` are made of the `count` newest decisions."""
    page, names = pages[0], [each.broker for each in pages]
    decided = list_of_all([each.decided for each in pages], names, {}, source, count)
    shown = max(_LEAST_HALVES, _HALVES // len(pages))
    return TransactionsPage(
        evidence=joined(source, [each.evidence for each in pages]),
        now_ms=page.now_ms,
        broker=source,
        figures=figures(decided),
        groups=groups_of(pages),
        open=list_of_all([each.open for each in pages], names, {}, source, count),
        parked=list_of_all([each.parked for each in pages], names, {}, source, count),
        decided=decided,
        board=None,
        polled=all(each.polled for each in pages),
        has_several=True,
        boards=tuple((each.broker, each.board and newest_of(each.board, shown)) for each in pages),
        polled_of=tuple(each.broker for each in pages if each.polled),
        has_other_checks=len({_checks(each.figures) for each in pages if each.figures.max_checks is not None}) > 1,
    )


def away_at(names: Sequence[str]) -> tuple[Away, ...]:
    """Return the brokers of these names with the halves that were undecided and parked there last."""
    known = last_known(names, PART, TransactionFigures)
    return tuple(_away(name, known.get(name)) for name in names)


def _away(name: str, known: tuple[int, TransactionFigures] | None) -> Away:
    return Away(name, known[0], known[1].open, known[1].parked) if known else Away(name)


def with_last_known(pages: Sequence[TransactionsPage]) -> tuple[list[TransactionsPage], tuple[Away, ...]]:
    """Return the pages of several brokers, those of brokers that are away with what was undecided and parked there
    when a snapshot saw them last."""
    names = [page.broker for page in pages if page.evidence.stale and page.figures.open is None]
    known = last_known(names, PART, TransactionFigures)
    found = [
        replace(page, figures=_counts(page.figures, known[page.broker][1])) if page.broker in known else page
        for page in pages
    ]
    return found, tuple(_away(name, known.get(name)) for name in names)


def _counts(figures: TransactionFigures, then: TransactionFigures) -> TransactionFigures:
    return replace(figures, open=then.open, parked=then.parked, oldest_store_ms=then.oldest_store_ms)


def figures_of(several: Sequence[TransactionFigures], own: TransactionFigures) -> TransactionFigures:
    """Return the figures in total; `own` has how long decisions took."""

    def known(of: Callable[[TransactionFigures], Value | None]) -> list[Value]:
        return [value for value in map(of, several) if value is not None]

    def added(of: Callable[[TransactionFigures], int | None]) -> int | None:
        return sum(found) if (found := known(of)) else None

    return replace(
        own,
        open=added(lambda each: each.open),
        parked=added(lambda each: each.parked),
        oldest_store_ms=min(known(lambda each: each.oldest_store_ms), default=None),
        next_check_ms=min(known(lambda each: each.next_check_ms), default=None),
        timeout_ms=min(known(lambda each: each.timeout_ms), default=None),
        interval_ms=min(known(lambda each: each.interval_ms), default=None),
        max_checks=min(known(lambda each: each.max_checks), default=None),
        half_total=added(lambda each: each.half_total),
        commit_total=added(lambda each: each.commit_total),
        rollback_total=added(lambda each: each.rollback_total),
        check_total=added(lambda each: each.check_total),
        started_ms=min(known(lambda each: each.started_ms), default=None),
    )


def _checks(figures: TransactionFigures) -> tuple[int | None, ...]:
    return figures.timeout_ms, figures.interval_ms, figures.max_checks


def groups_of(pages: Iterable[TransactionsPage]) -> tuple[GroupRow, ...]:
    """Return producer groups, those with most open halves first.

    A producer is connected to each broker that has its topic: where it counts most is how many there are. Whom a broker
    may ask are those that are connected to it: halves of the others are alone there.
    """
    by_group: dict[str, list[GroupRow]] = {}
    for row in chain.from_iterable(page.groups for page in pages):
        by_group.setdefault(row.group, []).append(row)
    rows = [
        GroupRow(
            group,
            sum(row.open for row in mine),
            sum(row.due for row in mine),
            max(row.producers for row in mine),
            sum(row.alone for row in mine),
        )
        for group, mine in by_group.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.open, row.group)))


def list_of_all(
    lists: Sequence[TransactionList], names: Sequence[str], before: Places, source: str, count: int
) -> TransactionList:
    """Return a page of the list of all brokers from a page of each, which has `count` rows if there are so many."""
    pairs, state = list(zip(names, lists, strict=True)), lists[0].wanted.state
    parts = [Part(name, each.rows, each.following) for name, each in pairs if each.rows or not each.evidence.stale]
    begins = {name: start_of(before.get(name))[0] for name in names}

    def key(row: TransactionRow) -> int:
        return -(row.decided_ms or 0) if state == "decided" else row.store_ms or 0

    def place(row: TransactionRow) -> Place:
        if state != "decided":
            return row.offset
        begin = begins[row.broker]
        return f"{'' if begin is None else begin}:{row.offset}"

    whole = merged(parts, before=before, key=key, place=place, count=count)
    polled = [each for each in lists if each.polled]
    is_polled = len(polled) == len(lists)
    return replace(
        lists[0],
        evidence=joined(source, [each.evidence for each in lists]),
        rows=whole.rows,
        following=whole.cursor,
        max_checks=min((each.max_checks for each in lists if each.max_checks is not None), default=None),
        read=sum(each.read or 0 for each in polled) if is_polled else None,
        total=sum(each.total or 0 for each in polled) if is_polled else None,
        has_several=True,
        polled_of=tuple(name for name, each in pairs if each.polled),
    )


def start_of(place: Place | None) -> tuple[int | None, int | None]:
    """Return where a broker is asked to begin, None: at the beginning, and the half of the last row that was shown of
    that page, None: none.

    Decisions are paged by op records, which hold several: a place within a page is `begin:half`.
    """
    if not isinstance(place, str):
        return place, None
    begin, _, half = place.partition(":")
    is_half = half.isascii() and half.isdigit() and len(half) < 20
    is_begin = begin.isascii() and begin.isdigit() and len(begin) < 20
    return (int(begin) if is_begin else None), (int(half) if is_half else None)


class OfHalf(Protocol):
    """A row about a half."""

    @property
    def offset(self) -> int:
        """Its index in queue 0 of the half topic."""


Halves = TypeVar("Halves", bound=OfHalf)


def behind(rows: Sequence[Halves], half: int | None) -> tuple[Halves, ...]:
    """Return the rows behind that of a half; all of them if it is not there, as newer ones have moved it on."""
    at = next((number for number, row in enumerate(rows, 1) if row.offset == half), 0)
    return tuple(rows[at:])


def newest_of(board: Board, count: int) -> Board:
    """Return the board of as many of the newest halves, with the op records that decide them."""
    halves = board.halves[-count:]
    shown = {row.offset for row in halves}
    return replace(
        board, halves=halves, ops=tuple(part_of(op, shown) for op in board.ops if shown.intersection(op.halves))
    )


def part_of(op: OpRow, shown: set[int]) -> OpRow:
    """Return the offsets of an op record that are drawn."""
    pairs = [(half, word) for half, word in zip(op.halves, op.words, strict=True) if half in shown]
    return replace(op, halves=tuple(half for half, _ in pairs), words=tuple(word for _, word in pairs))
