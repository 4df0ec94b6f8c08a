"""R12 at size: a hundred thousand random transactions in the simulator, with crashes anywhere."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.crash.transactions import Simulation
from tests.soak.test_soak import fresh_seed

pytestmark = pytest.mark.soak

STORES, TRANSACTIONS = 1_000, 100


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
    say(f"R12: {STORES * TRANSACTIONS:,} transactions in {STORES:,} stores, 0 violations, {dict(tried)}")
