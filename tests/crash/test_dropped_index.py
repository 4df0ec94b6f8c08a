"""An index that cannot be trusted is dropped and built again; a crash in between leaves none of it to be trusted."""

from __future__ import annotations

from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine


def test_no_part_of_a_dropped_index_is_taken_for_the_whole() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    for number in range(60):
        driver.send("orders", b"x", UNIQ_KEY=f"{number:032X}")
    driver.clock.advance(6_000)
    driver.upkeep()
    names = files.list("/store/index")
    assert len(names) > 2
    middle = f"/store/index/{names[1]}"
    files.replace(middle, files.contents()[middle][:-1])
    cut: list[SimulatedFiles] = []
    broken = files.crash(PowerLoss("kill"))
    broken.on_change = lambda: cut.extend(broken.crash(PowerLoss("random", seed)) for seed in range(40))
    open_engine(broken, clock=driver.clock)
    assert cut
    for number, disk in enumerate(cut):
        again = open_engine(disk, clock=driver.clock)
        for key in range(60):
            found = again.engine.find("orders", f"{key:032X}", begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=0)
            assert len(found) == 1, f"cut {number}: key {key} is found {len(found)} times"
