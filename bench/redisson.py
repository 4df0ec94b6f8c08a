"""Redisson's delayed queue served by us and by Redisson itself, on the same Valkey in the same run."""

from __future__ import annotations

import random
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import redis

from bench.peers import work_directory
from bench.results import Row, Section, share
from bench.transfers import Transfer, fill, passes, probing, transfer
from broker.redisson import DelayedQueue
from broker.redisson.queue import tend_index
from tests.interop.redis_servers import RedisServer
from tests.interop.redisson import CURRENT, JavaQueues
from tests.interop.redisson_service import ServiceProcess

TITLE = "Redisson's delayed queue"
DEFINITION = (
    "Valkey 9 without persistence; both sides use the very same keys. **Transfer**: values with random due times, so "
    "what is due is spread over the whole list; all fall due within 0.2 s after the last offer, while the queue is "
    "served. The figure is values moved a second from the first due time on, until all are moved or {cap} s are over. "
    "**Block**: the slowest answer to a PING from a process that does nothing else, and the slowest command in the "
    "server's SLOWLOG, meanwhile. **One pass** is one LREM that finds nothing; medians of {passes}. "
    "**Lateness**: arrival in a Java consumer (`take()`, 4 threads) minus due; Java "
    "offers {rate:,} a second with delays of 0.5 to 3 s for {seconds} s, the first {skip} s are warm-up. **Remove** "
    "takes one waiting value out by value, here from Python, there from Java. **Bytes** are the server's "
    "`used_memory` for each waiting value of 13 bytes."
)
P99_TARGET_MS, REMOVE_TARGET_MS = 10, 10
TARGET_PER_S = {100_000: 20_000, 1_000_000: 5_000}
#: What one call may take on the server, up to 100,000 waiting.
CALL_TARGET_MS = {100_000: 5}
REMOVALS = 100
PASSES = 21
QUEUE = "orders"
MIN_DELAY_MS, MAX_DELAY_MS = 500, 3_000
CONSUMERS = 4
HOUR_MS = 3_600_000
ARRIVAL_TIMEOUT_S = 60
Serve = Callable[[RedisServer, Path], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Steady:
    """Offers a second, for how long, and how much of it is warm-up."""

    rate: int
    seconds: int
    skip_s: int

    @property
    def count(self) -> int:
        """The number of all offers."""
        return self.rate * self.seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a full or a quick run."""

    waiting: tuple[int, ...]
    background: int
    steady: Steady
    cap_s: float


FULL = Sizes((100_000, 1_000_000), 100_000, Steady(rate=1_000, seconds=40, skip_s=10), 60)
QUICK = Sizes((5_000, 20_000), 5_000, Steady(rate=200, seconds=6, skip_s=2), 10)


@contextmanager
def redisson(server: RedisServer, base: Path) -> Iterator[None]:
    """Run Redisson's own transfer task in a JVM of its own."""
    java = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    try:
        java.open_live(QUEUE)
        yield
    finally:
        java.child.kill()


@contextmanager
def escapement(server: RedisServer, base: Path) -> Iterator[None]:
    """Run our transfer service in a process of its own."""
    service = ServiceProcess(server.url, base).start()
    try:
        yield
    finally:
        service.kill()


SIDES: tuple[Serve, Serve] = (escapement, redisson)


def measure(options: Namespace, at: str) -> Section:
    """Measure each figure for ours, then for theirs, on one server."""
    sizes = QUICK if options.quick else FULL
    rows: list[Row] = []
    with work_directory() as base:
        server = RedisServer(base / "valkey").start()
        try:
            with server.client() as client:
                for waiting in sizes.waiting:
                    rows += transfer_rows(server, client, base, waiting, sizes.cap_s)
                rows += lateness_rows(server, client, base, sizes)
                rows += removal_rows(server, client, base, sizes.background)
                rows += memory_rows(client, sizes.background)
        finally:
            server.kill()
    steady = sizes.steady
    definition = DEFINITION.format(
        cap=int(sizes.cap_s), passes=PASSES, rate=steady.rate, seconds=steady.seconds, skip=steady.skip_s
    )
    return Section("redisson", TITLE, definition, "python -m bench redisson", at, rows, peer=f"Redisson {CURRENT}")


def transfer_rows(server: RedisServer, client: redis.Redis, base: Path, waiting: int, cap_s: float) -> list[Row]:
    """Return the rows of the rate and blocks of both."""
    seen: list[Transfer] = []
    for serve in SIDES:
        empty(client)
        with serve(server, base), probing(client, base) as probe:
            seen.append(transfer(client, probe, QUEUE, waiting, cap_s))
        print(f"  {serve.__name__}: {seen[-1]}, {seen[-1].blocks}", file=sys.stderr)
    empty(client)
    one = passes(client, QUEUE, waiting, PASSES)
    ours, theirs = seen
    call = CALL_TARGET_MS.get(waiting)
    under = f"{waiting:,} waiting"
    return [
        rate_row(ours, theirs, TARGET_PER_S.get(waiting), cap_s),
        figure(f"slowest PING, {under}", ours.blocks.ping_ms, theirs.blocks.ping_ms),
        figure(f"slowest command, {under}", ours.blocks.command_ms, theirs.blocks.command_ms, target_ms=call),
        Row(f"one script, {under}", f"{one.script_ms:,.1f} ms ({one.moved} values; one pass is {one.pass_ms:,.1f} ms)"),
    ]


def rate_row(ours: Transfer, theirs: Transfer, wanted: int | None, cap_s: float) -> Row:
    """Return the row of values moved a second."""
    return Row(
        f"transfer, {ours.waiting:,} waiting",
        str(ours),
        str(theirs),
        f"{ours.per_second / theirs.per_second:.1f}" if theirs.moved else "",
        f">= {wanted:,}/s" if wanted else "",
        ours.keeps(wanted, cap_s) if wanted else None,
    )


def lateness_rows(server: RedisServer, client: redis.Redis, base: Path, sizes: Sizes) -> list[Row]:
    """Return the rows of p50, p99 and max of both."""
    seen: list[list[int]] = []
    for serve in SIDES:
        empty(client)
        fill_background(client, QUEUE, sizes.background)
        with serve(server, base):
            seen.append(lateness_ms(server, base, QUEUE, sizes.steady))
        print(f"  {serve.__name__}: lateness p99 {share(seen[-1], 0.99)} ms of {len(seen[-1])}", file=sys.stderr)
    ours, theirs = seen
    under = f"{sizes.steady.rate:,}/s with {sizes.background:,} waiting"
    return [
        figure(f"lateness p50, {under}", share(ours, 0.5), share(theirs, 0.5)),
        figure(f"lateness p99, {under}", share(ours, 0.99), share(theirs, 0.99), target_ms=P99_TARGET_MS),
        figure(f"lateness max, {under}", ours[-1], theirs[-1]),
        Row("early", str(early(ours)), str(early(theirs)), "", "0", early(ours) == 0),
    ]


def empty(client: redis.Redis) -> None:
    """Remove everything and wait until its memory is free."""
    cast(Any, client).execute_command("FLUSHALL", "SYNC")


def early(late_ms: list[int]) -> int:
    """Count those that came before they were due."""
    return sum(1 for each in late_ms if each < 0)


def figure(name: str, ours: float, theirs: float, *, target_ms: float | None = None) -> Row:
    """Return a row of milliseconds."""
    return Row(
        name,
        f"{ours:,.1f} ms",
        f"{theirs:,.1f} ms",
        f"{ours / theirs:.2f}" if theirs else "",
        "" if target_ms is None else f"<= {target_ms:g} ms",
        None if target_ms is None else ours <= target_ms,
    )


def removal_rows(server: RedisServer, client: redis.Redis, base: Path, waiting: int) -> list[Row]:
    """Return p50 and p99 of both, each from its own language, and the first call here, which may build an index."""
    empty(client)
    fill_background(client, QUEUE, waiting)
    ours = DelayedQueue(QUEUE, client)
    with probing(client, base) as probe:
        begin = time.perf_counter()
        ours.contains("never offered")
        first_ms = (time.perf_counter() - begin) * 1_000
        building = probe.report()
        mine = removals_ms(ours.remove, waiting, REMOVALS)
        block = probe.report()
    empty(client)
    fill_background(client, QUEUE, waiting)
    java = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    try:
        with probing(client, base) as probe:
            theirs = removals_ms(lambda value: java.call("remove", QUEUE, value=value), waiting, REMOVALS)
            their_block = probe.report()
    finally:
        java.child.kill()
    under = f"{waiting:,} waiting"
    return [
        figure(f"remove p50, {under}", share(mine, 0.5), share(theirs, 0.5)),
        figure(f"remove p99, {under}", share(mine, 0.99), share(theirs, 0.99), target_ms=REMOVE_TARGET_MS),
        figure(
            f"remove, slowest command, {under}",
            block.command_ms,
            their_block.command_ms,
            target_ms=CALL_TARGET_MS.get(waiting),
        ),
        Row(f"first search by value, {under}", f"{first_ms:,.0f} ms (in many short calls)", ""),
        Row(f"first search by value, slowest command, {under}", f"{building.command_ms:,.1f} ms", ""),
    ]


def memory_rows(client: redis.Redis, waiting: int) -> list[Row]:
    """Return the bytes that a waiting value takes: as Java leaves it, and with each index of ours."""
    empty(client)
    before = client.info("memory")["used_memory"]
    fill_background(client, QUEUE, waiting)
    plain = client.info("memory")["used_memory"] - before
    queue = DelayedQueue(QUEUE, client)
    while not tend_index(queue):
        continue
    places = client.info("memory")["used_memory"] - before
    queue.contains("never offered")
    values = client.info("memory")["used_memory"] - before
    under = f"{waiting:,} waiting"
    return [
        Row(f"bytes a value, {under}", f"{places / waiting:,.0f} (served)", f"{plain / waiting:,.0f}"),
        Row(f"bytes a value, searched by value within an hour, {under}", f"{values / waiting:,.0f}", ""),
    ]


def fill_background(client: redis.Redis, queue: str, count: int) -> None:
    """Fill in values that stay: random due times between one hour and two from now."""
    now_ms = int(time.time() * 1_000)
    fill(client, queue, count, now_ms + HOUR_MS, now_ms + 2 * HOUR_MS, prefix="waits-")


def lateness_ms(server: RedisServer, base: Path, queue: str, steady: Steady) -> list[int]:
    """Return arrival minus due of each value after the warm-up, sorted; the queue is served by somebody else.

    One JVM offers without a transfer task of its own, another takes. Raises RuntimeError when a value does not arrive.
    """
    offering = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    taking = JavaQueues(server.url, version=CURRENT, work=base, fast_start=False)
    try:
        for _ in range(CONSUMERS):
            taking.begin("traffic.take", queue)
        due_ms = offering.call(
            "traffic.offer",
            queue,
            prefix="late-",
            count=steady.count,
            rate=steady.rate,
            # Whoever keeps the server busy delays the offers too.
            timeout_s=5 * steady.seconds + ARRIVAL_TIMEOUT_S,
            minMs=MIN_DELAY_MS,
            maxMs=MAX_DELAY_MS,
        )
        arrived = dict(taking.await_collected(queue, steady.count, ARRIVAL_TIMEOUT_S))
    finally:
        offering.child.kill()
        taking.child.kill()
    missing = [number for number in range(steady.count) if f"late-{number}" not in arrived]
    if missing:
        raise RuntimeError(f"{len(missing)} of {steady.count} values never arrived, first late-{missing[0]}")
    first = steady.rate * steady.skip_s
    return sorted(arrived[f"late-{number}"] - due_ms[number] for number in range(first, steady.count))


def removals_ms(remove: Callable[[str], bool], waiting: int, count: int) -> list[float]:
    """Return milliseconds of each of `count` removals of values drawn from all that `fill_background` left, sorted.

    Raises RuntimeError when a value that waits is not found.
    """
    taken: list[float] = []
    for number in random.Random(waiting).sample(range(waiting), count):
        begin = time.perf_counter()
        found = remove(f"waits-{number:07d}")
        taken.append((time.perf_counter() - begin) * 1_000)
        if not found:
            raise RuntimeError(f"waits-{number:07d} was not found")
    return sorted(taken)
