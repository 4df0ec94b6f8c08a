"""The time from the commit of a transaction to its consumer, at a steady rate."""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace

from bench.disk import bare_syncs
from bench.pace import at_rate
from bench.peers import running, work_directory
from bench.results import Row, Section, share
from broker.client import AsyncConsumer, AsyncTransactionProducer, Decision, prepare
from broker.rocketmq.message import Message
from tests.interop.servers import Server

TITLE = "Transactions: from commit to consumer"
DEFINITION = (
    "One Python program makes {rate:,} transactions a second for {seconds} s, a half of 128 bytes and its commit each, "
    "and consumes them. The time is from before the commit is sent to the consumer's handler, in us of one clock. The "
    "first {skip} s are warm-up. Flush async, RocketMQ's default, and flush sync; the brokers one after the other."
)
TOPIC = "Committed"
RATE, SKIP_S = 1_000, 10
P99_TARGET_MS = 10
ARRIVAL_TIMEOUT_S = 30


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers, on stores of their own."""
    seconds = 15 if options.quick else 40
    rows: list[Row] = []
    notes: list[str] = []
    for flush in ("async", "sync"):
        taken: dict[str, list[int]] = {}
        for kind in ("escapement", "apache"):
            with work_directory() as base:
                if flush == "sync" and kind == "escapement":
                    notes.append(bare_syncs(base))
                with running(kind, base, flush) as server:
                    taken[kind] = asyncio.run(commit_to_consumer_us(server, seconds))
            print(f"  {kind}: p99 {share(taken[kind], 0.99)} us of {len(taken[kind])}", file=sys.stderr)
        ours, theirs = taken["escapement"], taken["apache"]
        rows += [row(flush, f"p{int(part * 100)}", share(ours, part), share(theirs, part)) for part in (0.5, 0.99)]
        rows.append(row(flush, "max", ours[-1], theirs[-1]))
        notes.append(f"messages counted, flush {flush}: ours {len(ours):,}, theirs {len(theirs):,}; each arrived once")
    definition = DEFINITION.format(rate=RATE, seconds=seconds, skip=SKIP_S)
    return Section("commits", TITLE, definition, "python -m bench commits", at, rows, notes)


def row(flush: str, name: str, ours_us: int, theirs_us: int) -> Row:
    """Return a row of one figure in ms; only p99 has a target."""
    aim = name == "p99"
    target = f"<= {P99_TARGET_MS} ms" if aim else ""
    holds = ours_us <= P99_TARGET_MS * 1_000 if aim else None
    ratio = f"{ours_us / theirs_us:.2f}"
    return Row(
        f"flush {flush}, commit to consumer {name}",
        f"{ours_us / 1_000:.1f} ms",
        f"{theirs_us / 1_000:.1f} ms",
        ratio,
        target,
        holds,
    )


async def commit_to_consumer_us(server: Server, seconds: int) -> list[int]:
    """Return the times of all after the warm-up, us, sorted. Raise RuntimeError if one is missing, or arrives twice."""
    committed_s: dict[int, float] = {}
    arrived_s: dict[int, float] = {}
    arrived = asyncio.Event()
    again = 0

    async def arrive(message: Message) -> None:
        nonlocal again
        number = int(message.body)
        again += number in arrived_s
        arrived_s[number] = time.monotonic()
        arrived.set()

    async def unknown(_: Message) -> Decision:
        return Decision.UNKNOWN

    async with AsyncTransactionProducer("committers", server.namesrv, check=unknown) as producer:
        await producer.send(TOPIC, f"{-1:0128d}")
        consumer = AsyncConsumer("readers", server.namesrv, from_where="first")
        consumer.subscribe(TOPIC, "*", arrive)
        await consumer.start()

        async def transact(number: int) -> None:
            half = await producer.send_half(TOPIC, prepare(f"{number:0128d}"))
            committed_s[number] = time.monotonic()
            await producer.end(half, Decision.COMMIT)

        over = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, over.set)
        await at_rate(transact, RATE, over)
        async with asyncio.timeout(ARRIVAL_TIMEOUT_S):
            while committed_s.keys() - arrived_s.keys():
                arrived.clear()
                await arrived.wait()
        await consumer.stop()
    if again:
        raise RuntimeError(f"{server.name}: {again} messages arrived twice")
    begin_s = min(committed_s.values()) + SKIP_S
    return sorted(int((arrived_s[name] - at_s) * 1_000_000) for name, at_s in committed_s.items() if at_s >= begin_s)
