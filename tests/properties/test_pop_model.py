"""The pop machine, courses drawn by Hypothesis (the same ones in every run)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .orderlymodel import OrderlyMachine
from .popmodel import PopMachine


def test_popping_and_its_model_never_differ(say):
    chosen = settings(
        max_examples=60,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(PopMachine, settings=chosen)
    say("pops: 60 courses of up to 40 steps, 0 divergences")


def test_popping_in_order_and_its_model_never_differ(say):
    chosen = settings(
        max_examples=60,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OrderlyMachine, settings=chosen)
    say("pops in order: 60 courses of up to 40 steps, 0 divergences")
