"""R2: whatever a power loss takes, every promise is kept."""

from __future__ import annotations

import pytest

from .powerloss import Campaign


@pytest.mark.slow
@pytest.mark.parametrize(("flush", "workloads"), [("sync", 2), ("async", 1)])
def test_nothing_promised_is_lost_by_a_power_loss_at_any_write_boundary(flush, workloads, say):
    campaign = Campaign(config={"flush": flush})
    for seed in range(workloads):
        campaign.run(seed, steps=25)
    say(campaign.report(f"R2 ({flush})"))
    assert campaign.states >= 1_000
