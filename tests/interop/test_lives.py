"""Lives under faults with official Java clients beside ours: our broker and Apache RocketMQ, one checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client import AsyncProducer, AsyncSimpleConsumer
from tests.reliability.history import Recorder
from tests.reliability.rig import Rig
from tests.reliability.run import Course, live
from tests.waiting import until_true

#: Apache RocketMQ is stopped for moments only: a JVM takes long to start, and docs/RELIABILITY.md tells of the rest.
KINDS = {"apache": ("stop",), "escapement": ("kill", "restart", "stop", "cut", "mute")}


@pytest.mark.parametrize("broker", KINDS)
async def test_a_broker_keeps_its_promises_to_official_clients(broker: str, tmp_path: Path) -> None:
    report = await live(Course(broker, 3, faults=3, kinds=KINDS[broker], has_java=True), tmp_path)
    assert report.verdict.violations == [], report.details()
    assert report.verdict.counts["accepted"] > 50, report.line()


@pytest.mark.parametrize("broker", KINDS)
async def test_what_is_popped_comes_from_a_broker_whose_clock_is_ahead(broker: str, tmp_path: Path) -> None:
    """Apache RocketMQ refuses a pop that says it was asked long ago, by its own clock."""
    recorder = Recorder(tmp_path / "history.jsonl")
    rig = Rig(broker, tmp_path, recorder, has_disk=False)
    try:
        await rig.start()
        rig.step(60_000)
        async with (
            AsyncProducer("shop", rig.namesrv) as producer,
            AsyncSimpleConsumer("billing", rig.namesrv) as consumer,
        ):
            await producer.send("orders", b"4711")
            received = await until_true(lambda: consumer.receive("orders", wait_ms=500), 20)
            assert [each.body for each in received] == [b"4711"]
            await consumer.ack(*received)
    finally:
        await rig.clear()
        recorder.close()
