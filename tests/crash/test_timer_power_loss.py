"""Timers under power loss at write boundaries: none lost, none early, none twice, no cancelled one delivered."""

from __future__ import annotations

import random

import pytest

from broker.engine.testing import ManualClock, PowerLoss, SimulatedFiles
from broker.engine.testing.driver import open_engine

from .timerload import TimerLoad


def campaign(
    seed: int, steps: int, share: float, losses: int, nested_share: float, **config: object
) -> tuple[int, int]:
    """Run one workload; at a share of its write boundaries try ways to lose what was not synced."""
    files = SimulatedFiles()
    load = TimerLoad(seed, files, **config)
    draws = random.Random(seed + 1)
    counts = [0, 0]

    def attempt(loss: PowerLoss) -> None:
        disk = files.crash(loss)
        now_ms = load.clock.now_ms + draws.choice((0, 1, 700, 5_000, 90_000))
        if draws.random() < nested_share:
            halves: list[SimulatedFiles] = []
            half_loss = PowerLoss("random", draws.randrange(1 << 30))
            disk.on_change = lambda: halves.append(disk.crash(half_loss))
            driver = open_engine(disk, clock=ManualClock(now_ms), **config)
            driver.tick()
            driver.upkeep()
            disk.on_change = None
            disk = draws.choice(halves) if halves else disk
        load.book.check(disk, now_ms, **config)
        counts[0] += 1

    def at_boundary() -> None:
        counts[1] += 1
        if draws.random() >= share:
            return
        recent = max(0, files.sequence - draws.randint(1, 8))
        kinds = [PowerLoss("kill"), PowerLoss("all"), PowerLoss("prefix", draws.randrange(1 << 30), recent)]
        kinds += [PowerLoss("random", draws.randrange(1 << 30)) for _ in range(losses)]
        for loss in kinds:
            try:
                attempt(loss)
            except Exception as error:
                where = f"seed {seed}, steps {steps}, operation {files.sequence}, {loss}, {config}"
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error

    files.on_change = at_boundary
    load.run(steps)
    return counts[0], counts[1]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_a_power_loss_loses_no_timer_and_repeats_none(flush, say):
    states = boundaries = 0
    for seed in range(3):
        tried, passed = campaign(seed, 25, 0.05, 2, 0.1, flush=flush)
        states, boundaries = states + tried, boundaries + passed
    say(f"R2 timers ({flush}): {states:,} crash states at {boundaries:,} boundaries, 0 violations")
    assert states >= 100


@pytest.mark.soak
def test_many_power_losses_lose_no_timer(say):
    states = boundaries = 0
    for seed in range(100, 120):
        tried, passed = campaign(seed, 40, 0.4, 4, 0.1)
        states, boundaries = states + tried, boundaries + passed
    say(f"R2 timers, long: {states:,} crash states at {boundaries:,} boundaries, 0 violations")
