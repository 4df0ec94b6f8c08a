"""The same as limited.py, of what waits: lanes, timers, transactions, Redisson's queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from console.access.masking import Masks, masks
from console.access.topics import Eyes, eyes
from console.queries import delayed_queues as of_delayed_queues
from console.queries import half_keys, lane_pages, schedule
from console.queries import timers as of_timers
from console.queries import transactions as of_transactions
from console.queries.shapes.delayed_queues import QueuePage, QueuesPage
from console.queries.shapes.lane import LanePage
from console.queries.shapes.lanes import Lanes
from console.queries.shapes.timers import TimerFilter, TimerLife, TimerList, TimersPage
from console.queries.shapes.transactions import (
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
)

#: pages of others that are passed over for one page of somebody who sees some topics only
MOST_PAGES = 50


def lanes() -> Lanes:
    """All lanes: counts and moments, no names."""
    return schedule.lanes()


def highest_level() -> int:
    """The number of the last level."""
    return schedule.highest_level()


def lane(level: int, offset: int | None = None, count: int = lane_pages.PAGE_COUNT) -> LanePage:
    """A page of one lane."""
    found = lane_pages.lane(level, offset, count)
    rows, hide = eyes().rows(found.messages, lambda row: row.real_topic), masks()
    left_out = len(found.messages) - len(rows)
    return replace(found, messages=tuple(hide.row(row, row.real_topic) for row in rows), left_out=left_out)


def timers(zoom: str = "", at_ms: int | None = None) -> TimersPage:
    """The wheel and what stands around it."""
    found, seen = of_timers.timers(zoom, at_ms), eyes()
    first = _timers_seen(found.first, seen, masks())
    if not seen.see_all and not first.rows and first.cursor:
        more = timer_list(first.wanted, first.cursor, of_timers.PAGE_COUNT)
        first = replace(more, left_out=first.left_out + more.left_out)
    found = replace(found, first=first)
    return found if seen.see_all else without_names(found, seen)


def without_names(found: TimersPage, seen: Eyes) -> TimersPage:
    """The page without topics that are not seen."""
    forecast = found.forecast and replace(
        found.forecast,
        herds=tuple(
            replace(herd, topics=tuple(pair for pair in herd.topics if seen.topic(pair[0])))
            for herd in found.forecast.herds
        ),
    )
    return replace(
        found,
        topics=seen.rows(found.topics, lambda row: row.topic),
        topics_left=0,
        lateness=found.lateness and replace(found.lateness, topic=""),
        forecast=forecast,
    )


def timer_list(wanted: TimerFilter, cursor: str | None = None, count: int = of_timers.PAGE_COUNT) -> TimerList:
    """Pending timers."""
    seen, hide, passed = eyes(), masks(), 0
    for _page in range(MOST_PAGES):
        found = _timers_seen(of_timers.timer_list(wanted, cursor, count), seen, hide)
        passed, cursor = passed + found.left_out, found.cursor
        if found.rows or cursor is None or not found.left_out:
            break
    return replace(found, left_out=passed)


def timer_life(position: int) -> TimerLife:
    """One timer; what is not known of a timer that is gone is not seen either."""
    found, seen = of_timers.timer_life(position), eyes()
    if not seen.see_all and not found.evidence.stale and not (found.timer and seen.topic(found.timer.topic)):
        raise Http404(_("There is no such timer."))
    return replace(found, timer=found.timer and masks().row(found.timer, found.timer.topic))


def transactions() -> TransactionsPage:
    """The board and the first of each list; groups and addresses name producers, whose topics nobody tells."""
    found, seen, hide = of_transactions.transactions(), eyes(), masks()
    board = found.board and replace(found.board, halves=hide.rows(found.board.halves))
    found = replace(
        found,
        board=board,
        open=_first_seen(found.open, seen, hide),
        parked=_first_seen(found.parked, seen, hide),
        decided=_first_seen(found.decided, seen, hide),
    )
    if seen.see_all:
        return found
    board = found.board and replace(
        found.board,
        # op records point at them: those that are not seen stay, without names
        halves=tuple(
            row if seen.topic(row.topic) else TransactionRow(row.offset, row.state) for row in found.board.halves
        ),
    )
    return replace(
        found,
        groups=(),
        addresses=(),
        board=board,
    )


def transaction_list(
    wanted: TransactionFilter, after: int | None = None, count: int = of_transactions.PAGE_COUNT
) -> TransactionList:
    """A page of one state."""
    seen, hide, passed = eyes(), masks(), 0
    for _page in range(MOST_PAGES):
        found = _transactions_seen(of_transactions.transaction_list(wanted, after, count), seen, hide)
        passed, after = passed + found.left_out, found.following
        if found.rows or after is None or not found.left_out:
            break
    return replace(found, left_out=passed)


def transaction_life(position: int) -> TransactionLife:
    """One transaction."""
    found, seen = of_transactions.transaction_life(position), eyes()
    if not seen.see_all and found.row is not None and not seen.topic(found.row.topic):
        raise Http404(_("There is no such transaction."))
    return replace(found, row=found.row and masks().row(found.row, found.row.topic))


def halves_named(key: str) -> tuple[TransactionRow, ...]:
    """Transactions with this key."""
    return masks().rows(eyes().rows(half_keys.halves_named(key), lambda row: row.topic))


def delayed_queues(search: str = "", offset: int = 0) -> QueuesPage:
    """Redisson's queues."""
    return of_delayed_queues.delayed_queues(search, offset, eyes())


def delayed_queue(name: str, **asked: Any) -> QueuePage:
    """One of them; the topic that it is handed to may be one that is not seen."""
    seen = eyes()
    if not seen.queue(name):
        raise Http404(_("There is no such queue."))
    found, hide = of_delayed_queues.delayed_queue(name, **asked), masks()
    found = replace(found, values=hide.rows(found.values, name), upcoming=hide.rows(found.upcoming, name))
    if found.handing is None or seen.topic(found.handing.topic):
        return found
    return replace(found, handing=replace(found.handing, topic="…"))


def _timers_seen(found: TimerList, seen: Eyes, hide: Masks) -> TimerList:
    rows = seen.rows(found.rows, lambda row: row.topic)
    return replace(found, rows=hide.rows(rows), left_out=len(found.rows) - len(rows))


def _first_seen(found: TransactionList, seen: Eyes, hide: Masks) -> TransactionList:
    """The first of a list; where all of them are others', the first further on."""
    first = _transactions_seen(found, seen, hide)
    if seen.see_all or first.rows or not first.left_out:
        return first
    more = transaction_list(found.wanted)
    return replace(more, rows=more.rows[: of_transactions.FIRST_COUNT], max_checks=first.max_checks)


def _transactions_seen(found: TransactionList, seen: Eyes, hide: Masks) -> TransactionList:
    rows = seen.rows(found.rows, lambda row: row.topic)
    return replace(found, rows=hide.rows(rows), left_out=len(found.rows) - len(rows))
