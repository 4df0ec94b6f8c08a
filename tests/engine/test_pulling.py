"""Pulling from a queue: what is there, and what is stepped over."""

from __future__ import annotations

from broker.engine.queues.reader import PullStatus
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import open_engine


def test_a_message_damaged_right_after_it_came_is_stepped_over_by_who_waited_for_it() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.ensure("orders", 1)
    driver.send("orders", b"sound")
    damaged = driver.send("orders", b"damaged")
    assert len(driver.engine.pull("orders", 0, 1, 32, 1 << 20).records) == 1
    files.flip("/store/commitlog/00000000000000000000", 8 * (damaged.position + 100))
    pulled = driver.engine.pull("orders", 0, 1, 32, 1 << 20)
    assert (pulled.status, pulled.next_offset, pulled.records) == (PullStatus.NO_MATCH, 2, [])
    assert [place.start for place in driver.engine.health().damaged] == [damaged.position]
    assert len(driver.engine.pull("orders", 0, 0, 32, 1).records) == 1
