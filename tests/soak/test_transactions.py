"""R12 at size: a hundred thousand random transactions in the simulator, ten thousand with PostgreSQL; all may crash."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.transactions import Simulation
from tests.outbox.random_transactions import gamble
from tests.outbox.random_worker import KINDS
from tests.soak.test_soak import fresh_seed

pytestmark = pytest.mark.soak

STORES, TRANSACTIONS = 1_000, 100
REAL = 10_000


def test_a_hundred_thousand_transactions_keep_every_promise(say):
    tried: Counter[str] = Counter()
    first = fresh_seed()
    for seed in range(first, first + STORES):
        simulation = Simulation(seed)
        try:
            simulation.run(TRANSACTIONS)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        tried += simulation.ledger.tried
    say(
        f"R12: {STORES * TRANSACTIONS:,} transactions in {STORES:,} stores from seed {first} on, 0 violations, "
        f"{dict(tried)}"
    )


def test_ten_thousand_transactions_with_postgresql_keep_every_promise(say, tmp_path: Path, postgres: str):
    seed = fresh_seed()
    verdict = gamble(tmp_path, postgres, REAL, seed, broker_kills=5)
    found = verdict.faults()
    say(
        f"R12 with PostgreSQL: {REAL:,} transactions in {verdict.seconds:.0f} s, seed {seed}, violations {found or 0}, "
        f"parked and listed {verdict.parked}, kills {dict(verdict.kills)}, {dict(verdict.tried)}"
    )
    assert found == {}, f"seed {seed}"
    # what was rolled back in the database left nothing to count
    assert set(KINDS) - {"rollback"} <= set(verdict.tried)
