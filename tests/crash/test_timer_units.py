"""A unit of the timer log has no checksum: whatever bit of it flips, its timer comes out at its moment, once."""

from __future__ import annotations

from itertools import product

import pytest

from broker.engine.testing import ManualClock, SimulatedFiles
from broker.engine.testing.driver import Driver, open_engine
from broker.engine.timer.log import UNIT_SIZE

HOUR = 3_600_000
#: Bytes of a unit that say what kind it is, and which timer it means.
MAGIC, RESERVED = 15, range(44, 52)
#: Of a far timer what its unit remembers, of a near one what kind it is: what a check of so few bits may miss.
FAR, NEAR = product((1, 2), (MAGIC, *RESERVED)), product(range(1, 16), (MAGIC,))
#: The wheel of the tests reaches 84 s: a unit alone tells the hour of what is further off only where that is bounded.
BOUNDED_MS = 20 * HOUR


def store_of(delays_ms: list[int], most_ms: int) -> tuple[SimulatedFiles, ManualClock]:
    """Return a stopped store in which timers wait, one of which was released."""
    disk, clock = SimulatedFiles(), ManualClock()
    driver = open_engine(disk, clock=clock, timer_max_delay_ms=most_ms)
    driver.engine.topics.ensure("orders", 1)
    for number, delay_ms in enumerate([1_000, *delays_ms]):
        due_ms = clock.now_ms + delay_ms
        driver.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms), PAD="." * number)
    driver.advance(3_000)
    driver.close()
    return disk, clock


def let_pass(driver: Driver, delta_ms: int) -> None:
    end_ms = driver.clock.now_ms + delta_ms
    while driver.clock.now_ms < end_ms:
        driver.advance(min(20_000, end_ms - driver.clock.now_ms))


@pytest.mark.parametrize("most_ms", [BOUNDED_MS, 10 * 366 * 24 * HOUR], ids=["bounded", "ten years"])
@pytest.mark.parametrize(("delay_ms", "places"), [(20_000, [*NEAR]), (110_000, [*FAR])], ids=["near", "far"])
def test_a_bit_that_flips_in_a_unit_costs_no_timer(delay_ms: int, places: list[tuple[int, int]], most_ms: int) -> None:
    """FlipCampaign(1069187789), timer log, bit 1230: a far timer whose unit named another one waited for good."""
    disk, clock = store_of([delay_ms + 7 * number for number in range(15)], most_ms)
    sound = {path: content for path, content in disk.contents().items() if not path.endswith("/lock")}
    lost = []
    for (unit, byte), bit in product(places, range(8)):
        damaged = SimulatedFiles()
        damaged.load(sound)
        damaged.flip(f"/store/timerlog/{0:020d}", 8 * (unit * UNIT_SIZE + byte) + bit)
        driver = open_engine(damaged, clock=ManualClock(clock.now_ms), timer_max_delay_ms=most_ms)
        let_pass(driver, delay_ms + 10_000)
        if sorted(map(int, driver.bodies("orders"))) != list(range(16)):
            lost.append((unit, byte, bit))
    assert lost == []
