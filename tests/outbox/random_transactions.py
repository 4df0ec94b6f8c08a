"""Random transactions on a real broker and a real PostgreSQL, both sides killed; then every promise is counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import psycopg

from broker.client import Admin, ClientError, TransactionProducer
from tests.interop.servers import EscapementServer, StoreShape, says
from tests.interop.transactional_project import Project, bodies, new_project
from tests.interop.waiting import wait_until
from tests.outbox.random_worker import DJANGO, GONE, NOBODY, RAW, answer

#: Asked soon and often enough that all is over soon; two seconds are below what the outbox calls early.
SHAPE = StoreShape(transaction_timeout_ms=1_000, transaction_interval_ms=500, transaction_checks=20)
TOPIC, GROUP = "random", "shop"
WORKERS = 2
MADE_S, OVER_S = 3_600, 300


@dataclass
class Verdict:
    """What was counted; everything but `tried`, `parked` and `kills` has to be nothing."""

    tried: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    #: seen in the topic while its transaction was not committed
    visible_before: set[str] = field(default_factory=set)
    #: in the topic although it was rolled back
    both: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)
    #: neither decided nor parked and listed
    undecided: int = 0
    #: parked although somebody knew
    parked_wrongly: set[str] = field(default_factory=set)
    parked: int = 0
    seconds: float = 0

    def faults(self) -> dict[str, object]:
        """What is not nothing."""
        names = ("visible_before", "both", "lost", "copies", "undecided", "parked_wrongly")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class Auditor:
    """Reads the topic all the time, and asks the database about each message when it sees it."""

    def __init__(self, project: Project) -> None:
        self.early: set[str] = set()
        self._project = project
        self._offsets: dict[int, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See what is there, and end."""
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _look_on(self) -> None:
        with psycopg.connect(self._project.database_url, autocommit=True) as database:
            while not self._end.wait(0.02):
                try:
                    with Admin(self._project.server.namesrv) as admin:
                        self._look(admin, database)
                except ClientError:
                    continue  # the broker is down just now, or has no such topic yet

    def _look(self, admin: Admin, database: psycopg.Connection[tuple[str]]) -> None:
        while not self._end.is_set():
            for queue in admin.topic_stats(TOPIC).queues:
                number = queue.queue.queue_id
                at = self._offsets.get(number, 0)
                page = admin.pull(TOPIC, number, at, 32) if at < queue.max_offset else []
                if page:
                    self._check({message.body.decode() for message in page}, database)
                    self._offsets[number] = page[-1].queue_offset + 1
            self._end.wait(0.02)

    def _check(self, names: set[str], database: psycopg.Connection[tuple[str]]) -> None:
        found = database.execute(
            "SELECT name FROM orders WHERE name = ANY(%(names)s)"
            " UNION SELECT name FROM plans WHERE allowed AND name = ANY(%(names)s)",
            {"names": list(names)},
        )
        self.early |= names - {name for (name,) in found}


def gamble(work: Path, postgres: str, count: int, seed: int, *, broker_kills: int) -> Verdict:
    """Make `count` transactions, kill what there is, wait for the end of all checks, count."""
    verdict, began_s = Verdict(), monotonic()
    server = EscapementServer(work / "store", work / "broker", SHAPE)
    server.start()
    try:
        with new_project(server, postgres, GROUP, work) as project:
            _make_tables(project)
            auditor = Auditor(project)
            check = answer(project.database_url)
            with (
                TransactionProducer(RAW, server.namesrv, check=check),
                TransactionProducer(NOBODY, server.namesrv, check=check),
            ):
                _make(project, count, seed, broker_kills, verdict)
                with TransactionProducer(GONE, server.namesrv, check=check):
                    project.checkback()
                    assert wait_until(lambda: _open(server) == 0, OVER_S), f"{_open(server)} are still open"
            auditor.stop()
            verdict.visible_before = auditor.early
            _judge(project, verdict)
    finally:
        server.kill()
    verdict.seconds = monotonic() - began_s
    return verdict


def _make_tables(project: Project) -> None:
    with psycopg.connect(project.database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE plans (name text PRIMARY KEY, kind text, wants text, born double precision,"
            " sent boolean DEFAULT false, allowed boolean DEFAULT false)"
        )


def _make(project: Project, count: int, seed: int, broker_kills: int, verdict: Verdict) -> None:
    """Workers make them; meanwhile checkback and broker are killed and started again, each at its part of the way."""
    share = count // WORKERS
    workers = [
        project.start("tests.outbox.random_worker", TOPIC, str(seed), str(number * share), str(share))
        for number in range(WORKERS)
    ]
    checkback = project.checkback()
    for kill in range(1, broker_kills + 1):
        part = share * WORKERS * kill // (broker_kills + 1)
        _wait_for(lambda part=part: _made(project) >= part)
        checkback.kill()
        project.server.kill()
        verdict.kills.update(("broker", "checkback"))
        project.server.start()
        _wait_for(
            lambda part=part: _made(project) >= part + share // (2 * broker_kills + 2)
        )  # nobody answers meanwhile
        checkback = project.checkback()
    for worker in workers:
        worker.wait_for(says("made "), MADE_S, "all transactions")
    checkback.kill()


def _wait_for(holds: Callable[[], bool]) -> None:
    assert wait_until(holds, MADE_S)


def _made(project: Project) -> int:
    """About so many were begun."""
    with psycopg.connect(project.database_url, autocommit=True) as connection:
        row = connection.execute("SELECT (SELECT count(*) FROM plans) + (SELECT count(*) FROM orders)").fetchone()
        return int(row[0]) if row else 0


def _open(server: EscapementServer) -> int:
    with Admin(server.namesrv) as admin:
        return admin.transaction_status().open


def _judge(project: Project, verdict: Verdict) -> None:
    shown, orders = bodies(project.server, TOPIC), project.orders()
    with psycopg.connect(project.database_url, autocommit=True) as connection:
        plans = connection.execute("SELECT name, kind, wants, sent FROM plans").fetchall()
    by_plan = {name: (wants, sent) for name, _, wants, sent in plans}
    verdict.tried = Counter(kind for _, kind, _, _ in plans) + Counter(
        name.partition("-")[0] for name in orders if name.count("-") == 1
    )
    for name, times in shown.items():
        if times > 1:
            verdict.copies.add(name)
        is_order = name.partition("-")[0] in DJANGO
        if (is_order and name not in orders) or (not is_order and by_plan[name][0] != "commit"):
            verdict.both.add(name)
    verdict.lost = set(orders) - set(shown)
    verdict.lost |= {name for name, (wants, sent) in by_plan.items() if wants == "commit" and sent} - set(shown)
    with Admin(project.server.namesrv) as admin:
        status = admin.transaction_status()
        after, listed = None, []
        while True:
            page = admin.transactions("parked", after=after, count=1_000)
            listed += page.items
            after = page.following
            if after is None:
                break
    verdict.parked = status.parked
    verdict.undecided = status.open + abs(status.parked - len(listed))
    names = {row.keys[0] for row in listed}
    verdict.parked_wrongly = {name for name in names if not name.startswith(f"{NOBODY}-")}
    verdict.lost |= {name for name, (wants, sent) in by_plan.items() if wants == "nobody" and sent} - names
