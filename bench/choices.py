"""Ways to have something done later, side by side: what docs/CHOOSING.md says of each is measured here."""

from __future__ import annotations

import re
import statistics
import sys
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import psutil
import psycopg
from celery.app.control import Control

from bench.choices_worker import SET, SET_EVERY_S, TABLE, TABLE_EVERY_S, TOPIC, app, handle
from bench.peers import running, work_directory
from bench.results import REPOSITORY, Row, Section, share
from broker.client import Admin, Producer, prepare
from broker.client.timers import TimerTarget
from console.run.postgres import Cluster
from tests.interop.process import Child
from tests.interop.redis_servers import RedisServer
from tests.interop.waiting import wait_until

TITLE = "Ways to have something done later"
DEFINITION = (
    "One process that does what is due (a handler that only notes the time), on one machine with what it stands on; "
    "what is to fall due is put there first. *Late*: {count:,} over {span} s; the handler's time minus the due "
    "one. *Killed*: the same once more, the process is killed (SIGKILL) in the middle and restarted immediately; what "
    "had not been handled {patience} s after the last was due counts as missing. *Waiting*: {waiting:,} due in an "
    "hour; what the process and its server hold more than before (PSS; of the table its size on disk). *Cancel*: one "
    "of these by its number, the median of {cancels}. The table is polled every {table:g} s, as by a task of "
    "Celery's beat, the sorted set every {set:g} s; Celery {celery} with its Redis transport; Valkey writes its "
    "append-only file each second."
)
AHEAD_S, SPAN_S, PATIENCE_S = 12, 30, 45
COUNT, WAITING, CANCELS = 6_000, 100_000, 50
HOUR_MS = 3_600_000
START_S = 60
_TOLD = re.compile(r"(-?\d+) (\d+)")
#: What is held has settled when it changed by less than so much in so many looks, a second apart.
QUIET_BYTES, QUIET_LOOKS = 256 << 10, 5


class Way(Protocol):
    """A way to have something done later."""

    name: str
    title: str
    #: what it answers to a cancel, and whether what waits can be listed
    cancel_says: str
    lists: str

    def __init__(self, base: Path) -> None:
        """Start what it stands on, if it is none of its own."""

    def worker(self, base: Path) -> Child:
        """Start the process that does what is due."""

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Have these numbers done at their moments."""

    @property
    def cancel(self) -> Callable[[int], None] | None:
        """Cancels one that waits, by its number; None where nobody can."""

    def held_bytes(self, worker: Child) -> int:
        """Return what the process and its server hold."""

    def close(self) -> None:
        """End the servers that it stands on."""


def program(way: str, address: str, base: Path) -> Child:
    """Start the worker of a way."""
    return Child([sys.executable, "-m", "bench.choices_worker", way, address], log=base / f"{way}.err", cwd=REPOSITORY)


def held(*pids: int) -> int:
    """Return the memory that these processes and their children hold, pages that they share counted in parts."""
    roots = [psutil.Process(pid) for pid in pids]
    return sum(each.memory_full_info().pss for root in roots for each in (root, *root.children(recursive=True)))


class Table:
    """A table in PostgreSQL that is looked at now and then."""

    name, title = "table", "a table, polled by Celery's beat"
    cancel_says, lists = "yes: a row was deleted, or none", "yes, by SQL"

    def __init__(self, base: Path) -> None:
        self._cluster = Cluster(base / "postgres", "choices")
        self._cluster.start()
        wait_until(lambda: answers(self._cluster.address), START_S)
        self._connection = psycopg.connect(self._cluster.address, autocommit=True)
        self._connection.execute(f"CREATE TABLE {TABLE} (number bigint PRIMARY KEY, due_ms bigint, body text)")
        self._connection.execute(f"CREATE INDEX ON {TABLE} (due_ms)")

    def worker(self, base: Path) -> Child:
        """Start the process that does what is due."""
        return program(self.name, self._cluster.address, base)

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Insert a row for each number."""
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {TABLE} FROM STDIN") as copy:
            for number, due in due_ms.items():
                copy.write_row((number, due, "order"))

    def cancel(self, number: int) -> None:
        """Delete the row of this number."""
        assert self._connection.execute(f"DELETE FROM {TABLE} WHERE number = %s", [number]).rowcount == 1  # noqa: S608 - our own name

    def held_bytes(self, worker: Child) -> int:
        """Return the size of the table with its indexes, and the process."""
        row = self._connection.execute(f"SELECT pg_total_relation_size('{TABLE}')").fetchone()
        assert row is not None
        return int(row[0]) + held(worker.pid)

    def close(self) -> None:
        """End the server that it stands on."""
        self._connection.close()
        self._cluster.stop()


class Heap:
    """A heap in the process itself."""

    name, title = "heap", "a heap in the process (call_later)"
    cancel_says, lists = "only where the program keeps handles", "no"

    def __init__(self, base: Path) -> None:
        pass

    def worker(self, base: Path) -> Child:
        """Start the process that does what is due."""
        return program(self.name, "", base)

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Hand the numbers to the process."""
        for number, due in due_ms.items():
            worker.say(f"{number} {due}")

    cancel = None

    def held_bytes(self, worker: Child) -> int:
        """Return the memory of the process."""
        return held(worker.pid)

    def close(self) -> None:
        """Return: nothing runs beside the process."""


class SortedSet:
    """A sorted set of Redis."""

    name, title = "sorted-set", "a sorted set of Redis"
    cancel_says, lists = "yes: ZREM says 1 or 0", "yes, by time only"

    def __init__(self, base: Path) -> None:
        self._server = everysec(base)
        self._client = self._server.client()

    def worker(self, base: Path) -> Child:
        """Start the process that does what is due."""
        return program(self.name, self._server.url, base)

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Add the numbers to the set."""
        pipeline = self._client.pipeline(transaction=False)
        for number, due in due_ms.items():
            pipeline.zadd(SET, {str(number): due})
        pipeline.execute()

    def cancel(self, number: int) -> None:
        """Take it out of the set."""
        assert self._client.zrem(SET, str(number)) == 1

    def held_bytes(self, worker: Child) -> int:
        """Return the memory of the process and the server."""
        return held(worker.pid, self._server.pid)

    def close(self) -> None:
        """End the server that it stands on."""
        self._client.close()
        self._server.kill()


class CeleryEta:
    """A task of Celery with an ETA, on its Redis transport."""

    name, title = "celery", "Celery with ETA, on Redis"
    cancel_says, lists = "no answer: workers are told to drop it", "what each worker holds, by asking it"

    def __init__(self, base: Path) -> None:
        self._server = everysec(base)
        self._ids: dict[int, str] = {}

    def worker(self, base: Path) -> Child:
        """Start a worker with eight threads."""
        options = ("-P", "threads", "-c", "8", "-l", "ERROR", "--without-gossip", "--without-mingle")
        return Child(
            [sys.executable, "-m", "celery", "-A", "bench.choices_worker", "worker", *options],
            log=base / "celery.err", cwd=REPOSITORY, env={"CHOICES_URL": self._server.url},
        )  # fmt: skip

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Send a task for each number."""
        with app.connection_for_write(self._server.url) as connection, app.amqp.Producer(connection) as producer:
            for number, due in due_ms.items():
                eta_s = due / 1_000 - time.time()
                self._ids[number] = handle.apply_async((number,), countdown=eta_s, producer=producer).id

    def cancel(self, number: int) -> None:
        """Tell all workers to drop it."""
        with app.connection_for_write(self._server.url) as connection:
            Control(app).revoke(self._ids[number], connection=connection)

    def held_bytes(self, worker: Child) -> int:
        """Return the memory of the worker and the server."""
        return held(worker.pid, self._server.pid)

    def close(self) -> None:
        """End the server that it stands on."""
        self._server.kill()


class Escapement:
    """A timer of our broker."""

    name, title = "escapement", "Escapement"
    cancel_says, lists = "yes: cancelled, or what it is instead", "yes, by time, topic, key; counts by the second"

    def __init__(self, base: Path) -> None:
        self._context = running("escapement", base, "sync")
        self._server = self._context.__enter__()
        with Admin(self._server.namesrv) as admin:
            admin.create_topic(TOPIC, queues=4)
        self._producer = Producer("choices", self._server.namesrv)
        self._admin = Admin(self._server.namesrv)

    def worker(self, base: Path) -> Child:
        """Start a consumer of the topic."""
        return program(self.name, self._server.namesrv, base)

    def put(self, worker: Child, due_ms: dict[int, int]) -> None:
        """Send a timer for each number."""
        ready = [prepare(str(number), deliver_at_ms=due, schedule_key=str(number)) for number, due in due_ms.items()]
        for first in range(0, len(ready), 1_000):
            failed = [
                each
                for each in self._producer.send_each(TOPIC, ready[first : first + 1_000])
                if isinstance(each, Exception)
            ]
            assert not failed, failed[0]

    def cancel(self, number: int) -> None:
        """Cancel the timer by its key."""
        target = TimerTarget(topic=TOPIC, schedule_key=str(number))
        (result,) = self._admin.steer_timers("cancel", [target], reason="bench").results
        assert result.outcome == "cancelled", result

    def held_bytes(self, worker: Child) -> int:
        """Return the memory of consumer and broker."""
        return held(worker.pid, self._server.pid)

    def close(self) -> None:
        """End connections and broker."""
        self._producer.close()
        self._admin.close()
        self._context.__exit__(None, None, None)


WAYS = (Heap, Table, SortedSet, CeleryEta, Escapement)


def everysec(base: Path) -> RedisServer:
    """Start Valkey with an append-only file that is synced each second, as installations have it."""
    server = RedisServer(base / "valkey", durable=True)
    text = server._settings.read_text()
    server._settings.write_text(text.replace("appendfsync always", "appendfsync everysec"))
    return server.start()


def answers(address: str) -> bool:
    """Tell whether the database takes connections."""
    try:
        psycopg.connect(address, connect_timeout=1).close()
    except psycopg.OperationalError:
        return False
    return True


# Measured.


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run: how late in ms, sorted; how many never came, and how many came twice."""

    late_ms: list[int]
    missing: int
    twice: int


def measure(options: Namespace, at: str) -> Section:
    """Measure all ways, one after the other."""
    sizes = Sizes(600, 6, 5_000, 5) if options.quick else Sizes(COUNT, SPAN_S, WAITING, CANCELS)
    rows: list[Row] = []
    for way in WAYS:
        late = run(way, sizes, is_killed=False)
        killed = run(way, sizes, is_killed=True)
        bytes_each, cancel_ms = kept_waiting(way, sizes)
        cells = (
            f"{share(late.late_ms, 0.5):,} ms", f"{share(late.late_ms, 0.99):,} ms", f"{late.late_ms[-1]:,} ms",
            f"{killed.missing:,}", f"{killed.twice:,}", f"{bytes_each:,.0f} B",
            f"{cancel_ms:.1f} ms" if cancel_ms is not None else "-",
        )  # fmt: skip
        print(f"  {way.title}: {cells}", file=sys.stderr)
        rows.append(Row(way.title, "", cells=cells))
    definition = DEFINITION.format(
        count=sizes.count, span=sizes.span_s, patience=PATIENCE_S, waiting=sizes.waiting, cancels=sizes.cancels,
        table=TABLE_EVERY_S, set=SET_EVERY_S, celery=version("celery"),
    )  # fmt: skip
    columns = ("late p50", "p99", "max", "missing after a kill", "twice", "waiting, each", "cancel")
    return Section("choices", TITLE, definition, "python -m bench choices", at, rows, columns=columns)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many fall due and over which time, how many wait, and of how many a cancel is timed."""

    count: int
    span_s: int
    waiting: int
    cancels: int


@contextmanager
def started(way: type[Way]) -> Iterator[tuple[Way, Callable[[], Child]]]:
    """Yield a way on servers of its own, and what starts its process."""
    with work_directory() as base:
        one = way(base)
        children: list[Child] = []

        def start() -> Child:
            children.append(one.worker(base))
            return children[-1]

        try:
            yield one, start
        finally:
            for child in children:
                child.kill()
            one.close()


def run(way: type[Way], sizes: Sizes, *, is_killed: bool) -> Outcome:
    """Have so many fall due; kill the process in the middle, if that is asked for."""
    with started(way) as (one, start):
        workers = [start()]
        begin_ms = (time.time_ns() // 1_000_000) + AHEAD_S * 1_000
        due_ms = {number: begin_ms + number * sizes.span_s * 1_000 // sizes.count for number in range(sizes.count)}
        one.put(workers[0], due_ms)
        if is_killed:
            threading.Event().wait(max(0.0, begin_ms / 1_000 + sizes.span_s / 2 - time.time()))
            workers[0].kill()
            workers.append(start())
        wait_until(lambda: len(done(workers)) >= sizes.count, max(due_ms.values()) / 1_000 - time.time() + PATIENCE_S)
        found = done(workers)
        times = Counter(number for worker in workers for number, _ms in told(worker))
        late = sorted(ms - due_ms[number] for number, ms in found.items())
        return Outcome(late, sizes.count - len(found), sum(1 for count in times.values() if count > 1))


def told(worker: Child) -> list[tuple[int, int]]:
    """Return numbers and moments that a process has said."""
    found = (_TOLD.fullmatch(line.strip()) for line in list(worker.lines))  # Celery has words of its own
    return [(int(each[1]), int(each[2])) for each in found if each]


def done(workers: Sequence[Child]) -> dict[int, int]:
    """Return when each number was handled first."""
    found: dict[int, int] = {}
    for worker in workers:
        for number, ms in told(worker):
            found.setdefault(number, ms)
    return found


def kept_waiting(way: type[Way], sizes: Sizes) -> tuple[float, float | None]:
    """Return the bytes that one that waits costs, and the median time of a cancel in ms."""
    with started(way) as (one, start):
        worker = start()
        soon_ms = (time.time_ns() // 1_000_000) + 500
        one.put(worker, {-1: soon_ms})  # until it is handled, everything is loaded
        if not wait_until(lambda: bool(told(worker)), START_S):
            raise RuntimeError(f"{one.title}: the process does nothing: {worker.tail()}")
        before = settled(one, worker)
        far_ms = soon_ms + HOUR_MS
        one.put(worker, {number: far_ms + number % 60_000 for number in range(sizes.waiting)})
        each = (settled(one, worker) - before) / sizes.waiting
        if one.cancel is None:
            return each, None
        took_ms: list[float] = []
        for number in range(0, sizes.waiting, sizes.waiting // sizes.cancels):
            began_s = time.perf_counter()
            one.cancel(number)
            took_ms.append((time.perf_counter() - began_s) * 1_000)
        return each, statistics.median(took_ms)


def settled(way: Way, worker: Child) -> int:
    """Return what is held when that has not grown for some seconds."""
    pause = threading.Event()
    held_bytes = way.held_bytes(worker)
    quiet = 0
    while quiet < QUIET_LOOKS:
        pause.wait(1)
        now_bytes = way.held_bytes(worker)
        quiet = quiet + 1 if abs(now_bytes - held_bytes) < QUIET_BYTES else 0
        held_bytes = now_bytes
    return held_bytes
