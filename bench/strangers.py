"""Connections that ask more of a broker than clients do: what others wait for beside them, and what they cost."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from bench.many import PATIENCE_S, RATE, REST_S, child, sends
from bench.peers import make, work_directory
from bench.results import Row, Section, share
from bench.storage import anonymous_mb
from bench.strangers_crowd import LARGE, LARGE_BYTES, PRODUCERS_A_SECOND, TOPIC
from broker.client import AsyncAdmin, AsyncProducer
from broker.server.listener import raise_descriptor_limit
from tests.interop.servers import Server, says

TITLE = "Strangers"
DEFINITION = (
    "A client of `broker.client` sends {rate} messages of 128 bytes a second for {seconds} s, alone and beside each "
    "crowd in turn ({rest} s after it came), each from when it ought to leave to its answer. Crowds: "
    "{idle:,} producers that say nothing but a heartbeat a minute; {slow} readers that ask for 32 answers of up to "
    "256 KB and read 1 KB a second; {halves} frames of 4 MB that are begun and come 2 KB a second; {bad} connections "
    "that send what is no frame, or no request, and come again immediately; {producers:,} producers, together "
    "{crowd_rate} messages a second; {unacknowledged} consumers that pop for a second at a time and never "
    "acknowledge. Each is a process of its own. Memory is RssAnon, flush sync."
)
RATIO, MEMORY_MB = 2.0, 500
ALONE = "Alone"
#: with the client that is measured 10,000, as many as a broker takes
CROWDS = {"idle": 9_990, "slow": 100, "halves": 100, "bad": 8, "producers": 1_000, "unacknowledged": 8}


@dataclass(frozen=True, slots=True)
class Beside:
    """What was measured beside a crowd: ms sorted, MB before and with it."""

    alone_ms: list[float]
    times_ms: list[float]
    memory_mb: tuple[float, float]


def measure(options: Namespace, at: str) -> Section:
    """Measure a broker of its own for each crowd."""
    raise_descriptor_limit()
    seconds = 8 if options.quick else 30
    rows, notes = [], []
    for kind, count in CROWDS.items():
        with work_directory() as base:
            server = make("escapement", base, "sync")
            server.start()
            try:
                found = look(server, base, kind, count, seconds)
            finally:
                server.kill()
        rows += rows_of(kind, count, found)
        notes.append(
            f"{kind}: p50 {share(found.times_ms, 0.5):.1f} ms beside them, {share(found.alone_ms, 0.5):.1f} ms alone"
        )
        print(f"  {rows[-1].name}: {rows[-1].ours}; {notes[-1]}", file=sys.stderr)
    definition = DEFINITION.format(rate=RATE, seconds=seconds, rest=REST_S, crowd_rate=PRODUCERS_A_SECOND, **CROWDS)
    return Section("strangers", TITLE, definition, "python -m bench strangers", at, rows, notes, "")


def rows_of(kind: str, count: int, found: Beside) -> list[Row]:
    """Return the rows of one crowd."""
    alone, beside = share(found.alone_ms, 0.99), share(found.times_ms, 0.99)
    before, with_them = found.memory_mb
    each_kb = (with_them - before) * 1024 / count
    return [
        Row(f"memory, {kind}", f"{with_them:,.0f} MB, {each_kb:.1f} KB a connection", "", "", f"<= {MEMORY_MB} MB",
            with_them <= MEMORY_MB),
        Row(f"send p99, beside {kind} / alone", f"{beside:.1f} ms / {alone:.1f} ms = {beside / alone:.2f}", "", "",
            f"<= {RATIO:g}", beside / alone <= RATIO),
    ]  # fmt: skip


def look(server: Server, base: Path, kind: str, count: int, seconds: int) -> Beside:
    """Measure one crowd: alone before it and after, beside it in between."""
    asyncio.run(prepare(server.namesrv))
    alone_ms = asyncio.run(sends(server.namesrv, [ALONE], seconds))
    before_mb = anonymous_mb(server.pid)
    crowd = child(base, "strangers_crowd", kind, server.address, str(count))
    try:
        crowd.wait_for(says("there"), PATIENCE_S, f"the crowd ({kind})")
        time.sleep(REST_S)
        beside_ms = asyncio.run(sends(server.namesrv, [ALONE], seconds))
        memory_mb = anonymous_mb(server.pid)
        if crowd.process.poll() is not None:
            raise RuntimeError(f"the crowd ({kind}) did not last: {crowd.tail()}")
    finally:
        crowd.kill()
    alone_ms = sorted(alone_ms + asyncio.run(sends(server.namesrv, [ALONE], seconds)))
    return Beside(alone_ms, beside_ms, (before_mb, memory_mb))


async def prepare(namesrv: str) -> None:
    """Make the topics of the crowds, one with large messages."""
    async with AsyncAdmin(namesrv) as admin:
        for topic in (TOPIC, "Crowd"):
            await admin.create_topic(topic, queues=4)
    async with AsyncProducer("strangers", namesrv) as producer:
        for _ in range(LARGE):
            await producer.send(TOPIC, bytes(LARGE_BYTES), queue_id=0)
