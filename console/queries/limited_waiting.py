"""The same as limited.py, of what waits: lanes, timers, transactions, Redisson's queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from console.features.redisson import read as of_delayed_queues
from console.features.redisson.shapes import QueuePage, QueuesPage
from console.features.schedule import lane as schedule_lane
from console.features.schedule import read as schedule_read
from console.features.schedule.shapes import LanePage, Lanes
from console.features.timers import read as of_timers
from console.features.timers.shapes import TimerFilter, TimerLife, TimerList, TimersPage
from console.features.transactions import keys as transactions_keys
from console.features.transactions import read as of_transactions
from console.features.transactions.shapes import (
    GroupRow,
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
    TransactionState,
)
from console.security.masking import Masks, masks
from console.security.topic_scope import Eyes, eyes
from console.site.reading_on import PATIENCE_S, fill

#: for each list of a page that has several, and is drawn again and again
FIRST_S = 0.5
#: undecided halves that the table of producer groups counts for somebody who sees some topics only
MOST_COUNTED = 1_000


def lanes() -> Lanes:
    """All lanes: counts and moments, no names."""
    return schedule_read.lanes()


def highest_level() -> int:
    """The number of the last level."""
    return schedule_read.highest_level()


def lane(level: int, offset: int | None = None, count: int = schedule_lane.PAGE_COUNT) -> LanePage:
    """A page of one lane."""
    seen, hide = eyes(), masks()
    found = schedule_lane.lane(level, offset, count, None if seen.see_all else lambda row: seen.topic(row.real_topic))
    return replace(found, messages=tuple(hide.row(row, row.real_topic) for row in found.messages))


def timers(zoom: str = "", at_ms: int | None = None) -> TimersPage:
    """The wheel and what stands around it."""
    seen = eyes()
    if seen.see_all:
        found = of_timers.timers(zoom, at_ms)
        return replace(found, first=replace(found.first, rows=masks().rows(found.first.rows)))
    found = of_timers.timers(zoom, at_ms, seen.topic)
    first = timer_list(found.first.wanted, count=of_timers.FIRST_COUNT, patience_s=FIRST_S)
    return without_names(replace(found, first=first), seen)


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
        # of a moment that is past: so many were not kept, his perhaps among them
        topics_left=found.topics_left,
        lateness=found.lateness and replace(found.lateness, topic=""),
        forecast=forecast,
    )


def timer_list(
    wanted: TimerFilter, cursor: str | None = None, count: int = of_timers.PAGE_COUNT, *, patience_s: float = PATIENCE_S
) -> TimerList:  # fmt: skip
    """Pending timers."""
    seen, hide = eyes(), masks()
    if seen.see_all:
        page = of_timers.timer_list(wanted, cursor, count)
        return replace(page, rows=hide.rows(page.rows))
    if wanted.topic and not seen.topic(wanted.topic):
        page = of_timers.timer_list(wanted, cursor, 1)
        return replace(page, rows=(), cursor=None, complete=True)
    found = fill(
        lambda place, step: of_timers.timer_list(wanted, place, step), lambda page: (page.rows, page.cursor),
        lambda row: seen.topic(row.topic), cursor, count, patience_s=patience_s,
    )  # fmt: skip
    is_whole = found.page.complete or bool(found.looked)
    return replace(
        found.page, rows=hide.rows(found.rows), cursor=found.following, complete=is_whole, looked=found.looked
    )


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
    lists = {name: getattr(found, name) for name in ("open", "parked", "decided")}
    if seen.see_all:
        return replace(
            found, board=board, **{name: replace(page, rows=hide.rows(page.rows)) for name, page in lists.items()}
        )
    undecided = _halves_seen(lists["open"].wanted, None, MOST_COUNTED, seen, hide, FIRST_S)
    lists["open"] = _first(undecided, lists["open"])
    for name in ("parked", "decided"):
        mine = _halves_seen(lists[name].wanted, None, of_transactions.FIRST_COUNT, seen, hide, FIRST_S)
        lists[name] = _first(mine, lists[name])
    found = replace(found, board=board, **lists)
    board = found.board and replace(
        found.board,
        # op records point at them: those that are not seen stay, without names
        halves=tuple(
            row if seen.topic(row.topic) else TransactionRow(row.offset, row.state) for row in found.board.halves
        ),
    )
    return replace(
        found,
        groups=() if found.polled else _groups_of(undecided),
        addresses=(),
        board=board,
    )


def transaction_list(
    wanted: TransactionFilter, after: int | None = None, count: int = of_transactions.PAGE_COUNT
) -> TransactionList:
    """A page of one state."""
    seen, hide = eyes(), masks()
    if seen.see_all:
        page = of_transactions.transaction_list(wanted, after, count)
        return replace(page, rows=hide.rows(page.rows))
    return _halves_seen(wanted, after, count, seen, hide)


def transaction_life(position: int) -> TransactionLife:
    """One transaction."""
    found, seen = of_transactions.transaction_life(position), eyes()
    if not seen.see_all and found.row is not None and not seen.topic(found.row.topic):
        raise Http404(_("There is no such transaction."))
    return replace(found, row=found.row and masks().row(found.row, found.row.topic))


def halves_named(key: str) -> tuple[TransactionRow, ...]:
    """Transactions with this key."""
    return masks().rows(transactions_keys.halves_named(key, eyes().topic))


def delayed_queues(search: str = "", offset: int = 0) -> QueuesPage:
    """Redisson's queues."""
    return of_delayed_queues.delayed_queues(search, offset, eyes().queue)


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


def _halves_seen(
    wanted: TransactionFilter, after: int | None, count: int, seen: Eyes, hide: Masks, patience_s: float = PATIENCE_S
) -> TransactionList:  # fmt: skip
    """A page of those that are seen."""
    if wanted.topic and not seen.topic(wanted.topic):
        page = of_transactions.transaction_list(wanted, after, 1)
        return replace(page, rows=(), following=None)
    found = fill(
        lambda place, step: of_transactions.transaction_list(wanted, place, step),
        lambda page: (page.rows, page.following), lambda row: seen.topic(row.topic), after, count,
        patience_s=patience_s,
    )  # fmt: skip
    return replace(found.page, rows=hide.rows(found.rows), following=found.following, looked=found.looked)


def _first(found: TransactionList, drawn: TransactionList) -> TransactionList:
    """As many as the first page shows."""
    return replace(found, rows=found.rows[: of_transactions.FIRST_COUNT], max_checks=drawn.max_checks)


def _groups_of(undecided: TransactionList) -> tuple[GroupRow, ...]:
    """Producer groups of halves that are seen, those with most of them first; others' halves do not count."""
    halves: dict[str, list[TransactionRow]] = {}
    for row in undecided.rows:
        halves.setdefault(row.group, []).append(row)
    rows = [
        GroupRow(
            group, len(mine), sum(row.state is TransactionState.DUE for row in mine),
            len({client for row in mine for client in row.producers or ()}),
        )
        for group, mine in halves.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.open, row.group))[: of_transactions.GROUPS])
