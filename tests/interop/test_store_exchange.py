"""One store directory, taken from broker to broker: nothing is lost, what waits is still delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.conftest import ServerFactory
from tests.interop.programs import JavaConsumer, JavaProducer, Program, read_all
from tests.interop.servers import Server, StoreShape

# Small enough that every kind of file rolls over several times in a hundred messages.
SMALL = StoreShape(segment_size_bytes=64 << 10, queue_file_entries=20, index_slots=50, index_entries=100, heap="512m")
CLIENT = "5.5.0"
TOPIC, LATER = "Travel", "TravelLater"
LANE = "SCHEDULE_TOPIC_XXXX"
PLAIN, BATCHED, SOON, PARKED = 120, 20, 10, 5
# Level 3 is 10 s: due about when the next broker has started. Level 18 is 2 h.
SOON_LEVEL, PARKED_LEVEL = 3, 18


class Journey:
    """What was sent so far, broker after broker, and what each next broker must show."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.sent: Counter[str] = Counter()
        self.later: set[str] = set()
        self.parked = 0
        self.hops = 0

    def write(self, server: Server) -> None:
        """Plain, batched and delayed messages by the official client."""
        self.hops += 1
        mark = f"hop{self.hops}"
        producer = JavaProducer(server.namesrv, f"writer-{mark}", version=CLIENT, work=self.work)
        producer.send(TOPIC, f"{mark}-plain", tag="t", keys=f"{mark}-key", count=PLAIN)
        producer.send(TOPIC, f"{mark}-batch", kind="batch", keys=f"{mark}-batch-key", count=BATCHED)
        producer.send(LATER, f"{mark}-soon", delay_level=SOON_LEVEL, count=SOON)
        producer.send(LATER, f"{mark}-parked", delay_level=PARKED_LEVEL, count=PARKED)
        producer.child.kill()
        self.sent.update([f"{mark}-plain-{i}" for i in range(PLAIN)] + [f"{mark}-batch-{i}" for i in range(BATCHED)])
        self.later.update(f"{mark}-soon-{i}" for i in range(SOON))
        self.parked += PARKED

    def check(self, server: Server) -> None:
        """Everything is there, once, under its keys, and what was pending is delivered or still waits."""
        events = read_all(server.namesrv, [TOPIC], work=self.work)[TOPIC]
        assert Counter(event["body"] for event in events) == self.sent
        self.check_index_and_lanes(server, {event["body"]: event["msgId"] for event in events})
        consumer = JavaConsumer(
            server.namesrv, f"late-{self.hops}", LATER, version=CLIENT, work=self.work, instance=f"late-{self.hops}"
        )
        consumer.await_bodies(self.later, timeout_s=45)
        consumer.child.kill()

    def check_index_and_lanes(self, server: Server, identities: dict[str, str]) -> None:
        """Keys and unique ids of every hop are found; the lane of two hours holds what was parked in it."""
        admin = Program("Inspect", [server.namesrv, f"inspect-{self.hops}"], version=CLIENT, work=self.work)
        for hop in range(1, self.hops + 1):
            found = admin.ask("by-key", TOPIC, f"hop{hop}-batch-key", until="end")[:-1]
            assert {event["body"] for event in found} == {f"hop{hop}-batch-{i}" for i in range(BATCHED)}
            body = f"hop{hop}-plain-{PLAIN // 2}"
            assert admin.ask("view", TOPIC, identities[body], until="end")[0]["body"] == body
        lane = admin.ask("consume-queue", server.address, LANE, PARKED_LEVEL - 1, 0, 64, until="end")[:-1]
        assert lane[0]["max"] == self.parked
        assert len(lane) == 1 + self.parked
        admin.child.kill()


def end_cleanly(server: Server) -> None:
    assert server.stop() in (0, 143)


def end_by_kill(server: Server) -> None:
    server.kill()


@pytest.mark.parametrize(
    ("chain", "end"),
    [
        (("escapement", "apache", "escapement"), end_cleanly),
        (("escapement", "apache", "escapement"), end_by_kill),
        (("apache", "escapement", "apache"), end_by_kill),
    ],
    ids=["ours-theirs-ours-clean", "ours-theirs-ours-killed", "theirs-ours-theirs-killed"],
)
def test_store_travels(
    chain: tuple[str, ...], end: Callable[[Server], None], start_server: ServerFactory, tmp_path: Path
) -> None:
    journey = Journey(tmp_path / "clients")
    for kind in chain:
        server = start_server(kind, tmp_path / "store", SMALL)
        if journey.hops:
            journey.check(server)
        if journey.hops < len(chain) - 1:
            journey.write(server)
        end(server)


def test_committed_offsets_travel(start_server: ServerFactory, tmp_path: Path) -> None:
    ours = start_server("escapement", tmp_path / "store", SMALL)
    producer = JavaProducer(ours.namesrv, "writer", version=CLIENT, work=tmp_path)
    producer.send(TOPIC, "old", count=8)
    consumer = JavaConsumer(ours.namesrv, "traveller", TOPIC, version=CLIENT, work=tmp_path)
    consumer.receive(8)
    consumer.close()
    producer.send(TOPIC, "new")
    producer.child.kill()
    end_cleanly(ours)
    theirs = start_server("apache", tmp_path / "store", SMALL)
    again = JavaConsumer(theirs.namesrv, "traveller", TOPIC, version=CLIENT, work=tmp_path, instance="two")
    assert again.receive(1)[0]["body"] == "new"
    again.child.kill()
