"""How fast timers are released: measured under load or by a self-test, kept over a restart, and wanted when quiet."""

from __future__ import annotations

from typing import Any

import pytest

from broker.engine.engine import Engine
from broker.engine.testing import Driver, SimulatedFiles, open_engine
from broker.engine.timer.pace import QUIET_MS, SCRATCH, Measured, packed, unpacked

PATH = "/store/escapement.pace"


def pace_of(engine: Engine) -> tuple[object, object, object]:
    status = engine.timers.status(0)
    return status["capacityPerS"], status["capacityAtMs"], status["capacityHow"]


def loaded(driver: Driver, *, ticks: int = 12, step_ms: int = 20, count: int = 1_000) -> None:
    """What the releaser says of a herd that keeps it busy."""
    pace = driver.engine.timers.pace
    for number in range(ticks):
        pace.released(driver.clock.advance(step_ms), count, more=number < ticks - 1)


def again(driver: Driver, files: SimulatedFiles, **config: Any) -> Driver:
    driver.close()
    return open_engine(files, clock=driver.clock, **config)


def test_a_figure_under_load_says_when_and_how() -> None:
    driver = open_engine()
    assert pace_of(driver.engine) == (None, None, None)
    loaded(driver)
    # the last tick had nothing more to do: the one before it says how fast
    assert pace_of(driver.engine) == (50_000.0, driver.clock.now_ms - 20, "load")


def test_the_tick_that_ends_a_herd_does_not_make_it_slower() -> None:
    driver = open_engine()
    pace = driver.engine.timers.pace
    for _ in range(6):
        pace.released(driver.clock.advance(25), 1_000, more=True)
    pace.released(driver.clock.advance(25), 0, more=False)
    assert pace.capacity_per_s == 40_000.0


def test_a_short_burst_says_nothing() -> None:
    driver = open_engine()
    loaded(driver, ticks=3)
    assert pace_of(driver.engine) == (None, None, None)


@pytest.mark.parametrize("clean", [True, False])
def test_what_was_measured_is_kept_over_a_restart(clean: bool) -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    loaded(driver)
    told = pace_of(driver.engine)
    if clean:
        driver = again(driver, files)
    else:
        driver.upkeep()
        driver = open_engine(killed(files), clock=driver.clock)
    assert pace_of(driver.engine) == told


def killed(files: SimulatedFiles) -> SimulatedFiles:
    after = SimulatedFiles()
    after.load(files.contents())
    return after


def test_the_last_figure_counts_however_it_was_found() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    loaded(driver)
    driver.engine.self_tested(41_000.04, driver.clock.advance(5))
    assert pace_of(driver.engine) == (41_000.0, driver.clock.now_ms, "self_test")
    driver = again(driver, files)
    loaded(driver)
    assert pace_of(driver.engine)[2] == "load"


def test_a_figure_that_moves_under_load_is_saved_once_a_minute() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    loaded(driver)
    driver.upkeep()
    first = files.contents()[PATH]
    loaded(driver, count=2_000)
    driver.clock.advance(2_000)
    driver.upkeep()
    assert files.contents()[PATH] == first
    driver.clock.advance(60_000)
    driver.upkeep()
    assert unpacked(files.contents()[PATH])[0].per_s == 100_000


def test_a_self_test_is_saved_at_once() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    for per_s in (1_000, 2_000):
        driver.engine.self_tested(per_s, driver.clock.advance(1_000))
        driver.upkeep()
        assert unpacked(files.contents()[PATH])[0].per_s == per_s


def test_a_figure_of_the_other_way_to_flush_is_left_out() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, flush="async")
    driver.engine.self_tested(90_000, driver.clock.now_ms)
    driver = again(driver, files)
    assert pace_of(driver.engine) == (None, None, None)
    driver = again(driver, files, flush="async")
    assert pace_of(driver.engine)[0] == 90_000


def test_a_figure_by_a_simulated_clock_is_not_kept() -> None:
    files = SimulatedFiles()
    driver = open_engine(files, is_simulated=True)
    driver.engine.self_tested(90_000, driver.clock.now_ms)
    driver.close()
    assert PATH not in files.contents()


def test_a_figure_of_a_newer_version_is_nothing_known() -> None:
    files = SimulatedFiles()
    content = packed(Measured(5.0, 7, "load"), "sync").replace(b"ESCPACE1", b"ESCPACE2")
    files.load({PATH: content})
    assert pace_of(open_engine(files).engine) == (None, None, None)


def test_what_is_packed_is_unpacked() -> None:
    for flush in ("sync", "async"):
        for measured in (Measured(123_456.7, 1_795_247_527_000, "load"), Measured(0.1, 0, "self_test")):
            assert unpacked(packed(measured, flush)) == (measured, flush)  # type: ignore[arg-type]  # the values are those of the Literal


def test_no_flipped_bit_makes_another_figure() -> None:
    content = packed(Measured(50_000.0, 7, "load"), "sync")
    for bit in range(8 * len(content)):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="figure"):
            unpacked(bytes(wrong))


# When a self-test is wanted.


def wanted_after(driver: Driver, seconds: int) -> list[bool]:
    return [driver.engine.wants_self_test(driver.clock.advance(1_000)) for _ in range(seconds)]


def test_a_self_test_is_wanted_once_it_was_quiet() -> None:
    driver = open_engine()
    assert wanted_after(driver, 6) == [False] * 5 + [True]
    driver.engine.self_tested(5.0, driver.clock.now_ms)
    assert wanted_after(driver, 12) == [False] * 12


def test_a_kept_figure_needs_no_self_test() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.self_tested(5.0, driver.clock.now_ms)
    assert wanted_after(again(driver, files), 12) == [False] * 12


def test_who_sends_much_is_left_alone_and_who_sends_little_does_not_matter() -> None:
    driver = open_engine(segment_size_bytes=1 << 20, max_body_bytes=64 << 10)
    driver.engine.topics.ensure("orders", 2)
    assert driver.engine.wants_self_test(driver.clock.now_ms) is False
    for _ in range(8):
        for number in range(5):
            driver.send("orders", bytes(60 << 10), queue_id=number % 2)
        assert driver.engine.wants_self_test(driver.clock.advance(1_000)) is False
    found = []
    for _ in range(QUIET_MS // 1_000 + 1):
        driver.send("orders", b"x")
        found.append(driver.engine.wants_self_test(driver.clock.advance(1_000)))
    assert found[-1] or found[-2]


def test_a_clock_that_is_set_back_begins_anew() -> None:
    driver = open_engine()
    wanted_after(driver, 4)
    driver.clock.advance(-60_000)
    assert wanted_after(driver, 6)[:5] == [False] * 5


def test_a_full_disk_and_a_failed_store_are_not_measured() -> None:
    files = SimulatedFiles(capacity_bytes=1 << 20)
    driver = open_engine(files)
    driver.upkeep()
    files.capacity_bytes = files.used_bytes() + 1
    driver.clock.advance(2_000)
    driver.upkeep()
    assert wanted_after(driver, 12) == [False] * 12
    with pytest.raises(Exception, match="full"):
        driver.engine.admit_self_test()


# What a crash leaves.


def test_what_a_killed_self_test_left_goes_with_the_next_start() -> None:
    files = SimulatedFiles()
    open_engine(files).close()
    files.load({f"/store/{SCRATCH}/commitlog/00000000000000000000": b"x" * 99, f"/store/{SCRATCH}/lock": b"lock"})
    driver = open_engine(files)
    assert not [path for path in files.contents() if SCRATCH in path]
    assert driver.engine.health().state == "OK"
