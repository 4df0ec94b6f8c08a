"""Millions of pending timers: memory, disk, questions, cancelling by key, lateness, how soon they fire after a crash.

`--store A,B`: stores that `bench.filling` filled before (what it printed in `A.told` beside each); copies are measured.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.filling import DAY_MS, KEYED, TOPIC
from bench.peers import first_answer_s, make, running, work_directory
from bench.results import REPOSITORY, Row, Section
from bench.storage import anonymous_mb
from bench.timers import MAX_MS, P50_MS, P99_MS, RATE, Event, Load
from broker.client import Admin, Producer, TimerTarget
from tests.interop.servers import Server

TITLE = "Timers: millions pending"
DEFINITION = (
    "Timers of 128 bytes with a schedule key each (the first ten million), due at random within 30 days. The engine "
    "takes them in a process of its own (flush async), which is killed with SIGKILL (`python -m bench.filling`), "
    "then a broker is started on the store. Memory is RssAnon, the highest of: while they were taken, and after "
    "each start. List: the first 1,000 from a time on, of a topic, and by key, the slowest of their medians of "
    "five. Forecast: 30 days in steps of 6 h. Cancel: one request each by schedule key, in random order, "
    "{cancels:,} of them. Disk: for each timer beyond its record in the log (queue, timer log, index entries; the "
    "wheel's file has one size). Fires: from the start of the process to a release after it was ready, while "
    "something is due every 250 ms. Power loss: as kill -9, after which nothing of the store is left in the page "
    "cache. Lateness: as in the section above, {rate:,} more a second for {seconds} s, each due at random 1 to 10 s "
    "later, sent and received by RocketMQ's Java client, flush sync."
)
PROBE = "PendingProbe"
SIZES, QUICK_SIZES = (1_000_000, 3_000_000, 10_000_000), (20_000, 50_000)
STEADY_S, WARM_UP_S = 20, 5
MEMORY_MB, ASK_MS, CANCEL_MS, DISK_BYTES, KILLED_S, POWER_S, CLEAN_S = 120, 200, 5, 160, 5, 60, 3
#: A queue entry, a unit of the timer log, and an index entry each for unique key and schedule key.
PARTS_BYTES = (20, 52, 20, 20)


@dataclass(slots=True)
class Figures:
    """The figures measured with one number of pending timers."""

    count: int
    accepted_per_s: float = 0
    memory_mb: float = 0
    list_ms: float = 0
    forecast_ms: float = 0
    cancel_p99_ms: float = 0
    disk_bytes: float = 0
    killed_s: float = 0
    power_s: float = 0
    clean_s: float = 0
    first_s: float = 0
    late: Event = field(default_factory=dict)


def measure(options: Namespace, at: str) -> Section:
    """Measure one store after the other, each from nothing."""
    cancels, seconds = (200, 5) if options.quick else (2_000, STEADY_S)
    stores = [Path(name) for name in options.store.split(",") if name]
    counts = (options.messages,) if options.messages else QUICK_SIZES if options.quick else SIZES
    found = []
    for one in stores or counts:
        with work_directory() as base:
            server = make("escapement", base, "async")
            server.root.parent.mkdir(parents=True, exist_ok=True)
            taken = copied(one, server.root) if isinstance(one, Path) else filled(one, server.root)
            found.append(figures(server, base, taken, cancels, seconds))
    with work_directory() as base:
        empty = on_empty_store(base, seconds)
    rows = [row for each in found for row in rows_of(each)]
    queue, unit, unique, key = PARTS_BYTES
    parts = f"queue entry {queue}, unit of the timer log {unit}, index: unique key {unique}, schedule key {key}"
    notes = [f"bytes beyond the record, by format: {parts}"]
    notes += [
        f"{each.count:,}: taken at {each.accepted_per_s:,.0f}/s; the first start after that process was killed, with "
        f"most units behind the wheel's file, answered a send after {each.first_s:.2f} s"
        for each in found
    ]
    notes.append("lateness with nothing else pending, same run: " + ", ".join(late_words(empty)))
    definition = DEFINITION.format(cancels=cancels, rate=RATE, seconds=seconds)
    return Section("pending", TITLE, definition, "python -m bench pending", at, rows, notes, "")


def late_words(late: Event) -> list[str]:
    """Return in words what the Java program told of lateness."""
    return [f"{name} {late[name]} ms" for name in ("p50", "p99", "max")]


def rows_of(each: Figures) -> list[Row]:
    """Return one row a figure; targets hold for 10 million, and for all that are fewer."""
    name = f"{each.count:,} pending"

    def row(what: str, value: float, unit: str, limit: float, digits: int) -> Row:
        return Row(f"{name}: {what}", f"{value:,.{digits}f} {unit}", "", "", f"<= {limit} {unit}", value <= limit)

    return [
        row("memory", each.memory_mb, "MB", MEMORY_MB, 0),
        row("list", each.list_ms, "ms", ASK_MS, 0),
        row("forecast", each.forecast_ms, "ms", ASK_MS, 0),
        row("cancel by key, p99", each.cancel_p99_ms, "ms", CANCEL_MS, 1),
        row("disk beyond the record", each.disk_bytes, "bytes", DISK_BYTES, 0),
        row("fires after kill -9", each.killed_s, "s", KILLED_S, 2),
        row("fires after power loss", each.power_s, "s", POWER_S, 2),
        row("fires after a clean stop", each.clean_s, "s", CLEAN_S, 2),
        row("lateness p50", each.late["p50"], "ms", P50_MS, 0),
        row("lateness p99", each.late["p99"], "ms", P99_MS, 0),
        row("lateness max", each.late["max"], "ms", MAX_MS, 0),
        row("early, lost or twice", each.late["early"] + each.late["lost"] + each.late["twice"], "timers", 0, 0),
    ]


def figures(server: Server, base: Path, taken: dict[str, float], cancels: int, seconds: int) -> Figures:
    """Start a broker on a full store, ask it, stop it in all ways."""
    count = int(taken["count"])
    told = Figures(count, taken["taken_per_s"], taken["memory_mb"])
    try:
        server.prepare()
        begin_s = time.monotonic()
        server.launch()
        told.first_s = first_answer_s(server.address, f"{PROBE}First", begin_s=begin_s, timeout_s=300)
        told.memory_mb = max(told.memory_mb, anonymous_mb(server.pid))
        with Admin(server.namesrv) as admin:
            pending = admin.timer_status().pending
            assert pending == count, f"{pending:,} of {count:,} are pending"
            told.list_ms, told.forecast_ms = asked(admin)
            told.cancel_p99_ms = cancelled(admin, count, cancels)
        probe(server)
        told.killed_s = fires_again(server, server.kill)
        told.memory_mb = max(told.memory_mb, anonymous_mb(server.pid))
        told.power_s = fires_again(server, lambda: lose_power(server))
        told.memory_mb = max(told.memory_mb, anonymous_mb(server.pid))
        told.clean_s = fires_again(server, server.stop)
        told.memory_mb = max(told.memory_mb, anonymous_mb(server.pid))
        with Admin(server.namesrv) as admin:
            left = {row.topic: row.pending for row in admin.timer_status().by_topic}[TOPIC]
            assert left == count - cancels, f"{left:,} are pending, {count - cancels:,} should be"
        told.disk_bytes = disk_beyond_records(server.root, count)
        server.stop()
        server.shape = replace(server.shape, flush="sync")
        server.start()
        told.late = steady(server, base, seconds)
        told.memory_mb = max(told.memory_mb, anonymous_mb(server.pid))
    finally:
        server.kill()
        shutil.rmtree(server.root, ignore_errors=True)
    print(f"  {told}", file=sys.stderr)
    return told


def probe(server: Server) -> None:
    """Make the topic of the probes."""
    with Producer("probe", server.namesrv) as producer:
        producer.send(PROBE, b"first")


def steady(server: Server, base: Path, seconds: int) -> Event:
    """Measure how late timers are that come and go beside those that wait."""
    load = Load(server, base)
    load.steady(RATE, WARM_UP_S)
    late = load.steady(RATE, seconds)
    load.end()
    return late


def on_empty_store(base: Path, seconds: int) -> Event:
    """Measure how late timers are on a store where nothing else waits."""
    with running("escapement", base, "sync") as server:
        return steady(server, base, seconds)


def filled(count: int, root: Path) -> dict[str, float]:
    """Fill a store, which may take long; what the filling process told."""
    command = [sys.executable, "-m", "bench.filling", str(root), str(count)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, check=False).stdout
    return dict[str, float](json.loads(told))


def copied(store: Path, root: Path) -> dict[str, float]:
    """Copy a filled store, holes as holes; what the filling process told. Gigabytes on their way to the disk would be
    measured as well: it is waited for."""
    subprocess.run(["cp", "-r", "--sparse=always", str(store), str(root)], check=True)
    os.sync()
    return dict[str, float](json.loads(store.with_name(store.name + ".told").read_text().splitlines()[-1]))


def lose_power(server: Server) -> None:
    """Kill the broker; the next one finds nothing of the store in memory."""
    server.kill()
    os.sync()
    for path in server.root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def asked(admin: Admin) -> tuple[float, float]:
    """Return the slowest of some lists, and of some forecasts, in ms."""
    now_ms = time.time_ns() // 1_000_000
    end_ms = now_ms + 31 * DAY_MS
    lists: list[Callable[[], object]] = [
        lambda: admin.timers(now_ms, end_ms, limit=1_000),
        lambda: admin.timers(now_ms + 5 * DAY_MS, end_ms, limit=1_000),
        lambda: admin.timers(now_ms + 20 * DAY_MS, end_ms, topic=TOPIC, limit=1_000),
        lambda: admin.timers(now_ms, end_ms, key="key-4711", limit=100),
    ]
    forecasts: list[Callable[[], object]] = [
        lambda: admin.timer_forecast(now_ms, now_ms + 30 * DAY_MS, DAY_MS // 4),
        lambda: admin.timer_wheel(now_ms, now_ms + 30 * DAY_MS, DAY_MS // 4),
    ]
    return max(taken_ms(one) for one in lists), max(taken_ms(one) for one in forecasts)


def taken_ms(question: Callable[[], object]) -> float:
    """Measure how long one answer takes, the median of five."""
    times = []
    for _ in range(5):
        begin_s = time.perf_counter()
        question()
        times.append((time.perf_counter() - begin_s) * 1_000)
    return sorted(times)[2]


def cancelled(admin: Admin, count: int, cancels: int) -> float:
    """Return the 99th percentile of cancelling by key, in ms."""
    times = []
    for number in random.Random(5).sample(range(min(count, KEYED)), cancels):
        begin_s = time.perf_counter()
        answer = admin.steer_timers("cancel", [TimerTarget(topic=TOPIC, schedule_key=f"key-{number}")])
        times.append((time.perf_counter() - begin_s) * 1_000)
        assert answer.results[0].outcome == "cancelled", answer
    return sorted(times)[int(len(times) * 0.99)]


def fires_again(server: Server, end: Callable[[], object]) -> float:
    """Return the seconds from the start of the process to the first release of what was due meanwhile."""
    with Producer("probe", server.namesrv) as producer, Admin(server.namesrv) as admin:
        soon_ms = time.time_ns() // 1_000_000 + 2_000
        for number in range(600):
            producer.send(PROBE, b"probe", deliver_at_ms=soon_ms + number * 250)
        begun = delivered(admin)
        await_more(server, begun, timeout_s=30)
    end()
    server.prepare()
    begin_s = time.monotonic()
    server.launch()
    first_answer_s(server.address, f"{PROBE}Other", begin_s=begin_s, timeout_s=300)
    with Admin(server.namesrv) as admin:
        before = delivered(admin)
    await_more(server, before, timeout_s=300)
    return time.monotonic() - begin_s


def await_more(server: Server, before: int, timeout_s: float) -> None:
    """Wait until more probes are delivered than before."""
    pause = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    with Admin(server.namesrv) as admin:
        while delivered(admin) <= before:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"nothing was released in {timeout_s} s")
            pause.wait(0.005)


def delivered(admin: Admin) -> int:
    """Return the number of probes delivered to their topic."""
    return sum(queue.max_offset for queue in admin.topic_stats(PROBE).queues)


def disk_beyond_records(root: Path, count: int) -> float:
    """Return the bytes of derived files for each timer: queue entries, units, index entries that are used."""
    queue = PARTS_BYTES[0]
    units = sum(used_bytes(path) for path in (root / "timerlog").iterdir()) / count
    index = sum(index_entries(path) for path in (root / "index").iterdir()) * 20 / count
    return queue + units + index


def used_bytes(path: Path) -> int:
    """Return the bytes of a file that are allocated on disk."""
    return os.stat(path).st_blocks * 512


def index_entries(path: Path) -> int:
    """Return the number of entries of one index file, from its header."""
    with path.open("rb") as opened:
        return int.from_bytes(opened.read(40)[36:40], "big")
