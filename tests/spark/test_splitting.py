"""Where a log is divided: at records of the broker's, whatever a producer put into a body."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from spark.store import LogStore, stretches
from tests.spark.logs import record

MEBIBYTE = 1 << 20
#: The way to the place so far from the first record begins in a body, and the place is in another.
SPLIT = 10 * MEBIBYTE + 400_000


def forged(position: int, size: int) -> bytes:
    """Sound records, one after the other, as they would be if they stood there."""
    data = b""
    parts = []
    while len(data) < size:
        data = record(position, "salaries", b"raise " * 100)
        parts.append(data)
        position += len(data)
        size -= len(data)
    return b"".join(parts)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[LogStore, list[int]]:
    """A store whose bodies hold forged records, and where its true ones begin."""
    parts: list[bytes] = []
    starts: list[int] = []
    position = 0

    def add(body: bytes) -> None:
        nonlocal position
        starts.append(position)
        parts.append(record(position, body=body))
        position += len(parts[-1])

    head = len(record(0, body=b"")) - 20 - len("orders") - 3
    for megabytes, is_forged in ((5, False), (3, True), (2, False), (3, True), (3, True)):
        add(forged(position + head, megabytes * MEBIBYTE) if is_forged else bytes(megabytes * MEBIBYTE))
    add(forged(position + head, 700))
    for _ in range(50):
        add(b"x")
    path = tmp_path_factory.mktemp("forged")
    (path / "commitlog").mkdir()
    data = b"".join(parts)
    Path(path, "commitlog", "0" * 20).write_bytes(data.ljust(len(data) + 4096, b"\0"))
    return LogStore(str(path)), starts


@pytest.mark.parametrize("split_bytes", [1_000, MEBIBYTE, 2 * MEBIBYTE - 77, SPLIT])
def test_a_stretch_begins_at_a_record_of_the_brokers(log: tuple[LogStore, list[int]], split_bytes: int) -> None:
    store, starts = log
    found = list(stretches(store, store.segments(), 0, None, split_bytes))
    assert len(found) > 1
    assert all(left.end == right.begin for left, right in pairwise(found))
    assert [one.begin for one in found if one.begin not in starts] == []
