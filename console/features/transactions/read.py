"""Read transactions from the broker, for pages and operations; of an Apache RocketMQ broker, what can be pulled."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _

from broker.client import Admin, BrokerRefused, NotSupported, RouteNotFound
from broker.client.transactions import TransactionStatus
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.checkback.registry import address_rows
from console.features.transactions import records
from console.features.transactions.records import (
    REQUESTS,
    Pulled,
    board_of,
    matches,
    offset_id,
    pulled,
    read_newest,
    row_of,
)
from console.features.transactions.shapes import (
    FIRST_COUNT,
    PAGE_COUNT,
    Board,
    GroupRow,
    LifeEvent,
    TransactionEvent,
    TransactionFigures,
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
    TransactionState,
)
from console.security.masking import Masks, masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import Answer, ask
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Mirrored, mirrored
from console.site.reading_on import PATIENCE_S, fill

LIST, LIFE, STATUS = 14_010, 14_012, 14_013
#: groups in the table, those with most open halves first
GROUPS = 16
#: decisions that the time to decide is taken from
DECISIONS = 100
#: for each list of the first page, which is drawn again and again
FIRST_S = 0.5
#: undecided halves that the table of producer groups counts for somebody who sees some topics only
MOST_COUNTED = 1_000
#: requests for one page of a filtered list: the broker looks at so many halves for one answer
MOST_ASKED = 3
#: by key, transaction by position
KEY_REQUESTS = (12, 14_011)
#: of one key; records that are looked through for them
MOST_OF_KEY, LOOKED_OF_KEY = 64, 256
#: ResponseCode.QUERY_NOT_FOUND
_NOT_FOUND = 22
#: rows of one request, the broker's own limit
PAGE = 1_000
#: how far the broker's clock may be behind the console's
_CLOCKS_APART_MS = 10_000


@authorised
def transactions(scope: TopicScope) -> TransactionsPage:
    """Return the board, and the first of each list."""
    return _seen_page(scope, _page_now())


def _page_now() -> TransactionsPage:
    here = mirrored()
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transactions(here)
    most = status.max_checks if status else None
    decided = _list(here, TransactionFilter("decided"), None, DECISIONS, most)
    return TransactionsPage(
        evidence=evidence,
        now_ms=here.now_ms,
        broker=here.name,
        figures=_figures(status, decided.rows),
        groups=tuple(GroupRow(row.group, row.open, row.due, row.producers) for row in status.groups[:GROUPS])
        if status
        else (),
        open=_list(here, TransactionFilter("open"), None, FIRST_COUNT, most),
        parked=_list(here, TransactionFilter("parked"), None, FIRST_COUNT, most),
        decided=replace(decided, rows=decided.rows[:FIRST_COUNT]),
        board=_board(here, decided.rows),
        addresses=address_rows(),
    )


def _seen_page(scope: TopicScope, found: TransactionsPage) -> TransactionsPage:
    """The page as far as it is seen; groups and addresses name producers, whose topics nobody tells."""
    hide = masks()
    board = found.board and replace(found.board, halves=hide.rows(found.board.halves))
    if scope.see_all:
        every, parked, decided = (
            replace(page, rows=hide.rows(page.rows)) for page in (found.open, found.parked, found.decided)
        )
        return replace(found, board=board, open=every, parked=parked, decided=decided)
    undecided = _seen_list(scope, hide, found.open.wanted, None, MOST_COUNTED, FIRST_S)
    parked = _seen_list(scope, hide, found.parked.wanted, None, FIRST_COUNT, FIRST_S)
    decided = _seen_list(scope, hide, found.decided.wanted, None, FIRST_COUNT, FIRST_S)
    if board is not None:
        # op records point at halves: those that are not seen stay, without names
        halves = (row if scope.topic(row.topic) else TransactionRow(row.offset, row.state) for row in board.halves)
        board = replace(board, halves=tuple(halves))
    return replace(
        found,
        groups=() if found.polled else _groups_of(undecided),
        addresses=(),
        open=_first(undecided, found.open),
        parked=_first(parked, found.parked),
        decided=_first(decided, found.decided),
        board=board,
    )


def _seen_list(
    scope: TopicScope,
    hide: Masks,
    wanted: TransactionFilter,
    after: int | None,
    count: int,
    patience_s: float = PATIENCE_S,
) -> TransactionList:
    """A page of those that are seen."""
    if wanted.topic and not scope.topic(wanted.topic):
        page = _listed(wanted, after, 1)
        return replace(page, rows=(), following=None)
    found = fill(
        lambda place, step: _listed(wanted, place, step),
        lambda page: (page.rows, page.following),
        lambda row: scope.topic(row.topic),
        after,
        count,
        patience_s=patience_s,
    )
    return replace(found.page, rows=hide.rows(found.rows), following=found.following, looked=found.looked)


def _first(found: TransactionList, drawn: TransactionList) -> TransactionList:
    """Return as many rows as the first page shows."""
    return replace(found, rows=found.rows[:FIRST_COUNT], max_checks=drawn.max_checks)


def _groups_of(undecided: TransactionList) -> tuple[GroupRow, ...]:
    """Producer groups of halves that are seen, those with most of them first; others' halves do not count."""
    halves: dict[str, list[TransactionRow]] = {}
    for row in undecided.rows:
        halves.setdefault(row.group, []).append(row)
    rows = []
    for group, mine in halves.items():
        due = sum(row.state is TransactionState.DUE for row in mine)
        producers = len({client for row in mine for client in row.producers or ()})
        rows.append(GroupRow(group, len(mine), due, producers))
    return tuple(sorted(rows, key=lambda row: (-row.open, row.group))[:GROUPS])


@authorised
def transaction_sums(_scope: TopicScope) -> TransactionsPage:
    """Return the first page's figures alone, without how long decisions took: they are everybody's."""
    here = mirrored()
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transactions(here)
    nothing = TransactionList(evidence, here.now_ms, TransactionFilter("open"), (), None)
    return TransactionsPage(
        evidence=evidence, now_ms=here.now_ms, broker=here.name, figures=_figures(status, ()), groups=(), open=nothing,
        parked=nothing, decided=nothing, board=None,
    )  # fmt: skip


@authorised
def transaction_list(
    scope: TopicScope, wanted: TransactionFilter, after: int | None = None, count: int = PAGE_COUNT
) -> TransactionList:
    """Return a page of open, parked (oldest half first) or decided ones (newest decision first)."""
    hide = masks()
    if scope.see_all:
        page = _listed(wanted, after, count)
        return replace(page, rows=hide.rows(page.rows))
    return _seen_list(scope, hide, wanted, after, count)


def _listed(wanted: TransactionFilter, after: int | None, count: int) -> TransactionList:
    here = mirrored()
    found = _list(here, wanted, after, count, None)
    if found.evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transaction_list(here, wanted, after, count)
    status, _evidence = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    return replace(found, max_checks=status.max_checks if status else None)


@authorised
def transaction_life(scope: TopicScope, position: int) -> TransactionLife:
    """Return one transaction by the position of its half; raises Http404 for one that is not seen."""
    found = _life_at(position)
    if not scope.see_all and found.row is not None and not scope.topic(found.row.topic):
        raise Http404(_("There is no such transaction."))
    return replace(found, row=found.row and masks().row(found.row, found.row.topic))


def _life_at(position: int) -> TransactionLife:
    here = mirrored()
    address = here.broker.address if here.broker else ""
    found, evidence = _ask(lambda admin: _life(admin, position, address), here, LIFE)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transaction_life(here, position)
    row, events, most = found or (None, (), None)
    return TransactionLife(evidence, here.now_ms, position, row, events, most)


def _life(
    admin: Admin, position: int, address: str
) -> tuple[TransactionRow | None, tuple[LifeEvent, ...], int | None]:  # fmt: skip
    most = admin.transaction_status().max_checks
    try:
        return *life_of(admin, position, address), most
    except BrokerRefused as error:
        if error.code == _NOT_FOUND:
            return None, (), most
        raise


def _ask(question: Callable[[Admin], Answer], here: Mirrored, request: int) -> tuple[Answer | None, Evidence]:
    return ask(question, source=here.name, requests=(request,))


def _list(
    here: Mirrored, wanted: TransactionFilter, after: int | None, count: int, most: int | None
) -> TransactionList:  # fmt: skip
    found, evidence = _ask(lambda admin: _page(admin, wanted, here.now_ms, after, count), here, LIST)
    rows, following = found or ([], None)
    return TransactionList(evidence, here.now_ms, wanted, tuple(rows), following, most)


def _page(
    admin: Admin, wanted: TransactionFilter, now_ms: int, after: int | None, count: int
) -> tuple[list[TransactionRow], int | None]:  # fmt: skip
    rows, following = page_of(admin, wanted, now_ms=now_ms, after=after, count=count)
    for _again in range(MOST_ASKED - 1):
        if rows or following is None:
            break
        rows, following = page_of(admin, wanted, now_ms=now_ms, after=following, count=count)
    return rows, following


def _board(here: Mirrored, decided: Sequence[TransactionRow]) -> Board | None:
    """Pulled from both topics; what the broker lists of the same halves says more and is taken instead."""

    def look(admin: Admin) -> tuple[Pulled, list[TransactionRow]]:
        found = pulled(admin)
        if not found.halves:
            return found, []
        before, count = found.halves[0].queue_offset - 1, len(found.halves)
        pages = [
            page_of(admin, TransactionFilter(state), now_ms=here.now_ms, after=before, count=count)
            for state in ("open", "parked")
        ]
        return found, [row for rows, _following in pages for row in rows]

    answer, evidence = ask(look, source=here.name, requests=(*REQUESTS, LIST))
    return board_of(evidence, answer[0], [*decided, *answer[1]]) if answer is not None else None


def _figures(status: TransactionStatus | None, decided: Sequence[TransactionRow]) -> TransactionFigures:
    if status is None:
        return TransactionFigures()
    took = sorted(row.took_ms for row in decided if row.took_ms is not None)
    return TransactionFigures(
        open=status.open,
        parked=status.parked,
        oldest_store_ms=status.oldest_store_ms,
        next_check_ms=status.next_check_ms,
        timeout_ms=status.timeout_ms,
        interval_ms=status.interval_ms,
        max_checks=status.max_checks,
        half_total=status.half_total,
        commit_total=status.commit_total,
        rollback_total=status.rollback_total,
        check_total=status.check_total,
        took_p50_ms=took[(len(took) - 1) // 2] if took else None,
        took_p99_ms=took[min(len(took) - 1, len(took) * 99 // 100)] if took else None,
        took_count=len(took),
    )


def transactions_mark(_: str) -> Hashable:
    """Return what changes with whatever is open or became of it; one small request instead of the page's ten."""

    def mark(admin: Admin) -> Hashable:
        told = admin.transaction_status()
        counted = (told.half_total, told.commit_total, told.rollback_total, told.check_total, told.parked_total)
        groups = tuple((row.group, row.open, row.due, row.producers) for row in told.groups)
        return told.open, told.parked, told.oldest_store_ms, told.next_check_ms, counted, groups

    found, _evidence = ask(mark, source="", requests=())
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """What was found. `undecided`: open and parked ones of the whole broker; None: not told."""

    now_ms: int
    rows: Sequence[TransactionRow]
    #: all that match were found
    is_whole: bool = True
    #: from the newest records of an Apache RocketMQ broker
    is_polled: bool = False
    #: of named ones: each in its order, None for one that is not there
    named: Sequence[TransactionRow | None] = ()
    undecided: int | None = None


def find_matching(admin: Admin, wanted: TransactionFilter, *, most: int, patience_s: float | None) -> Found:
    """All that match, at most `most`; raises ClientError."""
    begun_ms = now_ms()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    rows: list[TransactionRow] = []
    try:
        status = admin.transaction_status()
        for page in pages_of(admin, wanted, now_ms=begun_ms):
            rows += [row for row in page if row.is_undecided and row.position is not None]
            if len(rows) >= most or (end_s is not None and time.monotonic() > end_s):
                return Found(status.now_ms, rows[:most], is_whole=False, undecided=status.open + status.parked)
    except NotSupported:
        newest = read_newest(admin)
        rows = [row for row in newest.rows if matches(row, wanted)]
        is_whole = len(newest.halves) >= newest.halves_total
        return Found(begun_ms, rows[:most], is_whole, is_polled=True)
    return Found(status.now_ms, rows, undecided=status.open + status.parked)


def find_named(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> Found:
    """Each of them, as it is now; raises ClientError."""
    begun_ms = now_ms()
    try:
        status = admin.transaction_status()
    except NotSupported:
        known = {row.position: row for row in read_newest(admin).rows}
        named = [known.get(target["position"]) for target in targets]
        return Found(begun_ms, [row for row in named if row is not None], is_polled=True, named=named)
    named = [_one(admin, target["position"]) for target in targets]
    rows = [row for row in named if row is not None]
    return Found(status.now_ms, rows, named=named, undecided=status.open + status.parked)


def _one(admin: Admin, position: int) -> TransactionRow | None:
    try:
        return row_of(admin.transaction(position=position))
    except BrokerRefused as error:
        if error.code == _NOT_FOUND:
            return None
        raise


@authorised
def halves_named(scope: TopicScope, key: str) -> tuple[TransactionRow, ...]:
    """Return transactions with this key or unique id as they are now, the newest first; none if the broker does not
    answer."""
    found, _evidence = ask(lambda admin: _named(admin, key, scope.topic), source=mirrored().name, requests=KEY_REQUESTS)
    return masks().rows(found or ())


def _named(admin: Admin, key: str, is_seen: Callable[[str], bool]) -> list[TransactionRow]:
    try:
        halves = admin.messages_by_key(HALF_TOPIC, key, LOOKED_OF_KEY)
    except RouteNotFound:
        return []
    halves = [half for half in halves if is_seen(half.properties.get(REAL_TOPIC, ""))][:MOST_OF_KEY]
    targets = [{"offset": half.queue_offset, "position": half.position} for half in halves]
    return [row for row in find_named(admin, targets).named if row is not None]


def page_of(
    admin: Admin, wanted: TransactionFilter, *, now_ms: int, after: int | None, count: int
) -> tuple[list[TransactionRow], int | None]:  # fmt: skip
    """A page of one state, and where the next begins; it may be short and yet have a next.

    The broker is asked by age, and its clock is another one: asked for a little more, what is too new is left out here.
    """
    found = admin.transactions(
        _asked(wanted.state),
        after=after,
        count=min(count, PAGE),
        group=wanted.group,
        topic=wanted.topic,
        older_than_ms=None if wanted.before_ms is None else max(0, now_ms - wanted.before_ms - _CLOCKS_APART_MS),
    )
    rows = [row_of(each) for each in found.items]
    return [row for row in rows if wanted.takes(row)], found.following


def pages_of(admin: Admin, wanted: TransactionFilter, *, now_ms: int) -> Iterator[list[TransactionRow]]:
    """Yield all pages of one state."""
    after: int | None = None
    while True:
        rows, after = page_of(admin, wanted, now_ms=now_ms, after=after, count=PAGE)
        yield rows
        if after is None:
            return


def life_of(admin: Admin, position: int, store_address: str) -> tuple[TransactionRow, tuple[LifeEvent, ...]]:
    """One transaction by its half's position, and its events; raises BrokerRefused (22: no such half)."""
    found = admin.transaction(position=position)
    events = tuple(
        LifeEvent(
            kind=TransactionEvent(event.kind),
            ms=event.at_ms,
            position=event.position,
            count=event.count,
            by=event.by,
            reason=event.reason,
            topic=event.topic or "",
            queue_id=event.queue_id,
            queue_offset=event.queue_offset,
            message_id=offset_id(store_address, event.position) if event.kind in ("delivered", "scheduled") else "",
        )
        for event in found.life
    )
    return row_of(found), events


def _asked(state: str) -> Any:
    return state if state in ("open", "parked", "decided") else "open"
