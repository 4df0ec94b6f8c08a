"""The console over eight brokers of ours: its pages, what the mirror takes, and how soon a dead broker is noticed."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import httpx

from bench import cluster_contents as contents
from bench.brokers import Brokers, several
from bench.console_outage import noticed
from bench.consoles import busy, figure
from bench.installation import Installation, installed
from bench.pace import at_rate
from bench.peers import work_directory
from bench.results import Row, Section, share
from broker.client import AsyncProducer
from tests.interop.servers import StoreShape
from tests.interop.waiting import wait_until

TITLE = "The console over eight brokers"
DEFINITION = (
    "{brokers} brokers of ours, a process each, registered at two name services; {topics:,} topics each, half of "
    "which all brokers have and half of which are its own, of 2 queues with a message in each topic; {groups} groups, "
    "with progress; {parked:,} messages in two delay levels, {timers:,} timers and {halves} open halves each. Mirror, "
    "web and jobs are processes of one installation on PostgreSQL and Valkey. *Pages*: request to last byte over "
    "loopback on a kept connection, one at a time, {requests} times, while the mirror follows; *in total* without a "
    "choice, *by broker* the same below `/at/{one}/`. *Mirror*: processor time of its process in {seconds} s, with no "
    "page open; sends go to all topics in turn. *Noticed*: from the signal to the frame of the open first page that "
    "says so, {rounds} brokers each, one after the other; brokers that were stopped continue before the next one is. "
    "*With one stopped*: the pages in total again, {dead_requests} times."
)
PAGE_MS, MIRROR_PERCENT, NOTICED_S = 150, 20, 10
RATE = 200
REST_S, CAUGHT_UP_S = 10, 300


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of everything that is furnished and measured."""

    brokers: int = 8
    requests: int = 40
    dead_requests: int = 10
    seconds: int = 30
    rounds: int = 3
    contents: contents.Size = contents.FULL


QUICK = Scale(3, 5, 2, 5, 1, contents.Size(topics=50, groups=10, parked=40, timers=40, halves=5))
#: a segment and an index of each broker are on the disk as a whole
SHAPE = StoreShape(flush="async", segment_size_bytes=64 << 20)


@dataclass(frozen=True, slots=True)
class Times:
    """The answers of one page, in ms, sorted."""

    p50_ms: float
    p95_ms: float


Found = Mapping[str, Times]


def measure(options: Namespace, at: str) -> Section:
    """Start the brokers, fill them, and look at them."""
    scale = QUICK if options.quick else Scale()
    with ExitStack() as stack:
        base = stack.enter_context(work_directory())
        brokers = stack.enter_context(several(scale.brokers, base, SHAPE))
        print(f"  {scale.brokers} brokers are up", file=sys.stderr)
        asyncio.run(contents.furnish(brokers.namesrv, brokers.names, scale.contents))
        print("  they are filled", file=sys.stderr)
        rows, notes = looked_at(stack.enter_context(installed(base, brokers.namesrv)), brokers, scale)
    size = scale.contents
    definition = DEFINITION.format(
        brokers=scale.brokers, topics=size.topics, groups=size.groups, parked=size.parked, timers=size.timers,
        halves=size.halves, requests=scale.requests, seconds=scale.seconds, rounds=scale.rounds,
        dead_requests=scale.dead_requests, one=brokers.names[-1],
    )  # fmt: skip
    return Section("console-cluster", TITLE, definition, "python -m bench console-cluster", at, rows, notes, "")


def looked_at(one: Installation, brokers: Brokers, scale: Scale) -> tuple[list[Row], list[str]]:
    """Measure pages, mirror and the dead, in this order."""
    client = one.signed_in()
    last = brokers.names[-1]
    await_mirror(client, brokers, scale)
    pages = contents.pages(scale.contents)
    total = visited(client, pages, scale.requests)
    single = visited(client, {name: f"/at/{last}{path}" for name, path in pages.items()}, scale.requests)
    time.sleep(REST_S)
    idle, sending = asyncio.run(mirror_shares(one, brokers, scale))
    away: dict[str, Times] = {}

    def look() -> None:
        away.update(visited(client, pages, scale.dead_requests))

    outage = noticed(one, client.cookies["sessionid"], brokers, scale.rounds, look)
    rows = [
        *rows_of("pages in total", total), *rows_of("pages by broker", single),
        figure("mirror, idle, of a core", idle, "%", MIRROR_PERCENT, 1),
        figure(f"mirror at {RATE} sends/s in all, of a core", sending, "%", MIRROR_PERCENT, 1),
        figure("a stopped broker (SIGSTOP) noticed, the latest", max(outage.stopped_s), "s", NOTICED_S, 1),
        figure("a killed broker (SIGKILL) noticed, the latest", max(outage.killed_s), "s", NOTICED_S, 1),
        Row("one that runs again (SIGCONT) noticed, the latest", f"{max(outage.again_s):.1f} s"),
        *rows_of("pages in total with one stopped", away, is_judged=False),
    ]  # fmt: skip
    notes = [
        f"{where}, p50 and p95: {told(found)}"
        for where, found in (("in total", total), (f"of {last}", single), ("in total with one stopped", away))
    ]
    seen = "; ".join(
        f"{what} {', '.join(f'{each:.1f} s' for each in times)}"
        for what, times in (("stopped", outage.stopped_s), ("again", outage.again_s), ("killed", outage.killed_s))
    )
    return rows, [*notes, f"noticed: {seen}"]


def rows_of(what: str, found: Found, *, is_judged: bool = True) -> list[Row]:
    """Return the median of all pages, and the slowest."""
    slowest = max(found, key=lambda name: found[name].p95_ms)
    middle_ms = statistics.median(each.p50_ms for each in found.values())
    name, p95_ms = f"... p95, the slowest: {slowest}", found[slowest].p95_ms
    return [
        Row(f"{what}, p50 of all {len(found)}", f"{middle_ms:.0f} ms"),
        figure(name, p95_ms, "ms", PAGE_MS) if is_judged else Row(name, f"{p95_ms:.0f} ms"),
    ]


def told(found: Found) -> str:
    """Return a note: both figures of all pages."""
    return "; ".join(f"{name} {each.p50_ms:.0f}, {each.p95_ms:.0f} ms" for name, each in found.items())


def await_mirror(client: httpx.Client, brokers: Brokers, scale: Scale) -> None:
    """Wait until the mirror has read all brokers."""
    begin_s = time.monotonic()
    newest = [f"/at/{name}/topics/{contents.last_topic(name, scale.contents)}/" for name in brokers.names]
    if not wait_until(lambda: all(client.get(path).status_code == 200 for path in newest), timeout_s=CAUGHT_UP_S):
        raise RuntimeError(f"the mirror did not catch up with all brokers in {CAUGHT_UP_S} s")
    print(f"  the mirror has read them, {time.monotonic() - begin_s:.0f} s after sign-in", file=sys.stderr)


def visited(client: httpx.Client, pages: Mapping[str, str], requests: int) -> dict[str, Times]:
    """Return the times of each page."""
    return {name: times_of(client, path, requests) for name, path in pages.items()}


def times_of(client: httpx.Client, path: str, requests: int) -> Times:
    """Return how long a page's answers took."""
    taken: list[float] = []
    for _ in range(requests + 2):
        begin_s = time.perf_counter()
        client.get(path, follow_redirects=True).raise_for_status()
        taken.append((time.perf_counter() - begin_s) * 1_000)
    counted = sorted(taken[2:])
    times = Times(statistics.median(counted), share(counted, 0.95))
    print(f"  {path}: median {times.p50_ms:.0f} ms, p95 {times.p95_ms:.0f} ms", file=sys.stderr)
    return times


async def mirror_shares(one: Installation, brokers: Brokers, scale: Scale) -> tuple[float, float]:
    """Return what the mirror takes of a core, in percent: while nothing happens, and while messages are sent."""
    pid = one.pid_of("--mirror")
    with busy(pid) as idle:
        await asyncio.sleep(scale.seconds)
    topics = contents.topics_in_turn(brokers.names, scale.contents)
    over = asyncio.Event()
    async with AsyncProducer("beside", brokers.namesrv) as producer:

        async def send(number: int) -> None:
            await producer.send(topics[number % len(topics)], contents.BODY, timeout_ms=10_000)

        work = asyncio.create_task(at_rate(send, RATE, over))
        await asyncio.sleep(3)
        with busy(pid) as sending:
            await asyncio.sleep(scale.seconds)
        over.set()
        await work
    print(f"  mirror idle {idle.percent:.1f} %, at {RATE} sends/s {sending.percent:.1f} %", file=sys.stderr)
    return idle.percent, sending.percent
