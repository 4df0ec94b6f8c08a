"""Faults of whole segments that the campaigns found once, each in its smallest form."""

from __future__ import annotations

from broker.engine.disk.chain import Chain
from broker.engine.testing import PowerLoss, SimulatedFiles


def test_a_power_loss_while_segments_behind_the_end_are_removed_leaves_no_gap_between_them():
    files = SimulatedFiles()
    chain = Chain(files, "/store/commitlog", 1024)
    for number in range(5):
        chain.add(number * 1024)
    seen: set[tuple[int, ...]] = set()

    def at_boundary() -> None:
        for seed in range(40):
            disk = files.crash(PowerLoss("random", seed))
            seen.add(tuple(Chain(disk, "/store/commitlog", 1024).segments()))

    files.on_change = at_boundary
    chain.clear_from(100)
    assert seen == {tuple(range(0, count * 1024, 1024)) for count in range(1, 6)}
