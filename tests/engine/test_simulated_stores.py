"""A store lives by a simulated clock from its first message on, or never."""

from __future__ import annotations

import pytest

from broker.engine.engine import Engine
from broker.engine.errors import StoreUnsupported
from broker.engine.log.checkpoint import CLOCK_MARK, note_reached, reached_ms
from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine

ROOT = open_engine().engine.config.root


def test_a_store_with_the_mark_is_refused_by_a_real_broker() -> None:
    files = SimulatedFiles()
    open_engine(files, is_simulated=True).close()
    assert files.exists(f"{ROOT}/{CLOCK_MARK}")
    with pytest.raises(StoreUnsupported, match="ESCAPEMENT_SIMULATED_CLOCK set"):
        open_engine(files)
    open_engine(files, is_simulated=True).close()


def test_a_store_without_the_mark_is_refused_by_a_simulated_broker_and_stays_as_it_is() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("T", 1)
    driver.send("T", b"x")
    driver.close()
    with pytest.raises(StoreUnsupported, match="a directory of its own"):
        open_engine(files, is_simulated=True)
    assert not files.exists(f"{ROOT}/{CLOCK_MARK}")
    assert isinstance(open_engine(files).engine, Engine)


def test_the_moment_that_was_reached_outlives_power_loss() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, is_simulated=True)
    assert reached_ms(files, ROOT) == driver.clock.now_ms
    note_reached(files, ROOT, driver.clock.now_ms + 3_600_000)
    assert reached_ms(files.crash(PowerLoss("all")), ROOT) == driver.clock.now_ms + 3_600_000
    assert reached_ms(SimulatedFiles(), ROOT) is None
