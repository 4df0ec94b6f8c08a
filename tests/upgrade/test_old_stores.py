"""What older versions were told and acknowledged is there when this one opens their stores."""

from __future__ import annotations

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.fsck.survey import sizes_of
from broker.engine.testing import Driver, ManualClock, SimulatedFiles, open_engine
from tests.upgrade.old_stores import (
    BILLING,
    ENDS,
    HOUR_MS,
    INVISIBLE_MS,
    KEPT,
    LATER,
    ORDERS,
    PAID,
    POPPED,
    POPPERS,
    Told,
    told_of,
    unpacked,
)

ROOT = "/store"
STORES = [(name, end) for name in KEPT for end in ENDS]


def opened(name: str, end: str, disk: SimulatedFiles | None = None) -> tuple[Driver, Told]:
    """Open such a store a minute after it was written."""
    told, disk = told_of(name), disk or unpacked(name, end)
    sizes = {"segment_size_bytes": 1 << 20, "queue_file_entries": 1_000, "index_slots": 1_000, "index_entries": 4_000}
    config = {**sizes, **sizes_of(disk, ROOT), "root": ROOT, "delay_levels": "1s 1h", "transaction_timeout_ms": HOUR_MS}
    return open_engine(disk, clock=ManualClock(told.at_ms + 60_000), **config), told


def delivered(driver: Driver, told: Told) -> dict[str, int]:
    """Have everything come that waits; return the bodies with the moment at which each was there first."""
    seen: dict[str, int] = {}
    for moment_ms in sorted({at for each in told.waiting for at in (each["earliest_ms"] - 1, each["latest_ms"])}):
        driver.advance(moment_ms - driver.clock.now_ms)
        for body in (body.decode() for queue in range(2) for body in driver.bodies(LATER, queue)):
            seen.setdefault(body, moment_ms)
    return seen


@pytest.mark.parametrize(("name", "end"), STORES)
def test_what_was_acknowledged_is_in_its_place(name: str, end: str) -> None:
    driver, told = opened(name, end)
    for each in told.stored:
        if "offset" in each:
            message = driver.readable(each["topic"], each["queue"])[each["offset"]]
            assert (message.body.decode(), message.unique_key) == (each["body"], each["id"])
        if "key" in each:
            now_ms = driver.clock.now_ms
            found = driver.engine.find(ORDERS, each["key"], begin_ms=0, end_ms=now_ms, max_count=9, now_ms=now_ms)
            assert len(found) == 1
    assert [body for queue in range(2) for body in driver.bodies(PAID, queue)] == [b"committed"]
    topics = {topic.name: topic.write_queues for topic in driver.engine.topics.all()}
    assert {topics[topic] for topic in (ORDERS, LATER, PAID, POPPED)} == {2}
    group = driver.engine.groups.get(BILLING)
    assert group is not None and group.retry_max_times == 3
    assert {str(queue): driver.engine.offsets.get(BILLING, ORDERS, queue) for queue in range(2)} == told.offsets


@pytest.mark.parametrize(("name", "end"), STORES)
def test_what_waits_comes_at_its_moment_and_what_was_cancelled_does_not(name: str, end: str) -> None:
    driver, told = opened(name, end)
    seen = delivered(driver, told)
    assert sorted(seen) == sorted(each["body"] for each in told.waiting)
    for each in told.waiting:
        assert each["earliest_ms"] <= seen[each["body"]] <= each["latest_ms"]
    assert sum(len(driver.bodies(LATER, queue)) for queue in range(2)) == len(told.waiting)


@pytest.mark.parametrize(("name", "end"), STORES)
def test_halves_and_pops_are_as_they_were(name: str, end: str) -> None:
    driver, told = opened(name, end)
    assert driver.engine.transactions.summary()["open"] == len(told.open_halves)
    held = driver.engine.pops.table.queues
    assert sum(len(queue.open_offsets()) for queue in held.values()) == len(told.held)
    # what was popped and not acknowledged comes again, what was acknowledged does not
    driver.advance(INVISIBLE_MS + 60_000)
    again = [topic.name for topic in driver.engine.topics.all() if POPPERS in topic.name and POPPED in topic.name]
    bodies = [body.decode() for topic in again for body in driver.bodies(topic)]
    assert sorted(bodies) == sorted(told.held)


@pytest.mark.parametrize(("name", "end"), STORES)
def test_a_store_that_was_opened_and_closed_is_sound(name: str, end: str) -> None:
    disk = unpacked(name, end)
    driver, _ = opened(name, end, disk)
    driver.close()
    assert check_store(disk, ROOT).is_sound
