"""A rehearsal counts what is there, tells damage, and releases, answers and changes nothing."""

from __future__ import annotations

from broker.backup.restoring import Rehearsal, rehearse, restore_directory
from broker.engine.testing import Driver, SimulatedFiles, open_engine

from .history import TOPIC, History
from .test_histories import back_up, silent

HOUR_MS = 3_600_000


def rehearsed(files: SimulatedFiles, now_ms: int) -> Rehearsal:
    restore = restore_directory
    return rehearse(files, "/rehearsal", lambda: restore(files, "/backup", "/rehearsal", told=silent), now_ms)


def filled(files: SimulatedFiles, **config: object) -> Driver:
    driver = open_engine(files, **config)
    driver.engine.topics.ensure(TOPIC, 1)
    for number in range(5):
        driver.send(TOPIC, b"%d" % number)
        driver.send(TOPIC, b"later", TIMER_DELIVER_MS=str(driver.clock.now_ms + 60_000))
        driver.send(TOPIC, b"soon", DELAY="1")
    driver.upkeep()
    driver.send(TOPIC, b"half", UNIQ_KEY="A", TRAN_MSG="true", PGROUP="payers")
    return driver


def test_what_is_overdue_is_counted_and_not_released() -> None:
    files = SimulatedFiles()
    driver = filled(files)
    position = back_up(files, driver.clock.now_ms).position
    before = {path: content for path, content in files.contents().items() if path.startswith("/store/")}
    found = rehearsed(files, driver.clock.now_ms + HOUR_MS)
    counts = found.counts
    assert (counts["messages"], counts["timers waiting"], counts["half messages open"]) == (5, 5, 1)
    assert counts["waiting in delay level 1"] == 5
    assert found.report.is_sound
    assert found.walked == 1
    after = open_engine(files, root="/rehearsal", clock=driver.clock)
    assert after.engine.health().log_end_position == position, "nothing was appended"
    assert before == {path: content for path, content in files.contents().items() if path.startswith("/store/")}


def test_a_demonstration_is_rehearsed_by_its_own_clock() -> None:
    files = SimulatedFiles()
    driver = filled(files, is_simulated=True)
    back_up(files, driver.clock.now_ms)
    found = rehearsed(files, driver.clock.now_ms + 1_000 * HOUR_MS)
    assert found.counts["timers waiting"] == 5
    assert found.report.is_sound


def test_damage_that_was_backed_up_is_told() -> None:
    files = SimulatedFiles()
    history = History(5, files)
    history.run(40)
    history.send()
    history.driver.close()
    files.flip("/store/commitlog/00000000000000000000", 8 * 100)
    back_up(files, history.clock.now_ms)
    found = rehearsed(files, history.clock.now_ms)
    assert not found.report.is_sound
    assert "no sound record" in str(found.report.damages[0])
