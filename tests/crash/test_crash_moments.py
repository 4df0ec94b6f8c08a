"""Power lost while a store does what it seldom does: old segments go, a store of Apache RocketMQ is taken over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine
from broker.rocketmq.message import decode
from broker.rocketmq.properties import SOURCE

from . import golden

MINUTE_MS = 60_000
SENT = 60
LATER_MS = 40 * MINUTE_MS
#: disks of each kind that are opened in the gate
LOOKED_AT = 50


def cuts(files: SimulatedFiles, act: Callable[[], None], draws: random.Random, losses: int) -> list[SimulatedFiles]:
    """Return what power losses at every boundary of an action leave, each disk once."""
    left: dict[int, SimulatedFiles] = {}

    def at_boundary() -> None:
        recent = max(0, files.sequence - draws.randint(1, 8))
        kinds = [PowerLoss("kill"), PowerLoss("all"), PowerLoss("prefix", draws.randrange(1 << 30), recent)]
        for loss in (*kinds, *(PowerLoss("random", draws.randrange(1 << 30)) for _ in range(losses))):
            disk = files.crash(loss)
            left.setdefault(hash(tuple(disk.contents().items())), disk)

    files.on_change = at_boundary
    act()
    files.on_change = None
    return list(left.values())


def everything(driver: Driver) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, position and body of each message of the topic."""
    for offset, message in driver.readable("orders").items():
        yield offset, message.position, message.body


def age_and_lose_power(seed: int, most: int) -> str:
    """Lose power while old segments go, look at up to so many disks; return the line to print."""
    config: dict[str, Any] = {"retention_hours": 0.1}
    files, clock, draws = SimulatedFiles(), ManualClock(), random.Random(seed)
    driver = open_engine(files, clock=clock, **config)
    driver.engine.topics.ensure("orders", 1)
    far = [b"far %d" % number for number in range(4)]
    for number in range(SENT):
        driver.append("orders", b"%03d" % number + b"x" * 300)
        if number % 16 == 0:
            driver.append("orders", far[number // 16], TIMER_DELAY_MS=str(LATER_MS))
    driver.settle()
    before = {offset: body for offset, _, body in everything(driver)}
    driver.engine.offsets.commit("billing", "orders", 0, 40)
    clock.advance(12 * MINUTE_MS)
    driver.send("orders", b"young")

    def age() -> None:
        for _ in range(14):
            clock.advance(20_000)
            driver.tick()
            driver.upkeep()

    disks = cuts(files, age, draws, losses=3)
    low, high = driver.engine.queue_bounds("orders", 0)
    assert 0 < low <= 40
    assert driver.engine.health().log_min_position > 0
    chosen = draws.sample(disks, min(most, len(disks)))
    for disk in chosen:
        again = open_engine(disk, clock=ManualClock(clock.now_ms), **config)
        assert again.engine.health().state == "OK"
        found = {offset: body for offset, _, body in everything(again)}
        assert found.keys() >= set(range(low, high)), "what is to stay is gone"
        assert found == {offset: before.get(offset, b"young") for offset in found}
        again.advance(LATER_MS)
        for _ in range(14):
            again.clock.advance(20_000)
            again.tick()
            again.upkeep()
        late = [body for _, _, body in everything(again) if body.startswith(b"far")]
        assert sorted(late) == far
    return f"R2 (retention, seed {seed}): {len(chosen):,} of {len(disks):,} different disks, 0 violations"


def test_a_power_loss_while_old_segments_go_takes_nothing_that_is_to_stay(say) -> None:
    say(age_and_lose_power(0, LOOKED_AT))


@pytest.mark.soak
def test_no_power_loss_while_old_segments_go_takes_what_is_to_stay(say) -> None:
    for seed in range(10):
        say(age_and_lose_power(seed, 1 << 30))


def served(driver: Driver) -> dict[tuple[str, int, int], tuple[int, bytes]]:
    """Return position and body of everything in all queues that were there before."""
    return {
        (topic.name, queue_id, offset): (message.position, message.body)
        for topic in driver.engine.topics.all()
        for queue_id in range(topic.read_queues)
        for offset, message in driver.readable(topic.name, queue_id).items()
        if SOURCE not in message.properties
    }


def take_over_and_lose_power(name: str, most: int) -> str:
    """Lose power while a store is taken over, look at up to so many disks; return the line to print."""
    store = golden.load(name)
    files, now_ms, draws = store.disk(), store.manifest["endedMs"], random.Random(name)

    def take_over() -> None:
        driver = open_engine(files, clock=ManualClock(now_ms), **store.config)
        driver.tick()
        driver.clock.advance(6_000)
        driver.upkeep()
        driver.close()

    sound = served(open_engine(store.disk(), clock=ManualClock(now_ms), **store.config))
    disks = cuts(files, take_over, draws, losses=1)
    chosen = draws.sample(disks, min(most, len(disks)))
    for disk in chosen:
        again = open_engine(disk, clock=ManualClock(now_ms), **store.config)
        assert again.engine.health().state == "OK"
        found = served(again)
        assert {place: told for place, told in found.items() if place in sound} == sound
        for entry in store.sent:
            assert decode(again.engine.record_at(golden.position_of(entry))).unique_key == entry["msgId"].split(",")[0]
    return f"R2 (taken over, {name}): {len(chosen):,} of {len(disks):,} different disks, 0 violations"


@pytest.mark.parametrize("name", ["plain", "timers"])
def test_a_power_loss_while_a_store_of_apache_rocketmq_is_taken_over_loses_nothing(name: str, say) -> None:
    say(take_over_and_lose_power(name, LOOKED_AT))


@pytest.mark.soak
@pytest.mark.parametrize("name", golden.folders())
def test_no_power_loss_while_a_store_of_apache_rocketmq_is_taken_over_loses_anything(name: str, say) -> None:
    say(take_over_and_lose_power(name, 1 << 30))
