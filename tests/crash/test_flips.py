"""R6: one bit flipped anywhere in a store with everything in it, or in its backup, is named or has no effect."""

from __future__ import annotations

import random

import pytest

from .flips import FlipCampaign

FLIPS = 750


@pytest.mark.parametrize(("seed", "is_aged"), [(0, False), (1, True)])
def test_a_flipped_bit_is_named_or_has_no_effect(seed: int, is_aged: bool, say) -> None:
    campaign = FlipCampaign(seed, is_aged=is_aged)
    campaign.run(FLIPS, random.Random(seed))
    say(campaign.report("R6 (everything)"))
    assert campaign.outcomes["backup refused, named"] > 0
    assert campaign.outcomes["a record lost, named by fsck and the broker"] > 0
