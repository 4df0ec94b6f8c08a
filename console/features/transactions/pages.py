"""Transactions: both queues side by side, what is undecided, parked and decided, and the life of one.

They are read from the broker; of an Apache RocketMQ broker, what can be pulled there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client import Admin, BrokerRefused
from broker.client.transactions import TransactionStatus
from broker.rocketmq import codes
from console.features.checkback.registry import address_rows
from console.features.transactions import records, total
from console.features.transactions.records import REQUESTS, Pulled, board_of, offset_id, pulled, row_of
from console.features.transactions.shapes import (
    FIRST_COUNT,
    PAGE_COUNT,
    TRANSACTIONS,
    Board,
    GroupRow,
    LifeEvent,
    OwnHalves,
    TransactionEvent,
    TransactionFigures,
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
    TransactionState,
)
from console.operations.typed_moments import bound_ms
from console.security.masking import Masks, masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import Answer as BrokerAnswer
from console.site.broker import ask, ask_each, read_each
from console.site.evidence import Evidence, StaleReason
from console.site.merged import LONGEST, Place, read_cursor
from console.site.mirrored import Cluster, Mirrored, cluster, mirrored
from console.site.parsing import whole_number
from console.site.reading_on import PATIENCE_S, Filled, fill
from console.ui.export import Answer, page_or_file
from console.ui.live import LiveKind
from console.ui.page_sizes import size_of

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
#: rows of one request, the broker's own limit
PAGE = 1_000
#: how far the broker's clock may be behind the console's
_CLOCKS_APART_MS = 10_000
#: who did not answer is not asked again for the same page
AWAY = frozenset({StaleReason.BROKER_UNREACHABLE, StaleReason.BROKER_SLOW})
STATES = ("open", "parked", "decided")


@authorised
def read_transactions(scope: TopicScope, of: Cluster | None = None) -> TransactionsPage:
    """Return the board, and the first of each list; of the brokers that are chosen, unless `of` says otherwise."""
    of = of or cluster()
    return _seen_page(of, scope, _page_now(of))


def _page_now(of: Cluster) -> TransactionsPage:
    pages = read_each(_page_of, of)
    page = pages[0] if len(pages) == 1 else _in_total(pages, of)
    return replace(
        page,
        groups=page.groups[:GROUPS],
        open=replace(page.open, rows=page.open.rows[:FIRST_COUNT]),
        parked=replace(page.parked, rows=page.parked.rows[:FIRST_COUNT]),
        decided=replace(page.decided, rows=page.decided.rows[:FIRST_COUNT]),
        addresses=address_rows(),
    )


def _in_total(pages: Sequence[TransactionsPage], of: Cluster) -> TransactionsPage:
    known, away = total.with_last_known(pages)
    several = [page.figures for page in known]
    found = total.page_of_all(
        known,
        of.source,
        DECISIONS,
        lambda decided: total.figures_of(several, _took(TransactionFigures(), decided.rows)),
    )
    return replace(found, away=away)


def _page_of(here: Mirrored) -> TransactionsPage:
    """Return the page of one broker, with all its groups and decisions; one that is away is asked once."""
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, codes.Request.GET_TRANSACTION_STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transactions(here)
    if evidence.stale_reason in AWAY:
        return _nothing(here, evidence, None)
    most = status.max_checks if status else None
    decided = _list(here, TransactionFilter("decided"), None, DECISIONS, most)
    return replace(
        _nothing(here, evidence, status),
        figures=_took(_figures(status, here), decided.rows),
        open=_list(here, TransactionFilter("open"), None, FIRST_COUNT, most),
        parked=_list(here, TransactionFilter("parked"), None, FIRST_COUNT, most),
        decided=decided,
        board=_board(here, decided.rows),
    )


def _nothing(here: Mirrored, evidence: Evidence, status: TransactionStatus | None) -> TransactionsPage:
    """Return the page with what the status tells: figures and groups."""
    every, parked, decided = (
        TransactionList(evidence, here.now_ms, TransactionFilter(state), (), None) for state in STATES
    )
    groups = [
        GroupRow(row.group, row.open, row.due, row.producers, 0 if row.producers else row.open)
        for row in (status.groups if status else ())
    ]
    return TransactionsPage(
        evidence=evidence, now_ms=here.now_ms, broker=here.name, figures=_figures(status, here), groups=tuple(groups),
        open=every, parked=parked, decided=decided, board=None,
    )  # fmt: skip


def _seen_page(of: Cluster, scope: TopicScope, found: TransactionsPage) -> TransactionsPage:
    """Return the page as far as it is seen; groups and addresses name producers, whose topics are not known."""
    hide = masks()
    board = _seen_board(scope, hide, found.board)
    boards = tuple((name, _seen_board(scope, hide, each)) for name, each in found.boards)
    if scope.see_all:
        every, parked, decided = (
            replace(page, rows=hide.rows(page.rows)) for page in (found.open, found.parked, found.decided)
        )
        return replace(found, board=board, boards=boards, open=every, parked=parked, decided=decided)
    undecided = _seen_list(of, scope, hide, found.open.wanted, None, MOST_COUNTED, FIRST_S)
    parked = _seen_list(of, scope, hide, found.parked.wanted, None, MOST_COUNTED, FIRST_S)
    decided = _seen_list(of, scope, hide, found.decided.wanted, None, FIRST_COUNT, FIRST_S)
    return replace(
        found,
        groups=() if found.polled else _groups_of(undecided),
        addresses=(),
        open=_first(undecided, found.open),
        parked=_first(parked, found.parked),
        decided=_first(decided, found.decided),
        board=board,
        boards=boards,
        own=_own(undecided, parked),
    )


def _own(undecided: TransactionList, parked: TransactionList) -> OwnHalves:
    """Return the figures of seen halves, from lists that were looked through as far as time allows."""

    def count(found: TransactionList) -> int | None:
        return None if not found.rows and (found.evidence.stale or found.following is not None) else len(found.rows)

    return OwnHalves(
        count(undecided),
        count(parked),
        min((row.store_ms for row in undecided.rows if row.store_ms), default=None),
        is_least=undecided.following is not None,
    )


def _seen_board(scope: TopicScope, hide: Masks, board: Board | None) -> Board | None:
    """Return the board with what is seen of it: op records point at halves, so others stay, without names."""
    if board is None:
        return None
    halves = hide.rows(board.halves)
    if not scope.see_all:
        halves = tuple(row if scope.topic(row.topic) else TransactionRow(row.offset, row.state) for row in halves)
    return replace(board, halves=halves)


def _seen_list(
    of: Cluster,
    scope: TopicScope,
    hide: Masks,
    wanted: TransactionFilter,
    after: Place | None,
    count: int,
    patience_s: float = PATIENCE_S,
) -> TransactionList:
    """Return a page of those that are seen."""
    if wanted.topic and not scope.topic(wanted.topic):
        page = _listed(of, wanted, after, 1)
        return replace(page, rows=(), following=None)

    def read(place: Place | None, step: int) -> TransactionList:
        return _listed(of, wanted, place, step)

    def rows_of(page: TransactionList) -> tuple[Sequence[TransactionRow], Place | None]:
        return page.rows, page.following

    found: Filled[TransactionList, Place, TransactionRow] = fill(
        read,
        rows_of,
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
    """Return producer groups of seen halves, those with most of them first; others' halves do not count."""
    halves: dict[str, list[TransactionRow]] = {}
    for row in undecided.rows:
        halves.setdefault(row.group, []).append(row)
    rows = []
    for group, mine in halves.items():
        due = sum(row.state is TransactionState.DUE for row in mine)
        producers = len({client for row in mine for client in row.producers or ()})
        rows.append(GroupRow(group, len(mine), due, producers, sum(row.is_alone for row in mine)))
    return tuple(sorted(rows, key=lambda row: (-row.open, row.group))[:GROUPS])


@authorised
def transaction_sums(_scope: TopicScope, of: Cluster | None = None) -> TransactionsPage:
    """Return the first page's figures alone, without how long decisions took: they are everybody's."""
    of = of or cluster()
    pages = read_each(_sums, of)
    page = pages[0] if len(pages) == 1 else _in_total(pages, of)
    return replace(page, groups=())


def _sums(here: Mirrored) -> TransactionsPage:
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, codes.Request.GET_TRANSACTION_STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transactions(here)
    return _nothing(here, evidence, status)


@authorised
def read_transaction_list(
    scope: TopicScope, wanted: TransactionFilter, after: Place | None = None, count: int = PAGE_COUNT
) -> TransactionList:
    """Return a page of open, parked (oldest half first) or decided ones (newest decision first)."""
    of, hide = cluster(), masks()
    if scope.see_all:
        page = _listed(of, wanted, after, count)
        return replace(page, rows=hide.rows(page.rows))
    return _seen_list(of, scope, hide, wanted, after, count)


def _listed(of: Cluster, wanted: TransactionFilter, after: Place | None, count: int) -> TransactionList:
    """Return a page of the list; that of several brokers has a cursor with a place for each."""
    if not of.has_several:
        begin = after if isinstance(after, int) else None
        return read_each(lambda here: _listed_of(here, wanted, begin, count), of)[0]
    places = (read_cursor(after) if isinstance(after, str) else None) or {}

    def read(here: Mirrored) -> TransactionList:
        place = places.get(here.name)
        if here.name in places and place is None:
            return TransactionList(here.evidence(polled_by=()), here.now_ms, wanted, (), None)
        return _listed_at(here, wanted, place, count)

    return total.list_of_all(read_each(read, of), of.names, places, of.source, count)


def _listed_of(here: Mirrored, wanted: TransactionFilter, after: int | None, count: int) -> TransactionList:
    found = _list(here, wanted, after, count, None)
    if found.evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transaction_list(here, wanted, after, count)
    return found if found.evidence.stale_reason in AWAY else _with_checks(here, found)


def _listed_at(here: Mirrored, wanted: TransactionFilter, place: Place | None, count: int) -> TransactionList:
    """Return a page of one broker at its place in a merged list."""
    begin, half = total.start_of(place)
    found = _list(here, wanted, begin, count, None)
    if found.evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transaction_list_at(here, wanted, place, count)
    if found.evidence.stale_reason in AWAY:
        return found
    return _with_checks(here, replace(found, rows=total.behind(found.rows, half)))


def _with_checks(here: Mirrored, found: TransactionList) -> TransactionList:
    status, _evidence = _ask(lambda admin: admin.transaction_status(), here, codes.Request.GET_TRANSACTION_STATUS)
    return replace(found, max_checks=status.max_checks if status else None)


@authorised
def read_transaction_life(scope: TopicScope, position: int) -> TransactionLife:
    """Return one transaction by the position of its half; raises Http404 for one that is not seen."""
    found = _life_at(position)
    if not scope.see_all and found.row is not None and not scope.topic(found.row.topic):
        raise Http404(_("There is no such transaction."))
    return replace(found, row=found.row and masks().row(found.row, found.row.topic))


def _life_at(position: int) -> TransactionLife:
    here = mirrored()
    address = here.broker.address if here.broker else ""
    found, evidence = _ask(lambda admin: _life(admin, position, address), here, codes.Request.GET_TRANSACTION)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return records.transaction_life(here, position)
    row, events, most = found or (None, (), None)
    return TransactionLife(evidence, here.now_ms, position, row and replace(row, broker=here.name), events, most)


def _life(admin: Admin, position: int, address: str) -> tuple[TransactionRow | None, tuple[LifeEvent, ...], int | None]:
    most = admin.transaction_status().max_checks
    try:
        return *life_of(admin, position, address), most
    except BrokerRefused as error:
        if error.code == codes.Answer.QUERY_NOT_FOUND:
            return None, (), most
        raise


def _ask(
    question: Callable[[Admin], BrokerAnswer], here: Mirrored, request: int
) -> tuple[BrokerAnswer | None, Evidence]:
    return ask(question, source=here.name, requests=(request,))


def _list(
    here: Mirrored, wanted: TransactionFilter, after: int | None, count: int, most: int | None
) -> TransactionList:
    found, evidence = _ask(
        lambda admin: _page(admin, wanted, here.now_ms, after, count), here, codes.Request.LIST_TRANSACTIONS
    )
    rows, following = found or ([], None)
    named = tuple(replace(row, broker=here.name) for row in rows)
    return TransactionList(evidence, here.now_ms, wanted, named, following, most)


def _page(
    admin: Admin, wanted: TransactionFilter, now_ms: int, after: int | None, count: int
) -> tuple[list[TransactionRow], int | None]:
    rows, following = page_of(admin, wanted, now_ms=now_ms, after=after, count=count)
    for _again in range(MOST_ASKED - 1):
        if rows or following is None:
            break
        rows, following = page_of(admin, wanted, now_ms=now_ms, after=following, count=count)
    return rows, following


def _board(here: Mirrored, decided: Sequence[TransactionRow]) -> Board | None:
    """Return the board pulled from both topics; where the broker lists the same halves, its list is taken instead."""

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

    answer, evidence = ask(look, source=here.name, requests=(*REQUESTS, codes.Request.LIST_TRANSACTIONS))
    return board_of(evidence, answer[0], [*decided, *answer[1]]) if answer is not None else None


def _figures(status: TransactionStatus | None, here: Mirrored) -> TransactionFigures:
    if status is None:
        return TransactionFigures()
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
        started_ms=here.broker.started_ms if here.broker is not None else None,
    )


def _took(figures: TransactionFigures, decided: Sequence[TransactionRow]) -> TransactionFigures:
    """Return the figures with how long these decisions took."""
    took = sorted(row.took_ms for row in decided if row.took_ms is not None)
    return replace(
        figures,
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

    return tuple(answer for _here, answer in ask_each(mark, cluster(), requests=())[0]) or None


def page_of(
    admin: Admin, wanted: TransactionFilter, *, now_ms: int, after: int | None, count: int
) -> tuple[list[TransactionRow], int | None]:
    """Return a page of one state, and where the next begins; it may be short and yet have a next.

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


def life_of(admin: Admin, position: int, store_address: str) -> tuple[TransactionRow, tuple[LifeEvent, ...]]:
    """Return one transaction by its half's position, and its events; raise BrokerRefused (22: no such half)."""
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


FAMILY = "transactions"
_LENGTHS = {"state": 16, "group": 255, "topic": 255, "before": 64}


@require_safe
def transactions(request: HttpRequest) -> HttpResponse:
    """Show the board, and the first of each list."""
    context = {"data": read_transactions(), "here": FAMILY, "live": FAMILY, "number": uuid.uuid4()}
    return render(request, "transactions/page.html", context)


@require_safe
def transaction_list(request: HttpRequest) -> Answer:
    """Show transactions of one state, page by page; rows, or all that match, can be acted on."""
    given = {name: request.GET.get(name, "").strip()[:length] for name, length in _LENGTHS.items()}
    if given["state"] not in STATES:
        given["state"] = STATES[0]
    errors: dict[str, str] = {}
    before_ms = bound_ms(given["before"], "before", errors, "back")
    wanted = TransactionFilter(given["state"], given["group"], given["topic"], before_ms)

    def page(place: Place | None) -> TransactionList:
        return read_transaction_list(wanted, place, size.count)

    size = size_of(request, PAGE_COUNT)
    after = request.GET.get("after", "")[:LONGEST]
    number = whole_number(after)
    data = page(number if number is not None else after or None)
    chosen: dict[str, str] = {name: text for name, text in given.items() if text}
    shown = size.shown(chosen)
    context: dict[str, Any] = {
        "data": data,
        "here": FAMILY,
        "given": given,
        "errors": errors,
        "away": total.away_at(data.evidence.stale_of),
        "states": STATES,
        "number": uuid.uuid4(),
        "size": size,
        "sizes": size.offered(chosen),
        "first_page": "?" + urlencode(shown),
        "next_page": None if data.following is None else "?" + urlencode({**shown, "after": str(data.following)}),
    }
    return page_or_file(
        request,
        "transactions/list.html",
        context,
        TRANSACTIONS[given["state"]],
        page,
        following=attrgetter("following"),
        status=422 if errors else 200,
    )


LIVE = {
    "transactions": LiveKind(
        lambda _, __: read_transactions(), frozenset({"queues", "transactions"}), mark=transactions_mark
    )
}
