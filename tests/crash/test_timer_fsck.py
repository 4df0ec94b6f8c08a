"""fsck calls nothing of the timers damaged that a kill or a power loss left behind, as the next start mends it."""

from __future__ import annotations

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.testing import PowerLoss, SimulatedFiles

from .timerload import TimerLoad

#: Courses in which the first wheel was cut off before it was in its place, and a file of the timer log was removed.
SEEDS = (0, 2, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_stop_leaves_of_the_timers_at_any_write_boundary_is_no_damage(seed: int) -> None:
    files = SimulatedFiles()
    load = TimerLoad(seed, files)
    checked = 0

    def at_boundary() -> None:
        nonlocal checked
        for loss in (PowerLoss("kill"), PowerLoss("all")):
            report = check_store(files.crash(loss), "/store")
            bad = [str(damage) for damage in report.damages if "/timer" in damage.path]
            assert bad == [], f"operation {files.sequence}, {loss}"
            checked += 1

    files.on_change = at_boundary
    load.run(30)
    assert checked >= 200


def test_a_wheel_that_is_gone_or_another_one_is_damage_still() -> None:
    files = SimulatedFiles()
    TimerLoad(0, files).run(30)
    disk = files.crash(PowerLoss("kill"))
    assert check_store(disk, "/store").is_sound
    disk.flip("/store/timerwheel", 8 * 40)
    assert any(damage.path == "/store/timerwheel" for damage in check_store(disk, "/store").damages)
    disk.remove("/store/timerwheel")
    assert any(damage.path == "/store/timerwheel" for damage in check_store(disk, "/store").damages)
