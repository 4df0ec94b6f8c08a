"""Thousands of topics, groups and clients that wait: what they cost while nothing happens, and what sends then take."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.pace import at_rate
from bench.peers import make, work_directory
from bench.results import REPOSITORY, Row, Section, share
from bench.storage import anonymous_mb
from broker.client import AsyncAdmin, AsyncProducer
from tests.interop.process import Child
from tests.interop.servers import Server, says

TITLE = "Many topics, groups and clients"
DEFINITION = (
    "{count:,} topics of {queues} queues, {count:,} groups, {count:,} connections, each a client with a heartbeat "
    "every 30 s and a long poll that is renewed after 15 s, as Java's clients do. *Idle*: processor time of "
    "the broker's process in {idle} s, beginning {rest} s after the last client came. *Sends*: {rate} messages of "
    "128 bytes a second for {seconds} s to one topic, each from when it ought to leave to its answer, "
    "before there is anything else, and beside them; and then to their topics in turn, so that each wakes a client. "
    "*Rebalance*: {consumers} consumers of `broker.client` in one process share {shared} queues beside all that; "
    "settled is when each queue is read by exactly the member that is to read it. Memory is RssAnon. flush sync."
)
ALONE = "Alone"
QUEUES, RATE, REST_S, CONSUMERS, SHARED = 4, 500, 5, 100, 200
CPU_SHARE, MEMORY_MB, SEND_RATIO, SETTLED_S = 5.0, 400, 2, 5
PATIENCE_S = 180
#: topics that are created at once
WINDOW = 64
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a full or a quick run."""

    count: int
    idle_s: int
    seconds: int


FULL = Sizes(2_000, 60, 30)
QUICK = Sizes(2_000, 20, 8)


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of one run: ms sorted; seconds by what happened."""

    alone_ms: list[float]
    beside_ms: list[float]
    waking_ms: list[float]
    memory_mb: tuple[float, ...]
    idle_share: float
    settled_s: dict[str, float]


def measure(options: Namespace, at: str) -> Section:
    """Measure one broker, first alone, then with all the others."""
    sizes = QUICK if options.quick else FULL
    with work_directory() as base:
        server = make("escapement", base, "sync")
        server.start()
        try:
            found = look(server, base, sizes)
        finally:
            server.kill()
    alone, beside, waking = (share(times, 0.99) for times in (found.alone_ms, found.beside_ms, found.waking_ms))
    settled_s, memory_mb = max(found.settled_s.values()), max(found.memory_mb)
    rows = [
        Row("idle, of a core", f"{found.idle_share:.1f} %", "", "", f"<= {CPU_SHARE:g} %",
            found.idle_share <= CPU_SHARE),
        Row("memory", f"{memory_mb:,.0f} MB", "", "", f"<= {MEMORY_MB} MB", memory_mb <= MEMORY_MB),
        Row("send p99, beside them / alone", f"{beside:.1f} ms / {alone:.1f} ms = {beside / alone:.2f}", "", "",
            f"<= {SEND_RATIO}", beside / alone <= SEND_RATIO),
        Row("send p99, each wakes one of them / alone", f"{waking:.1f} ms / {alone:.1f} ms = {waking / alone:.2f}"),
        Row(f"a rebalance of {CONSUMERS} settles in", f"{settled_s:.1f} s", "", "", f"<= {SETTLED_S} s",
            settled_s <= SETTLED_S),
    ]  # fmt: skip
    notes = [
        "p50 of sends: "
        + ", ".join(f"{share(ms, 0.5):.1f} ms" for ms in (found.alone_ms, found.beside_ms, found.waking_ms)),
        "memory at the start, with all clients, at the end: " + ", ".join(f"{mb:.0f} MB" for mb in found.memory_mb),
        "rebalances: " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in found.settled_s.items()),
    ]
    definition = DEFINITION.format(
        count=sizes.count, queues=QUEUES, idle=sizes.idle_s, rest=REST_S, rate=RATE, seconds=sizes.seconds,
        consumers=CONSUMERS, shared=SHARED,
    )  # fmt: skip
    return Section("many", TITLE, definition, "python -m bench many", at, rows, notes, "")


def look(server: Server, base: Path, sizes: Sizes) -> Found:
    """Measure all figures of one broker."""
    topics = [f"Many{number}" for number in range(sizes.count)]
    alone_ms = asyncio.run(sends(server.namesrv, [ALONE], sizes.seconds))
    memory_mb = [anonymous_mb(server.pid)]
    asyncio.run(create(server.namesrv, topics))
    crowd = child(base, "many_clients", server.address, str(sizes.count))
    try:
        crowd.wait_for(says("waiting"), PATIENCE_S, "the clients")
        waiting = waiting_pulls(server.address)
        if waiting != sizes.count:
            raise RuntimeError(f"{waiting:,} pulls wait, not {sizes.count:,}")
        time.sleep(REST_S)
        idle_share = busy_share(server.pid, sizes.idle_s)
        memory_mb.append(anonymous_mb(server.pid))
        beside_ms = asyncio.run(sends(server.namesrv, [ALONE], sizes.seconds))
        waking_ms = asyncio.run(sends(server.namesrv, topics, sizes.seconds))
        settled_s = rebalances(server, base)
        memory_mb.append(anonymous_mb(server.pid))
        if crowd.process.poll() is not None:
            raise RuntimeError(f"the clients did not last: {crowd.tail()}")
    finally:
        crowd.kill()
    found = Found(alone_ms, beside_ms, waking_ms, tuple(memory_mb), idle_share, settled_s)
    print(f"  idle {idle_share:.2f} %, memory {memory_mb}, {settled_s}", file=sys.stderr)
    return found


def child(base: Path, module: str, *arguments: str) -> Child:
    """Start one of the programs of this measurement."""
    command = [sys.executable, "-u", "-m", f"bench.{module}", *arguments]
    return Child(command, log=base / f"{module}.err", cwd=REPOSITORY)


async def create(namesrv: str, topics: list[str]) -> None:
    """Make the topics, some at a time."""
    left = iter(topics)
    async with AsyncAdmin(namesrv) as admin:

        async def worker() -> None:
            for topic in left:
                await admin.create_topic(topic, queues=QUEUES)

        await asyncio.gather(*(worker() for _ in range(WINDOW)))


def waiting_pulls(address: str) -> int:
    """Ask the broker itself how many pulls wait."""
    text = httpx.get(f"http://{address}/metrics", timeout=60).text
    told = re.search(r"^escapement_waiting_pulls(?:\{.*\})? (\d+)", text, re.MULTILINE)
    return int(told[1]) if told else -1


def busy_share(pid: int, seconds: int) -> float:
    """Return the percentage of a core that a process used in that time."""
    before = ticks(pid)
    time.sleep(seconds)
    return (ticks(pid) - before) / TICKS_PER_S / seconds * 100


def ticks(pid: int) -> int:
    """Return the processor time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def sends(namesrv: str, topics: list[str], seconds: int) -> list[float]:
    """Return the ms of each send, sorted; every topic was sent to once before."""
    taken: list[float] = []
    body = bytes(range(128))
    async with AsyncProducer("many", namesrv) as producer:
        for start in range(0, len(topics), WINDOW):
            await asyncio.gather(*(producer.send(topic, body, queue_id=0) for topic in topics[start : start + WINDOW]))
        begin_s = time.monotonic()

        async def one(number: int) -> None:
            await producer.send(topics[number % len(topics)], body, queue_id=0)
            taken.append((time.monotonic() - begin_s - number / RATE) * 1_000)

        over = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, over.set)
        await at_rate(one, RATE, over)
    return sorted(taken)


def rebalances(server: Server, base: Path) -> dict[str, float]:
    """Return the seconds until the queues were shared out again, by what happened."""
    program = child(base, "many_consumers", server.namesrv, str(CONSUMERS), str(SHARED))
    try:
        program.wait_for(says("over"), PATIENCE_S, "the consumers")
        told = (line.rpartition(" ") for line in program.lines if line != "over")
        return {what: float(seconds) for what, _, seconds in told}
    finally:
        program.kill()
