"""The figure of how fast timers are released, after any loss of power while it is saved: an old one, the new one, or
none; and never a store that does not open."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from broker.engine.testing import Fault, PowerLoss, SimulatedFiles, open_engine

PATH = "/store/escapement.pace"
FIGURES = (10_000.0, 20_000.0, 30_000.0)


def told(files: SimulatedFiles) -> float | None:
    return open_engine(files).engine.timers.pace.capacity_per_s


def test_power_loss_at_every_boundary_leaves_a_figure_that_was_measured() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    saved: list[float | None] = [None]
    found: set[float | None] = set()

    def at_boundary() -> None:
        """What was saved last may be read, or what is being saved; nothing older, and nothing else."""
        measured = driver.engine.timers.pace.capacity_per_s
        losses = [PowerLoss("kill"), PowerLoss("all"), *(PowerLoss("random", seed) for seed in range(4))]
        for loss in losses:
            figure = told(files.crash(loss))
            assert figure in {saved[-1], measured}, (files.sequence, loss)
            found.add(figure)

    for figure in FIGURES:
        driver.engine.self_tested(figure, driver.clock.advance(2_000))
        files.on_change = at_boundary
        driver.upkeep()
        files.on_change = None
        saved.append(figure)
    assert found == {None, *FIGURES}


@pytest.mark.parametrize("step", [1, 7])
def test_a_flipped_bit_costs_one_figure_at_most(step: int) -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    for figure in FIGURES:
        driver.engine.self_tested(figure, driver.clock.advance(2_000))
        driver.upkeep()
    for bit in range(0, 8 * len(files.contents()[PATH]), 5 * step):
        disk = files.crash(PowerLoss("kill"))
        disk.flip(PATH, bit)
        assert told(disk) == FIGURES[-2]


@pytest.mark.parametrize("call", ["open", "write", "sync", "rename"])
def test_a_disk_that_is_full_while_it_is_saved_keeps_the_one_before(call: Any) -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.self_tested(FIGURES[0], driver.clock.advance(2_000))
    driver.upkeep()
    driver.engine.self_tested(FIGURES[1], driver.clock.advance(2_000))
    files.fail(Fault(call, error=errno.ENOSPC, forever=True, path_part="escapement.pace"))
    driver.upkeep()
    assert told(files.crash(PowerLoss("kill"))) in FIGURES[:2]
    files.fail()
    driver.clock.advance(2_000)
    driver.upkeep()
    assert told(files.crash(PowerLoss("all"))) == FIGURES[1]
