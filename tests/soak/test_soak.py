"""The long form of the crash and property tests, `make soak`. Each run draws seeds of its own; a failure names them."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.crash.flips import FlipCampaign
from tests.crash.killing import kill_in_a_loop
from tests.crash.powerloss import Campaign
from tests.crash.test_rot import attack, our_store, their_store
from tests.properties.machine import EngineMachine

pytestmark = pytest.mark.soak

#: for each way to flush: with the timers and the transactions a million and more
STATES = 500_000
MUTANTS_PER_FILE = 200
FLIPPED_STORES, FLIPS_OF_A_STORE = 100, 1_000


def fresh_seed() -> int:
    """Return a seed of its own for this run; a failure names it."""
    return random.SystemRandom().randrange(1 << 30)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_power_loss_at_every_boundary_of_many_workloads(flush, say):
    campaign = Campaign(random_losses=20, config={"flush": flush})
    seed = fresh_seed()
    while campaign.states < STATES:
        campaign.run(seed + campaign.workloads, steps=30)
    say(campaign.report(f"R2 ({flush}, seed {seed})"))


@pytest.mark.parametrize("number", range(4))
def test_much_damage_to_our_own_stores(number, say):
    seed = fresh_seed()
    campaign = our_store(seed)
    attack(campaign, seed=seed, per_file=MUTANTS_PER_FILE)
    say(campaign.report(f"R6 (ours, {number}, seed {seed})"))


@pytest.mark.parametrize("name", ["plain", "crc", "delay_levels"])
def test_much_damage_to_what_apache_rocketmq_derived(name, say):
    seed = fresh_seed()
    campaign = their_store(name)
    attack(campaign, seed=seed, per_file=MUTANTS_PER_FILE, spare="/commitlog/")
    say(campaign.report(f"R6 ({name}, seed {seed})"))


def test_a_hundred_thousand_flipped_bits_are_named_or_have_no_effect(say):
    first, outcomes = fresh_seed(), Counter()
    for seed in range(first, first + FLIPPED_STORES):
        campaign = FlipCampaign(seed, is_aged=seed % 3 == 0)
        campaign.run(FLIPS_OF_A_STORE, random.Random(seed))
        outcomes += campaign.outcomes
    say(f"R6 (everything): {outcomes.total():,} bits flipped in stores {first} and on, 0 violations, {dict(outcomes)}")


def test_long_courses_of_the_model(say):
    chosen = settings(
        max_examples=20_000,
        stateful_step_count=80,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(EngineMachine, settings=chosen)
    say("R1: 20,000 courses of up to 80 steps, 0 divergences")


def test_a_broker_killed_many_times_under_load_loses_nothing(tmp_path, say):
    say(kill_in_a_loop(tmp_path, cycles=200, seed=fresh_seed()))
