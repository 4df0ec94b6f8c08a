"""Transactions against a ledger of promises: any order of everything that may happen to them."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.crash.transactions import Simulation

STEPS = (
    "begin",
    "decide",
    "repeat",
    "contradict",
    "forge",
    "let_time_pass",
    "keep_up",
    "keep_up_in_flight",
    "restart",
    "crash",
)


class TransactionMachine(RuleBasedStateMachine):
    """Each rule is a step of the simulation; the ledger is checked with every start, and at the end."""

    @initialize(seed=st.integers(0, 1 << 20), flush=st.sampled_from(("sync", "sync", "async")))
    def open(self, seed: int, flush: str) -> None:
        self.simulation = Simulation(seed, flush=flush)
        self.flush = flush

    @rule(step=st.sampled_from(STEPS), seed=st.integers(0, 1 << 20))
    def step(self, step: str, seed: int) -> None:
        self.simulation.random = random.Random(seed)
        if self.flush == "async" and step in ("crash", "keep_up_in_flight"):
            step = "restart"  # nothing is promised there before a checkpoint
        self.simulation.cuts = self.flush == "sync"
        getattr(self.simulation, step)()

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            self.simulation.finish()


def test_transactions_keep_every_promise_in_any_order(say):
    chosen = settings(
        max_examples=40,
        stateful_step_count=25,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(TransactionMachine, settings=chosen)
    say("R1 with transactions: 40 courses of up to 25 steps, 0 broken promises")
