"""The mirrors of all brokers: one of each, in a thread of its own, so that one that is away holds up no other.

`ClusterMirror` belongs to one entry of the list of clusters. Every few seconds it asks the name service who is there,
starts a mirror for each broker that is new, and writes down how each process of each broker answers (`Replica`). A
broker with rows is followed also where the name service does not list it: its rows say that it is away, until somebody
forgets it. While the name service is away, brokers are followed where they were.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from django.db import DatabaseError, InterfaceError, connections, transaction

from ..client import Admin
from ..client.admin import Broker as Process
from ..client.errors import ClientError
from .announcer import Announcer, now_us
from .clock_file import broker_now_ms
from .follower import Mirror
from .lock import Lock, MirrorBusyError
from .models import ENTRY_MARK, Broker, Replica, row_name
from .writer import fit_rows, storable

logger = logging.getLogger(__name__)

#: how often the name service is asked who is there, and each process how it is
LOOK_INTERVAL_S = 5.0
#: how long a process may take to answer, and how many are asked at once
ANSWER_TIMEOUT_MS = 1_500
ASKED_AT_ONCE = 16
#: a slave that is listed no more goes after this time
KEPT_MS = 86_400_000
UNLISTED = "The name service does not list it any more."


def follow(clusters: Mapping[str, str], stop: threading.Event) -> None:
    """Mirror all brokers of these clusters (entry -> name servers), and tell the pages, until `stop`."""
    announcer = Announcer()
    try:
        mirrors = [ClusterMirror(namesrv, entry=entry, announcer=announcer) for entry, namesrv in clusters.items()]
        threads = [_thread(f"mirror-{mirror.entry or 'first'}", partial(mirror.run, stop)) for mirror in mirrors]
        for thread in threads:
            thread.join()
    finally:
        announcer.close()


def _thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """Start a thread that leaves no connection of its own behind."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


@dataclass(frozen=True, slots=True)
class _Followed:
    """The mirror of one broker at work."""

    stop: threading.Event
    thread: threading.Thread


class ClusterMirror:
    """The mirrors of one cluster's brokers. `run` it in a thread of its own."""

    def __init__(
        self, namesrv: str, *, entry: str = "", announcer: Announcer | None = None, database: str = "default",
        clock: Callable[[], int] = broker_now_ms,
    ) -> None:  # fmt: skip
        self.entry = entry
        self._namesrv = namesrv
        self._announcer = announcer
        self._database = database
        self._clock = clock
        self._followed: dict[str, _Followed] = {}
        self._replicas = ReplicaRows(entry, announcer, database, clock)

    def run(self, stop: threading.Event) -> None:
        """Follow until `stop`; then end all mirrors."""
        try:
            with Admin(self._namesrv) as admin, ThreadPoolExecutor(ASKED_AT_ONCE, "replicas") as pool:
                while not stop.is_set():
                    self._look(admin, pool)
                    stop.wait(LOOK_INTERVAL_S)
        finally:
            self._end(list(self._followed))
            self._replicas.close()

    def _look(self, admin: Admin, pool: ThreadPoolExecutor) -> None:
        try:
            listed = admin.members()
        except ClientError as error:
            logger.warning("the name service of %s cannot be asked: %s", self.entry or "the first cluster", error)
            listed = ()
        try:
            rows = Broker.objects.using(self._database).filter(entry=self.entry)
            names = {each.name for each in listed} | {row.own_name for row in rows}
            dead = {name for name, each in self._followed.items() if not each.thread.is_alive()}
            self._end(dead | (self._followed.keys() - names))
            for name in sorted(names - self._followed.keys()):
                self._follow(name, sets_clock=not self.entry and name == min(names))
            self._replicas.look(admin, listed, pool)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The mirror cannot reach the database: %s", error)
            self._replicas.forget()
            connections[self._database].close()

    def _follow(self, name: str, *, sets_clock: bool) -> None:
        """Start the mirror of a broker."""
        stop = threading.Event()

        def run() -> None:
            with Admin(self._namesrv, broker=name) as source:
                mirror = Mirror(
                    source, name, entry=self.entry, sets_clock=sets_clock, announcer=self._announcer,
                    database=self._database, clock=self._clock,
                )  # fmt: skip
                mirror.run(stop)

        logger.info("broker %s is followed", row_name(self.entry, name))
        self._followed[name] = _Followed(stop, _thread(f"mirror-{row_name(self.entry, name)}", run))

    def _end(self, names: Iterable[str]) -> None:
        """End the mirrors of these brokers, all at once."""
        ended = [self._followed.pop(name) for name in tuple(names)]
        for each in ended:
            each.stop.set()
        for each in ended:
            each.thread.join()


class ReplicaRows:
    """The rows of the processes of one cluster; of several mirrors one writes them. One thread uses it."""

    def __init__(self, entry: str, announcer: Announcer | None, database: str, clock: Callable[[], int]) -> None:
        self._entry = entry
        self._announcer = announcer
        self._database = database
        self._clock = clock
        # no broker is named so: the mark stands behind an entry's name
        self._lock = Lock(f"{ENTRY_MARK}{entry}", database)

    def close(self) -> None:
        """Let the lock go; twice is fine."""
        self._lock.release()

    def forget(self) -> None:
        """Note that the database session has ended, and the lock with it."""
        self._lock.forget()

    def look(self, admin: Admin, listed: Iterable[Process], pool: ThreadPoolExecutor) -> None:
        """Ask each process how it is, all at once, and write it down. Raises DatabaseError."""
        try:
            self._lock.hold()
        except MirrorBusyError:
            return
        processes = list(listed)
        told = list(pool.map(partial(figures_of, admin), processes))
        if not processes:
            return
        here = Replica.objects.using(self._database).filter(broker__entry=self._entry)
        known = {(row.broker_id, row.number): row for row in here}
        before = {key: row.error for key, row in known.items()}
        now_ms = self._clock()
        rows = [self._row(process, figures, known, now_ms) for process, figures in zip(processes, told, strict=True)]
        seen = {(row.broker_id, row.number) for row in rows}
        unlisted = [row for key, row in known.items() if key not in seen]
        for row in unlisted:
            row.error = UNLISTED
        with transaction.atomic(using=self._database):
            self._write(processes, [*rows, *unlisted])
            gone = [row.pk for row in unlisted if row.number and (row.as_of_ms or 0) < now_ms - KEPT_MS]
            Replica.mirror_writer.using(self._database).filter(pk__in=gone).delete()
        if self._announcer is not None and any(before.get((row.broker_id, row.number)) != row.error for row in rows):
            self._announcer.announce(now_us(), {"mirror"})

    def _row(
        self, process: Process, figures: Mapping[str, str] | ClientError, known: Mapping[tuple[str, int], Replica],
        now_ms: int,
    ) -> Replica:  # fmt: skip
        """Return the row of a process: what it says now, or what it said last and why it does not answer."""
        name = row_name(self._entry, process.name)
        row = known.get((name, process.broker_id)) or Replica(broker_id=name, number=process.broker_id)
        row.role = Replica.Role.SLAVE if process.broker_id else Replica.Role.MASTER
        row.address = process.address
        if isinstance(figures, ClientError):
            row.error = storable(str(figures))
            return row
        row.error, row.as_of_ms = "", now_ms
        row.version = figures.get("brokerVersionDesc", "")
        end = figures.get("commitLogMaxOffset", "")
        row.log_end_position = int(end) if end.isdecimal() else None
        return row

    def _write(self, processes: Iterable[Process], rows: list[Replica]) -> None:
        """Write these rows, and one for each broker that has none yet. Call inside a transaction."""
        new = {
            name: Broker(name=name, entry=self._entry, cluster=each.cluster, address=each.address)
            for each in processes
            if (name := row_name(self._entry, each.name))
        }
        fitting = fit_rows("brokers", new.values(), ("name",), [])
        Broker.mirror_writer.bulk_create(fitting, ignore_conflicts=True)
        # an unlisted one may have been forgotten meanwhile
        there = set(Broker.objects.using(self._database).filter(entry=self._entry).values_list("name", flat=True))
        kept = fit_rows("replicas", (row for row in rows if row.broker_id in there), ("broker", "number"), [])
        Replica.upsert(kept, ("broker", "number"))


def figures_of(admin: Admin, process: Process) -> Mapping[str, str] | ClientError:
    """Return a process' figures (request 28), or why it does not tell them."""
    try:
        return admin.runtime(address=process.address, timeout_ms=ANSWER_TIMEOUT_MS)
    except ClientError as error:
        return error
