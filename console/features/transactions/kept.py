"""What is told from snapshots of the transactions of brokers that are away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from console.features.transactions.shapes import TransactionFigures, TransactionsPage
from console.last_known import Away, last_known

PART = "transactions"


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
