"""fsck of transactions: what a crash left half done is named, a second copy is damage."""

from __future__ import annotations

from broker.engine.fsck.store import check_store
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.engine.transaction.decision import Ending
from tests.engine.transacting import begin, end, transacting


def committed(files: SimulatedFiles) -> Driver:
    driver = transacting(files)
    for number, commit in enumerate((True, False)):
        end(driver, begin(driver, key=f"K{number}"), commit=commit)
    begin(driver, key="K2")
    return driver


def test_a_sound_store_is_found_sound_and_counted() -> None:
    files = SimulatedFiles()
    committed(files).close()
    report = check_store(files, "/store")
    assert (report.damages, report.unfinished) == ([], [])
    assert (report.counts["half messages"], report.counts["decisions"]) == (3, 2)


def test_a_copy_without_its_op_record_is_unfinished_until_the_next_start() -> None:
    files = SimulatedFiles()
    driver = committed(files)
    half = begin(driver, key="K3")
    driver.engine.transactions.table.recent.drop(half.queue_offset)  # so that the copy is appended at once
    driver.engine.transactions.end(Ending(half.queue_offset, half.position, True, "p"), driver.clock.now_ms)
    job = driver.engine._store.take_sync()
    assert job is not None
    job.run()
    files = files.crash(PowerLoss("kill"))
    report = check_store(files, "/store")
    assert [damage.start for damage in report.unfinished if "op record" in damage.why] == [half.position]
    driver = open_engine(files, clock=ManualClock())
    driver.tick()
    driver.close()
    report = check_store(files, "/store")
    assert (report.damages, report.unfinished) == ([], [])


def test_a_second_copy_is_damage() -> None:
    files = SimulatedFiles()
    driver = committed(files)
    half = driver.readable("RMQ_SYS_TRANS_HALF_TOPIC")[0]
    driver.engine._intake.commit_half(half, driver.clock.now_ms)
    driver.settle()
    driver.close()
    (damage,) = check_store(files, "/store").damages
    assert "second copy" in damage.why
