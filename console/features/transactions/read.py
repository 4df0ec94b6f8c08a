"""Reads the Transactions pages from the broker; on an Apache RocketMQ broker, what can be pulled there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.client import Admin, BrokerRefused
from broker.client.transactions import TransactionStatus
from console.features.checkback.read import address_rows
from console.features.transactions import apache_records
from console.features.transactions.board import BOARD_REQUESTS, Pulled, board_of, pulled
from console.features.transactions.rows import life_of, page_of
from console.features.transactions.shapes import (
    FIRST_COUNT,
    PAGE_COUNT,
    Board,
    GroupRow,
    LifeEvent,
    TransactionFigures,
    TransactionFilter,
    TransactionLife,
    TransactionList,
    TransactionRow,
    TransactionsPage,
)
from console.site.broker import Answer, ask
from console.site.evidence import Evidence, StaleReason
from console.site.mirrored import Mirrored, mirrored

LIST, LIFE, STATUS = 14_010, 14_012, 14_013
#: groups in the table, those with most open halves first
GROUPS = 16
#: decisions that the time to decide is taken from
DECISIONS = 100
#: requests for one page of a filtered list: the broker looks at so many halves for one answer
MOST_ASKED = 3
#: ResponseCode.QUERY_NOT_FOUND
_NOT_FOUND = 22


def transactions() -> TransactionsPage:
    """The first page."""
    here = mirrored()
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return apache_records.transactions(here)
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


def transaction_sums() -> TransactionsPage:
    """The first page's figures alone, without how long decisions took."""
    here = mirrored()
    status, evidence = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return apache_records.transactions(here)
    nothing = TransactionList(evidence, here.now_ms, TransactionFilter("open"), (), None)
    return TransactionsPage(
        evidence=evidence, now_ms=here.now_ms, broker=here.name, figures=_figures(status, ()), groups=(), open=nothing,
        parked=nothing, decided=nothing, board=None,
    )  # fmt: skip


def transaction_list(
    wanted: TransactionFilter, after: int | None = None, count: int = PAGE_COUNT
) -> TransactionList:  # fmt: skip
    """A page of open, parked (oldest half first) or decided ones (newest decision first)."""
    here = mirrored()
    found = _list(here, wanted, after, count, None)
    if found.evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return apache_records.transaction_list(here, wanted, after, count)
    status, _ = _ask(lambda admin: admin.transaction_status(), here, STATUS)
    return replace(found, max_checks=status.max_checks if status else None)


def transaction_life(position: int) -> TransactionLife:
    """One transaction by the position of its half."""
    here = mirrored()
    address = here.broker.address if here.broker else ""
    found, evidence = _ask(lambda admin: _life(admin, position, address), here, LIFE)
    if evidence.stale_reason is StaleReason.NOT_SUPPORTED:
        return apache_records.transaction_life(here, position)
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
    for _ in range(MOST_ASKED - 1):
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
        return found, [row for rows, _ in pages for row in rows]

    answer, evidence = ask(look, source=here.name, requests=(*BOARD_REQUESTS, LIST))
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
