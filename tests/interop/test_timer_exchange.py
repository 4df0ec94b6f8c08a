"""One store directory with timers in it, taken from broker to broker: what waits is delivered by the next, once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.conftest import ServerFactory
from tests.interop.programs import JavaConsumer, JavaScheduler, read_all
from tests.interop.servers import Server, StoreShape
from tests.interop.test_store_exchange import end_by_kill, end_cleanly

SHAPE = StoreShape(segment_size_bytes=8 << 20, queue_file_entries=1_000, index_slots=500, index_entries=2_000)
TOPIC = "Travel"
HOUR_MS = 3_600_000
DONE, SOON, LATER = 4, 6, 5
#: Long enough for the next broker to have started, and consumers to have found it.
LEAD_MS = 45_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Luggage:
    """What one broker was given, and what of it the next one must deliver."""

    def __init__(self, server: Server, work: Path) -> None:
        scheduler = JavaScheduler(server.namesrv, f"packer-{server.name}", work=work)
        began_ms = now_ms()
        scheduler.send(TOPIC, "done", ms=1_500, count=DONE)
        self.due_ms = began_ms + LEAD_MS
        scheduler.send(TOPIC, "soon", at=self.due_ms, count=SOON)
        scheduler.send(TOPIC, "later", ms=HOUR_MS, count=LATER)
        scheduler.send(TOPIC, "far", ms=60 * HOUR_MS, count=LATER)
        taken = [scheduler.send(TOPIC, f"taken-{number}", at=self.due_ms) for number in range(2)]
        scheduler.recall(TOPIC, taken[0]["handle"])
        scheduler.delete(TOPIC, taken[1]["msgId"], self.due_ms)
        scheduler.send(TOPIC, "last", at=self.due_ms + 2_000)
        consumer = JavaConsumer(server.namesrv, "first", TOPIC, version="5.5.0", work=work)
        consumer.receive(DONE)
        for program in (scheduler, consumer):
            program.child.kill()
        assert now_ms() < self.due_ms - 25_000, "the next broker would start too late to show anything"

    def expected(self) -> Counter[str]:
        """What must have been delivered once the last one is."""
        return Counter([*(f"done-{i}" for i in range(DONE)), *(f"soon-{i}" for i in range(SOON)), "last"])


@pytest.mark.parametrize("end", [end_cleanly, end_by_kill], ids=["clean", "killed"])
@pytest.mark.parametrize("chain", [("escapement", "apache"), ("apache", "escapement")], ids="-".join)
def test_timers_travel(
    chain: tuple[str, str], end: Callable[[Server], None], start_server: ServerFactory, tmp_path: Path
) -> None:
    first, second = chain
    packing = start_server(first, tmp_path / "store", SHAPE)
    luggage = Luggage(packing, tmp_path / "clients")
    end(packing)
    unpacking = start_server(second, tmp_path / "store", SHAPE)
    consumer = JavaConsumer(unpacking.namesrv, "second", TOPIC, version="5.5.0", work=tmp_path, instance="second")
    consumer.await_bodies(set(luggage.expected()), timeout_s=90)
    for event in consumer.events("message"):
        assert not event["body"].startswith(("taken", "later", "far"))
        if event["body"].startswith("soon"):
            assert event["storeMs"] >= luggage.due_ms
    consumer.child.kill()
    stored = Counter(event["body"] for event in read_all(unpacking.namesrv, [TOPIC], work=tmp_path)[TOPIC])
    if second == "escapement":
        assert stored == luggage.expected()
    else:
        # Apache RocketMQ itself delivers again what it cannot be sure of after a crash
        assert set(stored) == set(luggage.expected())


def test_timers_of_rocketmq_can_be_steered_here(start_server: ServerFactory, tmp_path: Path) -> None:
    """Handles and unique ids of timers that Apache RocketMQ took are good names here."""
    theirs = start_server("apache", tmp_path / "store", SHAPE)
    scheduler = JavaScheduler(theirs.namesrv, "before", work=tmp_path / "before")
    sent = scheduler.send(TOPIC, "wait", at=now_ms() + LEAD_MS)
    scheduler.send(TOPIC, "last", at=now_ms() + LEAD_MS + 2_000)
    scheduler.child.kill()
    end_cleanly(theirs)
    ours = start_server("escapement", tmp_path / "store", SHAPE)
    again = JavaScheduler(ours.namesrv, "after", work=tmp_path / "after")
    assert again.recall(TOPIC, sent["handle"]) == sent["msgId"]
    again.child.kill()
    consumer = JavaConsumer(ours.namesrv, "readers", TOPIC, version="5.5.0", work=tmp_path)
    assert [event["body"] for event in consumer.receive(1, timeout_s=90)] == ["last"]
    consumer.child.kill()
