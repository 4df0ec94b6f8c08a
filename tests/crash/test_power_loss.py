"""R2: whatever a power loss takes, every promise is kept."""

from __future__ import annotations

import random

import pytest

from .powerloss import Campaign


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_nothing_promised_is_lost_by_a_power_loss_at_any_write_boundary(flush, say):
    campaign = Campaign(random_losses=1, config={"flush": flush})
    campaign.run(seed=0, steps=20)
    say(campaign.report(f"R2 ({flush})"))
    assert campaign.states >= 1_000


@pytest.mark.soak
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_nothing_promised_is_lost_by_power_losses_nobody_tried_before(flush, say):
    """Fresh seeds each time; a failure says which."""
    campaign = Campaign(config={"flush": flush})
    while campaign.states < 50_000:
        campaign.run(random.randrange(1 << 30), steps=25)
    say(campaign.report(f"R2, fresh ({flush})"))
