"""A store in which what an orderly pop had left was kept apart: it opens, and nothing is lost."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from pathlib import Path

import pytest

from broker.engine.testing import Driver, ManualClock, SimulatedFiles
from tests.engine.pop.popping import INVISIBLE_MS, ack, bodies, crashed, pop, reopened

STORE = Path(__file__).parents[2] / "data" / "pops" / "in-order-with-todo.json.gz"


def opened(kind: str) -> tuple[SimulatedFiles, Driver]:
    """The store as the broker of before left it."""
    value = json.loads(gzip.decompress(STORE.read_bytes()))
    files = SimulatedFiles()
    files.load({path: b64decode(content) for path, content in value[kind].items()})
    clock = ManualClock()
    clock.now_ms = value["now_ms"]
    return files, reopened(files, clock, segment_size_bytes=16_384)


@pytest.mark.parametrize("kind", ["killed", "closed"])
@pytest.mark.parametrize(
    ("group", "at_once", "first", "later"),
    [
        ("block", [], 0, [b"m0", b"m1", b"m2", b"m3", b"m4", b"m5"]),
        ("left", [b"m2", b"m3", b"m4", b"m5"], 2, [b"m2", b"m3", b"m4", b"m5"]),
        ("behind", [], 1, [b"m1", b"m2", b"m3", b"m4", b"m5"]),
    ],
)
def test_nothing_is_lost(kind: str, group: str, at_once: list[bytes], first: int, later: list[bytes]) -> None:
    files, driver = opened(kind)
    assert driver.engine.offsets.get(group, "orders", 0) == first
    assert bodies(pop(driver, in_order=True, group=group)) == at_once
    driver.advance(INVISIBLE_MS)
    held = pop(driver, in_order=True, group=group)
    assert bodies(held) == later
    assert held[0].count > 0
    assert ack(driver, *held[1:])
    driver = crashed(files, driver, segment_size_bytes=16_384)
    assert pop(driver, in_order=True, group=group) == []
    assert ack(driver, held[0])
    assert driver.engine.offsets.get(group, "orders", 0) == 6


@pytest.mark.parametrize("kind", ["killed", "closed"])
def test_the_handles_of_before_are_believed(kind: str) -> None:
    _, driver = opened(kind)
    queue = driver.engine.pops.table.queues["behind", "orders", 0]
    assert queue.orderly is not None
    assert queue.orderly.block is not None
    handle_ms = queue.orderly.block.pop_ms
    assert queue.orderly.ack(handle_ms, 3)
    assert queue.orderly.ack(handle_ms, 1)
    assert bodies(pop(driver, in_order=True, group="behind")) == [b"m5"]
