"""Stores that older versions wrote, in tests/data/stores: how they were made, and how they are read.

`python -m tests.upgrade.old_stores` makes them anew, with the brokers of the history. Of each version there are two:
one as a kill left it, and one that was stopped cleanly behind that. What the broker answered stands beside them.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from broker.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    Decision,
    Message,
    SendResult,
    prepare,
)
from broker.engine.testing import SimulatedFiles
from tests.interop.servers import StoreShape, served
from tests.interop.waiting import wait_until
from tests.upgrade.versions import VERSIONS, Version, VersionedServer

DATA = Path(__file__).parents[1] / "data" / "stores"
#: those whose stores are kept: formats changed between them
KEPT = {"0.1-first": VERSIONS[0], "0.1-keys": VERSIONS[2], "0.1-last": VERSIONS[4], "0.2-backups": VERSIONS[6]}
ENDS = ("killed", "stopped")
SHAPE = StoreShape(
    segment_size_bytes=1 << 20, queue_file_entries=1_000, index_slots=1_000, index_entries=4_000, delay_levels="1s 1h",
    transaction_timeout_ms=3_600_000,
)  # fmt: skip
ORDERS, LATER, PAID, POPPED = "orders", "later", "paid", "popped"
BILLING, POPPERS = "billing", "poppers"
HOUR_MS = 3_600_000
INVISIBLE_MS = HOUR_MS
START_S = 60.0


@dataclass(slots=True)
class Told:
    """What a broker answered: the messages by where they stand, what waits with its moment, halves, offsets, pops."""

    version: str
    at_ms: int
    stored: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    open_halves: list[str] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def store(self, body: str, result: SendResult, **more: Any) -> None:
        """Note a message that stands in its queue."""
        place = {"topic": result.topic, "queue": result.queue_id, "offset": result.queue_offset}
        self.stored.append({"body": body, "id": result.message_id, **place, **more})

    def wait(self, body: str, topic: str, earliest_ms: int, latest_ms: int) -> None:
        """Note a message that is to come between these moments."""
        self.waiting.append({"body": body, "topic": topic, "earliest_ms": earliest_ms, "latest_ms": latest_ms})


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


async def fill(namesrv: str, version: Version, root: Path) -> Told:
    """Send some of everything, and note what was answered; a checkpoint comes between."""
    told = Told(version.name, now_ms())
    async with AsyncExitStack() as opened:
        admin = await opened.enter_async_context(AsyncAdmin(namesrv))
        for topic in (ORDERS, LATER, PAID, POPPED):
            await admin.create_topic(topic, queues=2)
        await admin.create_group(BILLING, retry_max_times=3)
        producer = await opened.enter_async_context(AsyncProducer("shop", namesrv))
        for number in range(12):
            body = f"order {number}"
            result = await producer.send(ORDERS, body, tag="new", keys=[f"key-{number}"])
            told.store(body, result, key=f"key-{number}")
        await _send_what_waits(producer, told)
        await _consume(namesrv, admin, told)
        await asyncio.to_thread(
            wait_until, lambda: BILLING in _text_of(root / "config" / "consumerOffset.json"), START_S
        )
        if version.knows_keys:
            await _steer(producer, told)
        await _decide(namesrv, told)
        if version is not VERSIONS[0]:
            await _pop(namesrv, producer, told)
    return told


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def _send_what_waits(producer: AsyncProducer, told: Told) -> None:
    for number in range(3):
        before_ms = now_ms()
        await producer.send(LATER, f"level {number}", delay_level=2)
        told.wait(f"level {number}", LATER, before_ms + HOUR_MS, now_ms() + HOUR_MS)
    for number in range(3):
        # the last one goes through several places of the wheel before it is due
        due_ms = told.at_ms + (2 + number * 100) * HOUR_MS
        await producer.send(LATER, f"timer {number}", deliver_at_ms=due_ms)
        told.wait(f"timer {number}", LATER, due_ms, due_ms)


async def _steer(producer: AsyncProducer, told: Told) -> None:
    for key in ("kept", "moved", "cancelled"):
        await producer.send(LATER, f"keyed {key}", deliver_at_ms=told.at_ms + 3 * HOUR_MS, schedule_key=key)
    await producer.timers.move(LATER, "moved", deliver_at_ms=told.at_ms + 5 * HOUR_MS)
    await producer.timers.cancel(LATER, "cancelled")
    told.wait("keyed kept", LATER, told.at_ms + 3 * HOUR_MS, told.at_ms + 3 * HOUR_MS)
    told.wait("keyed moved", LATER, told.at_ms + 5 * HOUR_MS, told.at_ms + 5 * HOUR_MS)
    told.cancelled.append("keyed cancelled")


async def _decide(namesrv: str, told: Told) -> None:
    async def check(_: Message) -> Decision:
        return Decision.UNKNOWN

    async with AsyncTransactionProducer("payers", namesrv, check=check) as producer:
        halves = {name: await producer.send_half(PAID, prepare(name)) for name in ("open", "committed", "rolled back")}
        await producer.end(halves["committed"], Decision.COMMIT)
        await producer.end(halves["rolled back"], Decision.ROLLBACK)
    told.open_halves.append("open")
    told.stored.append({"body": "committed", "topic": PAID})


async def _consume(namesrv: str, admin: AsyncAdmin, told: Told) -> None:
    """Have a group read all orders, and wait until it has said so."""
    seen = asyncio.Queue[bytes]()

    async def handle(message: Message) -> None:
        await seen.put(message.body)

    consumer = AsyncConsumer(BILLING, namesrv, from_where="first")
    consumer.subscribe(ORDERS, "*", handle)
    async with consumer:
        for _ in range(12):
            await asyncio.wait_for(seen.get(), START_S)
    stats = await admin.consume_stats(BILLING)
    told.offsets = {
        str(each.queue.queue_id): each.consumer_offset for each in stats.queues if each.queue.topic == ORDERS
    }


async def _pop(namesrv: str, producer: AsyncProducer, told: Told) -> None:
    for number in range(4):
        told.store(f"pop {number}", await producer.send(POPPED, f"pop {number}"))
    async with AsyncSimpleConsumer(POPPERS, namesrv) as consumer:
        got: list[Any] = []
        while len(got) < 4:
            got += await consumer.receive(POPPED, invisible_ms=INVISIBLE_MS, wait_ms=1_000)
        for each in got[:2]:
            await consumer.ack(each)
    told.acknowledged = [each.message.body.decode() for each in got[:2]]
    told.held = [each.message.body.decode() for each in got[2:]]


def make(name: str, version: Version, work: Path) -> None:
    """Make both stores of a version."""
    server = VersionedServer(work / "store", work / "broker", SHAPE)
    server.become(version, work / "versions")
    with served(server):
        told = asyncio.run(fill(server.namesrv, version, server.root))
        server.kill()
        _pack(server.root, DATA / f"{name}-killed.tar.xz")
        server.start()
        server.stop()
        _pack(server.root, DATA / f"{name}-stopped.tar.xz")
    (DATA / f"{name}.json").write_text(json.dumps(asdict(told), indent=1) + "\n")


def _pack(root: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(root, "store", filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpacked(name: str, end: str) -> SimulatedFiles:
    """Return a disk with such a store on it."""
    disk = SimulatedFiles()
    disk.load(_files_of(name, end))
    return disk


@cache
def _files_of(name: str, end: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(DATA / f"{name}-{end}.tar.xz") as packed:
        for member in packed:
            if (content := packed.extractfile(member)) is not None:
                files[f"/{member.name}"] = content.read()
    return files


def told_of(name: str) -> Told:
    """Return what the broker answered that wrote it."""
    return Told(**json.loads((DATA / f"{name}.json").read_text()))


def main(run: Callable[[str, Version, Path], None] = make) -> None:
    """Make all."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name, version in KEPT.items():
        with tempfile.TemporaryDirectory() as work:
            run(name, version, Path(work))


if __name__ == "__main__":
    main()
