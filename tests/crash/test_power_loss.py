"""R2: whatever a power loss takes, every promise is kept."""

from __future__ import annotations

import pytest

from broker.engine.testing import PowerLoss, SimulatedFiles

from .powerloss import Campaign
from .workload import Workload

#: The tests of this file try 20,000 crash states, a third each.
THIRD = 6_700


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_nothing_promised_is_lost_by_a_power_loss_at_any_write_boundary(flush, say):
    campaign = Campaign(random_losses=6, config={"flush": flush})
    campaign.run(seed=0, steps=20)
    say(campaign.report(f"R2 ({flush}, seed 0)"))
    assert campaign.states >= THIRD


#: Courses of 25 steps that failed once.
KEPT = ((817294733, "async"),)


@pytest.mark.parametrize(("seed", "flush"), KEPT)
def test_a_course_that_failed_once_does_not_fail_again(seed, flush, say):
    campaign = Campaign(config={"flush": flush})
    campaign.run(seed, steps=25)
    say(campaign.report(f"R2 ({flush}, seed {seed})"))
    assert campaign.states >= THIRD


def test_an_offset_counts_as_saved_only_when_it_was():
    """A clock that was set back to just before the last save puts the next one off by a second."""
    files = SimulatedFiles()
    workload = Workload(0, files)
    workload.keep_up()
    workload.clock.advance(-6_000)
    workload.commit_offset()
    workload.keep_up()
    assert workload.oracle.saved == {}
    workload.oracle.check(files.crash(PowerLoss("kill")), workload.clock.now_ms)
    workload.keep_up()
    assert workload.oracle.saved == workload.oracle.committed != {}
    workload.oracle.check(files.crash(PowerLoss("kill")), workload.clock.now_ms)
