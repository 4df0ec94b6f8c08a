"""A short life of everything at once against our broker, under faults of a seed; the long form is `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.checker import check
from tests.reliability.history import read
from tests.reliability.lives import Promises
from tests.reliability.run import Course, live
from tests.reliability.spoiling import WAYS, spoiled

#: What needs no disk of its own, and nothing that is not there on any machine.
EVERYWHERE = ("kill", "restart", "stop", "clock", "cut", "mute")


@pytest.mark.parametrize("seed", [2])
async def test_a_broker_keeps_its_promises_under_the_faults_of_a_seed(seed: int, tmp_path: Path) -> None:
    report = await live(Course("escapement", seed, faults=3, kinds=EVERYWHERE), tmp_path)
    assert report.verdict.violations == [], report.details()
    counts = report.verdict.counts
    assert counts["accepted"] > 100, report.line()
    for fate in ("delivered", "dead", "cancelled", "rolled back", "pending"):
        assert counts[fate], f"nothing was {fate}: {report.line()}"
    with report.history.open() as lines:
        events = list(read(lines))
    for kind, history in spoiled(events).items():
        assert kind in check(history, Promises()).kinds(), f"a history that is spoiled by {kind!r} passes"
    assert spoiled(events).keys() == WAYS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6002])
async def test_so_it_does_with_members_that_come_and_go_and_two_faults_together(seed: int, tmp_path: Path) -> None:
    course = Course("escapement", seed, faults=3, kinds=EVERYWHERE, together=True, members=3)
    report = await live(course, tmp_path)
    assert report.verdict.violations == [], report.details()
    assert any(fault.into is not None for fault in report.faults)
