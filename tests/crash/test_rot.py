"""R6: damage at rest is found, told apart and lived with."""

from __future__ import annotations

import random

import pytest

from broker.engine.testing import ManualClock, SimulatedFiles, open_engine

from . import golden
from .rot import RotCampaign, mutations
from .workload import Workload


def our_store(seed: int) -> RotCampaign:
    """A small store of ours after a clean stop, with messages still parked."""
    files = SimulatedFiles()
    workload = Workload(seed, files)
    workload.run(25)
    for _ in range(4):
        workload.send_delayed()
    workload.driver.close()
    campaign = RotCampaign(files.contents(), workload.clock.now_ms, {})
    campaign.learn()
    return campaign


def their_store(name: str) -> RotCampaign:
    """A store of Apache RocketMQ."""
    store = golden.load(name)
    files = {path: content for path, content in store.files.items() if "abort" not in path}
    campaign = RotCampaign(files, store.manifest["endedMs"], store.config)
    campaign.learn()
    campaign.pending.clear()
    return campaign


def attack(campaign: RotCampaign, seed: int, per_file: int, *, spare: str = "none") -> None:
    """Try every mutation of files whose path has no ``spare``; the first broken promise says how to repeat it."""
    targets = {path: content for path, content in campaign.files.items() if spare not in path}
    for mutation in mutations(targets, random.Random(seed), per_file):
        try:
            campaign.try_one(mutation)
        except Exception as error:
            where = f"seed {seed}, {mutation.path}, {mutation.what}"
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def test_damage_to_our_store_costs_at_most_the_records_it_hit(say):
    campaign = our_store(seed=1)
    attack(campaign, seed=1, per_file=20)
    say(campaign.report("R6 (ours)"))


@pytest.mark.parametrize("name", ["plain", "crc", "delay_levels"])
def test_damage_to_a_store_of_apache_rocketmq_costs_at_most_the_records_it_hit(name, say):
    campaign = their_store(name)
    attack(campaign, seed=2, per_file=8, spare="/commitlog/")
    say(campaign.report(f"R6 ({name})"))


def test_damage_in_the_log_is_stepped_over_when_all_else_is_built_from_it():
    """No checkpoint, no queues, no index: the walk through the log meets the damage and goes on behind it."""
    campaign = our_store(seed=5)
    campaign.pending.clear()
    derived = ("/store/consumequeue/", "/store/index/", "/store/escapement.checkpoint")
    bare = {path: content for path, content in campaign.files.items() if not path.startswith(derived)}
    positions = sorted(message.position for message in campaign.places.values())
    for position in positions[:-1]:
        disk = SimulatedFiles()
        disk.load(bare)
        segment = position - position % 4096
        disk.flip(f"/store/commitlog/{segment:020d}", 8 * (position - segment + 100))
        driver = open_engine(disk, clock=ManualClock(campaign.now_ms))
        size = next(message.size for message in campaign.places.values() if message.position == position)
        campaign.check_served(driver, {position: size})
        campaign.check_reported(driver, {position: size})
