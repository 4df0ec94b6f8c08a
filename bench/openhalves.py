"""A million half messages that nobody decides: memory, a round of checks beside sends, pages."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from argparse import Namespace
from pathlib import Path

from bench.installation import Installation, installed
from bench.pace import at_rate
from bench.peers import first_answer_s, make, work_directory
from bench.results import Row, Section, share
from bench.storage import anonymous_mb
from broker.client import AsyncProducer, as_half, prepare
from tests.interop.process import Child
from tests.interop.servers import Server, says

TITLE = "Transactions: halves that stay open"
DEFINITION = (
    "{count:,} halves of 128 bytes of one producer group, sent by the Python client, flush sync; nobody decides. When "
    "all are due a producer of the group appears: the round is from its heartbeat to the last of as many questions, "
    "which it reads and leaves unanswered. Beside it {rate} plain sends a second. Memory is RssAnon, the highest after "
    "filling, after the round, and after kill -9 and start. Page: the console's page of transactions, the slowest of "
    "three kinds, median of {requests} requests each, while the mirror follows."
)
TOPIC, STEADY, GROUP = "Held", "Steady", "holders"
CHUNK, RATE = 500, 300
#: Longer than the time-out of the last half.
IDLE_S = 10
ROUND_S, MEMORY_MB, SEND_RATIO, PAGE_MS = 10, 250, 1.2, 200
PATIENCE_S = 600
PAGES = ("/transactions/", f"/transactions/?group={GROUP}", "/transactions/?state=parked")


def measure(options: Namespace, at: str) -> Section:
    """Measure one broker that is filled once."""
    count = options.messages or (20_000 if options.quick else 1_000_000)
    requests = 5 if options.quick else 20
    with work_directory() as base:
        server = make("escapement", base, "sync")
        server.start()
        try:
            rows, notes = figures(server, base, count, requests)
        finally:
            server.kill()
    definition = DEFINITION.format(count=count, rate=RATE, requests=requests)
    return Section("openhalves", TITLE, definition, "python -m bench openhalves", at, rows, notes, "")


def figures(server: Server, base: Path, count: int, requests: int) -> tuple[list[Row], list[str]]:
    """Fill, let it ask, start it anew, look at it."""
    begin_s = time.monotonic()
    asyncio.run(fill(server.namesrv, count))
    filled_s = time.monotonic() - begin_s
    memory_mb = [anonymous_mb(server.pid)]
    round_s, idle_ms, busy_ms = asyncio.run(asked_beside_sends(server, base, count))
    memory_mb.append(anonymous_mb(server.pid))
    server.kill()
    server.prepare()
    begin_s = time.monotonic()
    server.launch()
    started_s = first_answer_s(server.address, STEADY, begin_s=begin_s, timeout_s=PATIENCE_S)
    memory_mb.append(anonymous_mb(server.pid))
    with installed(base, server.namesrv) as one:
        pages_ms = visit(one, requests)
    quiet, loud = share(idle_ms, 0.99), share(busy_ms, 0.99)
    ratio = loud / quiet
    rows = [
        figure("memory", max(memory_mb), "MB", MEMORY_MB, 0),
        figure("a round of checks", round_s, "s", ROUND_S, 1),
        Row(
            "send p99 in the round / before", f"{loud:.1f} ms / {quiet:.1f} ms = {ratio:.1f}", "", "",
            f"<= {SEND_RATIO}", ratio <= SEND_RATIO,
        ),
        figure("page", max(pages_ms), "ms", PAGE_MS, 0),
        Row("first send answered after kill -9", f"{started_s:.2f} s"),
    ]  # fmt: skip
    notes = [
        f"taken at {count / filled_s:,.0f} halves/s; memory {', '.join(f'{each:.0f}' for each in memory_mb)} MB",
        f"sends before: p50 {share(idle_ms, 0.5):.1f} ms, max {idle_ms[-1]:.0f} ms of {len(idle_ms):,}",
        f"sends in the round: p50 {share(busy_ms, 0.5):.1f} ms, max {busy_ms[-1]:.0f} ms of {len(busy_ms):,}",
        "pages: " + ", ".join(f"{path} {ms:.0f} ms" for path, ms in zip(PAGES, pages_ms, strict=True)),
    ]
    return rows, notes


def figure(name: str, value: float, unit: str, limit: float, digits: int) -> Row:
    """Return a row with an upper limit."""
    return Row(name, f"{value:,.{digits}f} {unit}", "", "", f"<= {limit} {unit}", value <= limit)


async def fill(namesrv: str, count: int) -> None:
    """Send the halves, some thousand on their way at a time."""
    body = b"x" * 128
    async with AsyncProducer("fill", namesrv) as producer:
        await producer.send(STEADY, b"first")
        for start in range(0, count, 8 * CHUNK):
            parts = [
                [as_half(prepare(body), GROUP) for _ in range(min(CHUNK, count - first))]
                for first in range(start, min(start + 8 * CHUNK, count), CHUNK)
            ]
            for outcomes in await asyncio.gather(
                *(producer.send_each(TOPIC, part, timeout_ms=60_000) for part in parts)
            ):
                failed = [each for each in outcomes if isinstance(each, Exception)]
                if failed:
                    raise failed[0]


async def asked_beside_sends(server: Server, base: Path, count: int) -> tuple[float, list[float], list[float]]:
    """Return the seconds of the round; how long sends took before it and in it, ms, sorted."""
    taken: list[tuple[float, float]] = []
    async with AsyncProducer("steady", server.namesrv) as producer:

        async def send(_: int) -> None:
            begin_s = time.monotonic()
            await producer.send(STEADY, b"steady", timeout_ms=30_000)
            taken.append((begin_s, (time.monotonic() - begin_s) * 1_000))

        over = asyncio.Event()
        sending = asyncio.create_task(at_rate(send, RATE, over))
        await asyncio.sleep(IDLE_S + 1)
        child = Child([sys.executable, "-m", "bench.asked", server.address, GROUP, str(count)], log=base / "asked.err")
        try:
            await asyncio.to_thread(child.wait_for, says("there"), PATIENCE_S, "a producer that is asked")
            begin_s = time.monotonic()
            line = await asyncio.to_thread(child.wait_for, says("asked "), PATIENCE_S, "the last question")
            end_s = time.monotonic()
        finally:
            child.kill()
        over.set()
        await sending
    first_s = taken[0][0] + 1  # the first second is warm-up
    idle_ms = sorted(ms for at_s, ms in taken if first_s <= at_s < begin_s)
    busy_ms = sorted(ms for at_s, ms in taken if begin_s <= at_s < end_s)
    return float(line.split()[-1]), idle_ms, busy_ms


def visit(one: Installation, requests: int) -> list[float]:
    """Return how long each page takes, in ms."""
    client = one.signed_in()
    times: list[float] = []
    for path in PAGES:
        taken: list[float] = []
        for _ in range(requests + 3):
            begin_s = time.perf_counter()
            client.get(path).raise_for_status()
            taken.append((time.perf_counter() - begin_s) * 1_000)
        times.append(statistics.median(taken[3:]))
        print(f"  {path}: {times[-1]:.0f} ms", file=sys.stderr)
    client.close()
    return times
