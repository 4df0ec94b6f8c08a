"""A queue entry that leads elsewhere (it has no checksum) takes nothing away: neither what waits nor what is young."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.queues.queues import ENTRY, ENTRY_SIZE
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import Driver, ManualClock, open_engine
from broker.rocketmq.message import decode
from broker.rocketmq.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from tests.engine.pop.popping import pop

HOUR_MS = 3_600_000
CONFIG = {"delay_levels": "1s 10h", "timer_slots": 600, "timer_max_delay_ms": 24 * HOUR_MS, "retention_hours": 1}
FAR, BELOW = 1 << 40, 0
#: As many as a start does not look at the first of them when it finds where a queue ends.
NAMES = (b"one", b"two", b"three")


def opened(files: SimulatedFiles, clock: ManualClock | None = None) -> Driver:
    driver = open_engine(files, clock=clock, **CONFIG)
    driver.engine.topics.ensure("orders", 1)
    return driver


def led_to(files: SimulatedFiles, topic: str, queue_id: int, offset: int, position: int) -> None:
    """Have an entry lead there."""
    contents = files.contents()
    paths = [path for path in contents if f"/consumequeue/{topic}/{queue_id}/" in path]
    path = max(path for path in paths if int(path[-20:]) <= offset * ENTRY_SIZE)
    content, at = bytearray(contents[path]), offset * ENTRY_SIZE - int(path[-20:])
    _, size, code = ENTRY.unpack_from(content, at)
    ENTRY.pack_into(content, at, position, size, code)
    files.replace(path, bytes(content))


def pulled(driver: Driver) -> list[bytes]:
    """Return the bodies that a consumer gets."""
    offset, end = driver.engine.queue_bounds("orders", 0)
    found = []
    while offset < end:
        answer = driver.engine.pull("orders", 0, offset, 32, 1 << 20, None)
        found += [decode(record).body for record in answer.records]
        offset = answer.next_offset
    return found


def age(driver: Driver) -> None:
    """Let everything grow old that nobody waits for, and go."""
    for _ in range(60):
        driver.append("orders", b"x" * 300)
    driver.settle()
    driver.clock.advance(2 * HOUR_MS)
    driver.send("orders", b"young")
    for _ in range(20):
        driver.clock.advance(20_000)
        driver.upkeep()


def wait_for_a_level(driver: Driver) -> None:
    for name in NAMES:
        driver.send("orders", name, DELAY="2")


def wait_for_a_timer(driver: Driver) -> None:
    for name in NAMES:
        due_ms = driver.clock.now_ms + 10 * HOUR_MS
        driver.send("orders", name, TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY=name.decode())


@pytest.mark.parametrize(
    ("wait", "topic", "queue_id"),
    [(wait_for_a_level, SCHEDULE_TOPIC, 1), (wait_for_a_timer, TIMER_TOPIC, 0)],
)
def test_what_waits_is_kept_where_its_entry_leads_far_away(
    wait: Callable[[Driver], None], topic: str, queue_id: int
) -> None:
    files = SimulatedFiles()
    driver = opened(files)
    wait(driver)
    driver.close()
    led_to(files, topic, queue_id, 0, FAR)
    driver = opened(files, driver.clock)
    age(driver)
    assert driver.engine.health().log_min_position == 0
    for _ in range(12):
        driver.advance(HOUR_MS)
    assert set(NAMES) <= set(pulled(driver))


@pytest.mark.parametrize("position", [FAR, BELOW, -1])
def test_a_moment_is_found_among_entries_that_lead_elsewhere(position: int) -> None:
    files = SimulatedFiles()
    driver = opened(files)
    moments = [driver.clock.advance(1_000) for _ in range(7) if driver.send("orders", b"x")]
    driver.close()
    for offset in range(1, 6):
        led_to(files, "orders", 0, offset, position)
        driver = opened(files, driver.clock)
        found = [driver.engine.offset_at_time("orders", 0, ms - 1_000) for ms in moments]
        assert found == list(range(7))
        driver.close()


def test_what_a_group_has_not_consumed_is_kept_where_its_entry_leads_far_away() -> None:
    files = SimulatedFiles()
    driver = opened(files)
    for name in NAMES:
        driver.send("orders", name)
    driver.engine.offsets.commit("billing", "orders", 0, 0)
    driver.upkeep()
    driver.close()
    led_to(files, "orders", 0, 0, FAR)
    driver = opened(files, driver.clock)
    age(driver)
    assert pulled(driver)[:3] == list(NAMES)


def test_what_a_pop_has_out_is_kept_where_its_entry_leads_far_away() -> None:
    files = SimulatedFiles()
    driver = opened(files)
    driver.engine.groups.ensure("payers")
    for name in NAMES:
        driver.send("orders", name)
    pop(driver, most_messages=3, group="payers", invisible_ms=10 * HOUR_MS)
    driver.settle()
    driver.close()
    led_to(files, "orders", 0, 0, FAR)
    driver = opened(files, driver.clock)
    age(driver)
    assert pulled(driver)[:3] == list(NAMES)


def test_a_far_timer_whose_entry_leads_elsewhere_goes_on_its_way() -> None:
    files = SimulatedFiles()
    driver = opened(files)
    due_ms = driver.clock.now_ms + HOUR_MS
    for name in NAMES:
        driver.send("orders", name, TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY=name.decode())
    driver.close()
    led_to(files, TIMER_TOPIC, 0, 1, FAR)
    driver = opened(files, driver.clock)
    for _ in range(70):
        driver.advance(60_000)
    assert sorted(pulled(driver)) == sorted(NAMES)


def test_timers_are_rebuilt_where_an_entry_leads_elsewhere() -> None:
    files = SimulatedFiles()
    driver = opened(files)
    due_ms = driver.clock.now_ms + 60_000
    for name in NAMES:
        driver.send("orders", name, TIMER_DELIVER_MS=str(due_ms), UNIQ_KEY=name.decode())
    driver.close()
    led_to(files, TIMER_TOPIC, 0, 1, FAR)
    files.replace("/store/escapement.timers", b"")
    driver = opened(files, driver.clock)
    driver.advance(61_000)
    assert sorted(pulled(driver)) == sorted(NAMES)


@pytest.mark.parametrize("offset", range(64))
def test_what_stands_before_an_entry_that_leads_below_the_log_is_not_taken_for_expired(offset: int) -> None:
    files = SimulatedFiles()
    driver = opened(files)
    driver.engine.topics.ensure("other", 1)
    for _ in range(60):
        driver.append("other", b"x" * 300)
    driver.settle()
    driver.clock.advance(2 * HOUR_MS)
    for number in range(64):
        driver.append("orders", b"%02d" % number + b"x" * 100)
    driver.settle()
    for _ in range(20):
        driver.clock.advance(20_000)
        driver.upkeep()
    assert driver.engine.health().log_min_position > 0
    sound = pulled(driver)
    driver.close()
    led_to(files, "orders", 0, offset, BELOW)
    if not offset:
        # there is nothing before it that says whether its record has expired
        assert [damage.start for damage in check_store(files, "/store").damages] == [0]
        return
    assert pulled(opened(files, driver.clock)) == sound
