"""Lives under faults with official Java clients beside ours: our broker and Apache RocketMQ, one checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.run import Course, live

#: Apache RocketMQ is stopped for moments only: a JVM takes long to start, and docs/RELIABILITY.md tells of the rest.
KINDS = {"apache": ("stop",), "escapement": ("kill", "restart", "stop", "cut", "mute")}


@pytest.mark.parametrize("broker", KINDS)
async def test_a_broker_keeps_its_promises_to_official_clients(broker: str, tmp_path: Path) -> None:
    report = await live(Course(broker, 3, faults=3, kinds=KINDS[broker], has_java=True), tmp_path)
    assert report.verdict.violations == [], report.details()
    assert report.verdict.counts["accepted"] > 50, report.line()
