"""Size and time of console pages with many topics and a million pending messages."""

from __future__ import annotations

import statistics
import sys
import time
from argparse import Namespace
from pathlib import Path

import httpx

from bench.installation import Installation, installed
from bench.peers import running, work_directory
from bench.results import Row, Section
from broker.client import Admin
from tests.interop import jars
from tests.interop.process import Child
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

TITLE = "Console pages"
DEFINITION = (
    "{topics:,} topics and {pending:,} messages pending on levels 16 and 18. Server time is the time from request "
    "to the last byte over loopback on a kept connection, one request at a time, median of {requests}; size is the "
    "HTML before compression."
)
LEVELS = (16, 18)
SIZE_KB, TIME_MS = 100, 100
PAGES = {
    "overview": "/",
    "due": "/due/",
    "schedule": "/schedule/",
    "a delay level": "/schedule/18/",
    "topics": "/topics/",
    "a topic": "/topics/SCHEDULE_TOPIC_XXXX/",
    "groups": "/groups/",
}


def measure(options: Namespace, at: str) -> Section:
    """Measure a bare broker with the messages, and an installation that follows it."""
    topics, pending, requests = (100, 20_000, 10) if options.quick else (1_000, 1_000_000, 40)
    with work_directory() as base, running("escapement", base, "async") as server:
        with Admin(server.namesrv) as admin:
            for number in range(topics):
                admin.create_topic(f"Topic-{number:04}", queues=4)
        for level in LEVELS:
            park(server, base, level, pending // len(LEVELS))
        with installed(base, server.namesrv) as one:
            rows = visit(one, topics, requests)
    definition = DEFINITION.format(topics=topics, pending=pending, requests=requests)
    return Section("page", TITLE, definition, "python -m bench page", at, rows, [])


def park(server: Server, base: Path, level: int, count: int) -> None:
    """Send delayed messages with RocketMQ's benchmark producer."""
    library = f"{jars.library(jars.APACHE_VERSION)}/*"
    main = "org.apache.rocketmq.example.benchmark.Producer"
    arguments = ["-n", server.namesrv, "-t", "Parked", "-w", "64", "-s", "128", "-q", str(count)]
    delayed = ["-d", "true", "-e", str(level), "-k", "true"]
    command = [jars.tool("java"), "-Xmx512m", f"-Duser.home={base}", "-cp", library, main, *arguments, *delayed]
    child = Child(command, log=base / "park.err")
    with Admin(server.namesrv) as admin:
        if not wait_until(lambda: parked(admin, level) >= count - 64, timeout_s=600):
            raise RuntimeError(f"only {parked(admin, level)} messages parked on level {level}: {child.tail()}")
    child.kill()


def parked(admin: Admin, level: int) -> int:
    """Return the length of a level's queue."""
    queues = {each.queue.queue_id: each.max_offset for each in admin.topic_stats("SCHEDULE_TOPIC_XXXX").queues}
    return queues.get(level - 1, 0)


def visit(one: Installation, topics: int, requests: int) -> list[Row]:
    """Return the size and time of each page, once the mirror has caught up."""
    client = one.signed_in()
    newest = f"Topic-{topics - 1:04}"
    if not wait_until(lambda: client.get(f"/topics/{newest}/").status_code == 200, timeout_s=120):
        raise RuntimeError("the mirror did not catch up in 120 s")
    rows = [row(client, name, path, requests) for name, path in PAGES.items()]
    client.close()
    return rows


def row(client: httpx.Client, name: str, path: str, requests: int) -> Row:
    """Measure the answers for one page."""
    times_ms: list[float] = []
    size_kb = 0.0
    for _ in range(requests + 3):
        begin_s = time.perf_counter()
        answer = client.get(path)
        times_ms.append((time.perf_counter() - begin_s) * 1_000)
        answer.raise_for_status()
        size_kb = len(answer.content) / 1_000
    median_ms = statistics.median(times_ms[3:])
    print(f"  {path}: {size_kb:.0f} kB, {median_ms:.0f} ms", file=sys.stderr)
    holds = size_kb <= SIZE_KB and median_ms <= TIME_MS
    return Row(name, f"{size_kb:.0f} kB, {median_ms:.0f} ms", target=f"<= {SIZE_KB} kB, {TIME_MS} ms", holds=holds)
