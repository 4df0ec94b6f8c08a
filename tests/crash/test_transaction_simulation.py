"""R12: random transactions with crashes anywhere: no half is lost, none is visible too early, none twice."""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy

import pytest

from broker.engine.testing import ManualClock, PowerLoss, open_engine

from .transactions import Simulation

#: Small stores, so that a crash is looked at as a whole; `make soak` plays a hundred times as many.
STORES, TRANSACTIONS = 4, 100


@pytest.mark.parametrize("part", range(3))
def test_random_transactions_keep_every_promise_whatever_crashes(part, say):
    tried: Counter[str] = Counter()
    for seed in range(part * STORES, (part + 1) * STORES):
        simulation = Simulation(seed)
        try:
            simulation.run(TRANSACTIONS)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        tried += simulation.ledger.tried
    say(f"R12: {STORES * TRANSACTIONS:,} transactions in {STORES} stores, 0 violations, {dict(tried)}")
    assert tried["crash"] > STORES
    assert tried["cut while writing"] > 0
    assert tried["halves together"] > 0
    assert tried["decided together"] > STORES


def look_after(simulation: Simulation, loss: PowerLoss, draws: random.Random) -> None:
    """Start again on what a power loss leaves now: every promise is kept."""
    ledger, disk = deepcopy(simulation.ledger), simulation.files.crash(loss)
    clock = ManualClock(simulation.clock.now_ms + draws.choice((0, 1, 40_000)))
    try:
        driver = open_engine(disk, clock=clock, **simulation.config)
        ledger.check(driver)
        ledger.finish(driver)
    except Exception as error:
        at = f"operation {simulation.files.sequence}, {loss}"
        raise AssertionError(f"{at}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_power_loss_at_any_write_keeps_every_promise(flush, say):
    """R2 with transactions: each boundary of a short story, four ways to lose what was not synced."""
    states = boundaries = 0
    draws = random.Random(7)
    simulation = Simulation(3, flush=flush)

    def at_boundary() -> None:
        nonlocal states, boundaries
        boundaries += 1
        losses = [PowerLoss("kill")]
        if flush == "sync":  # else nothing is promised before the next checkpoint
            losses += [PowerLoss("all"), *(PowerLoss("random", draws.randrange(1 << 30)) for _ in range(2))]
        for loss in losses:
            look_after(simulation, loss, draws)
            states += 1

    simulation.files.on_change = at_boundary
    simulation.run(20, crashes=False, cuts=False)
    say(f"R2 with transactions ({flush}): {states:,} crash states at {boundaries:,} boundaries, 0 violations")
    assert states > 150


def test_a_power_loss_at_any_write_of_a_crowd_of_one_read_keeps_every_promise() -> None:
    """So many that halves, and their copies, are made column by column."""
    simulation, draws, states = Simulation(3, sync_batch_bytes=8 << 20), random.Random(7), []

    def at_boundary() -> None:
        for loss in (
            PowerLoss("kill"),
            PowerLoss("all"),
            *(PowerLoss("random", draws.randrange(99)) for _ in range(3)),
        ):
            look_after(simulation, loss, draws)
            states.append(loss)

    simulation.files.on_change = at_boundary
    for _ in range(2):
        keys = simulation.begin_crowd(9)
        simulation.driver.settle()
        simulation.durable()
        simulation.decide_crowd(keys)
        simulation.driver.settle()
        simulation.durable()
    simulation.keep_up()
    simulation.files.on_change = None
    simulation.finish()
    assert len(states) > 30
