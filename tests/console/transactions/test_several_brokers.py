"""Transactions of two real brokers: in total, merged by time, each with its own page; one of them dead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.test import Client

from broker.client import Decision, TransactionProducer, prepare
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.site.evidence import StaleReason
from console.site.merged import Place
from tests.console.several import A, B, Several
from tests.console.ui.test_pages import words
from tests.waiting import until

Payers = dict[str, TransactionProducer]


@pytest.fixture
def payers(brokers: Several) -> Iterator[Payers]:
    """A producer at each broker that never knows."""
    with ExitStack() as open_ones:
        yield {
            name: open_ones.enter_context(
                TransactionProducer("payers", brokers[name].namesrv, check=lambda _: Decision.UNKNOWN)
            )
            for name in (A, B)
        }


@pytest.fixture
def filled(brokers: Several, payers: Payers) -> list[tuple[str, str]]:
    """Nine halves, now here, now there, of which the first four are committed; as (broker, key)."""
    sent = []
    for number in range(9):
        name = B if number % 3 == 1 else A
        half = payers[name].send_half("orders", prepare(f"{number}", keys=[f"pay-{number}"]))
        if number < 4:
            payers[name].commit(half)
        sent.append((name, f"pay-{number}"))
    until(lambda: len(transactions_pages.read_transactions().decided.rows) == 4)
    return sent


def listed(state: str, count: int) -> list[TransactionRow]:
    """All pages of a list."""
    rows: list[TransactionRow] = []
    after: Place | None = None
    while True:
        page = transactions_pages.read_transaction_list(TransactionFilter(state), after, count)
        assert len(page.rows) <= count
        rows.extend(page.rows)
        after = page.following
        if after is None:
            return rows


@pytest.mark.parametrize("count", [1, 2, 100])
def test_lists_are_merged_by_time_whatever_the_size_of_a_page(
    brokers: Several, filled: list[tuple[str, str]], count: int
) -> None:
    opened = listed("open", count)
    assert sorted((row.broker, row.name) for row in opened) == sorted(filled[4:])
    assert [row.store_ms for row in opened] == sorted(row.store_ms or 0 for row in opened)
    decided = listed("decided", count)
    assert sorted((row.broker, row.offset) for row in decided) == [(A, 0), (A, 1), (A, 2), (B, 0)]
    moments = [row.decided_ms or 0 for row in decided]
    assert moments == sorted(moments, reverse=True)


def test_the_page_adds_up_and_has_a_board_for_each(
    brokers: Several, operator: Client, filled: list[tuple[str, str]]
) -> None:
    data = transactions_pages.read_transactions()
    assert (data.figures.open, data.figures.half_total, data.figures.commit_total) == (5, 9, 4)
    assert data.figures.took_count == 4
    assert [(row.group, row.open) for row in data.groups] == [("payers", 5)]
    assert [(name, len(board.halves) if board else None) for name, board in data.boards] == [(A, 6), (B, 3)]
    page = operator.get("/transactions/")
    text = page.content.decode()
    for row in data.open.rows:
        assert f'href="/at/{row.broker}/transactions/{row.position}/"' in text
    assert "Half and op messages of broker-b" in words(page)
    own = words(operator.get("/at/broker-a/transactions/"))
    assert "Half and op messages of" not in own


def test_a_row_leads_to_the_page_of_its_broker(
    brokers: Several, operator: Client, filled: list[tuple[str, str]]
) -> None:
    page = operator.get("/transactions/list/").content.decode()
    for row in listed("open", 100):
        address = f"/at/{row.broker}/transactions/{row.position}/"
        assert f'href="{address}"' in page
        assert f'value="{row.offset}-{row.position}-{row.broker}"' in page
        assert row.name in operator.get(address).content.decode()
    assert "data-select-all" in operator.get("/at/broker-b/transactions/list/").content.decode()
    found = operator.get("/find/key/?q=pay-7")
    assert found["Location"].startswith("/at/broker-b/transactions/")


def test_a_dead_broker_takes_no_page_with_it(brokers: Several, operator: Client, filled: list[tuple[str, str]]) -> None:
    brokers[B].stop()
    data = transactions_pages.read_transactions()
    assert data.figures.open == 3
    assert (data.evidence.stale_reason, data.evidence.stale_of) == (StaleReason.BROKER_UNREACHABLE, (B,))
    assert {row.broker for row in listed("open", 2)} == {A}
    assert "(broker-b)" in words(operator.get("/transactions/list/"))
