"""R1: the engine against its model, courses drawn by Hypothesis (the same ones in every run)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import EngineMachine


def test_the_engine_and_its_model_never_differ(say):
    chosen = settings(
        max_examples=60,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(EngineMachine, settings=chosen)
    say("R1: 60 courses of up to 40 steps, 0 divergences")
