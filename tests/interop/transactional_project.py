"""What the tests of transactions start, and what they hold for every broker: database and topic agree."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg

from broker.client import Admin, Decision, Message, TransactionProducer, prepare
from tests.interop.jars import REPOSITORY
from tests.interop.process import Child
from tests.interop.servers import StoreShape, says
from tests.interop.waiting import wait_until

START_S = 60
DECIDED_S = 120
STEPS_S = 1_500
#: Asked about every second, from the usual 6 s on; 255 rounds are more than any test waits.
QUICK = StoreShape(transaction_interval_ms=1_000, transaction_checks=255, flush="async")
DATABASES = itertools.count(1)
MANAGE = (sys.executable, "-m", "django")


class Named(Protocol):
    """A broker, or a cluster of several, by its name server."""

    @property
    def namesrv(self) -> str: ...


class Project:
    """A Django project with the outbox, and a table `orders`; its processes run in `work`."""

    def __init__(self, server: Named, database_url: str, group: str, work: Path) -> None:
        self.server = server
        self.database_url = database_url
        self._group = group
        self._work = work
        self._started: list[Child] = []
        self._environment = {
            "DATABASE_URL": database_url, "OUTBOX_NAMESRV": server.namesrv, "OUTBOX_GROUP": group,
            "DJANGO_SETTINGS_MODULE": "tests.interop.transactional_settings", "PYTHONPATH": str(REPOSITORY),
        }  # fmt: skip
        environment = {**os.environ, **self._environment}
        subprocess.run([*MANAGE, "migrate", "-v", "0"], env=environment, cwd=work, check=True)
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE orders (name text PRIMARY KEY)")
            connection.execute("CREATE TABLE handled (name text, times int)")

    def start(self, *command: str, **environment: str) -> Child:
        """Start a program of the project."""
        log = self._work / f"{command[0]}-{len(self._started)}.log"
        child = Child([sys.executable, "-m", *command], log=log, env=self._environment | environment)
        self._started.append(child)
        return child

    def checkback(self) -> Child:
        """Start `manage.py checkback`, and wait until it says that it answers."""
        child = self.start("django", "checkback")
        child.wait_for(says("answering checks"), START_S, "checkback")
        return child

    def outbox(self) -> Child:
        """Start `manage.py outbox`, and wait until it says that it sends."""
        child = self.start("django", "outbox")
        child.wait_for(says("sending the outbox"), START_S, "outbox")
        return child

    def consume(self, topic: str, group: str) -> Child:
        """Start `manage.py consume` with the handlers of ordering/, and wait until it consumes this topic."""
        child = self.start("django", "consume", ORDERS_TOPIC=topic, ORDERS_GROUP=group)
        child.wait_for(says("consuming"), START_S, "consume")
        return child

    def close(self) -> None:
        """Kill what still runs."""
        for child in self._started:
            child.kill()

    def orders(self) -> Counter[str]:
        """The names in the database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return Counter(name for (name,) in connection.execute("SELECT name FROM orders"))

    def handled(self) -> Counter[tuple[str, int]]:
        """What the handlers wrote: an order, and how often it had failed before."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return Counter((name, times) for name, times in connection.execute("SELECT name, times FROM handled"))

    def waiting(self) -> int:
        """How many rows wait for `manage.py outbox`."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return int(connection.execute("SELECT count(*) FROM escapement_outbox_message").fetchone()[0])

    def rows(self) -> Counter[str]:
        """How many rows of the outbox are in which state."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return Counter(state for (state,) in connection.execute("SELECT state FROM escapement_outbox"))


@contextmanager
def new_project(server: Named, postgres: str, group: str, work: Path) -> Iterator[Project]:
    """A project on a database of its own, in the server at `postgres`."""
    name = f"transactional_{next(DATABASES)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    base, _, query = postgres.partition("?")
    project = Project(server, f"{base.rpartition('/')[0]}/{name}?{query}", group, work)
    try:
        yield project
    finally:
        project.close()


def bodies(server: Named, topic: str) -> Counter[str]:
    """The bodies of all messages of the topic, of all brokers, and how often each is there."""
    return sum(bodies_by_broker(server, topic).values(), Counter())


def bodies_by_broker(server: Named, topic: str) -> dict[str, Counter[str]]:
    """The same for each broker that has the topic."""
    found: dict[str, Counter[str]] = {}
    with Admin(server.namesrv) as admin:
        for part in admin.topic_stats(topic).queues:
            here = found.setdefault(part.queue.broker, Counter())
            offset = part.min_offset
            while offset < part.max_offset:
                page = admin.pull(topic, part.queue.queue_id, offset, 32, broker=part.queue.broker)
                here.update(message.body.decode() for message in page)
                offset = page[-1].queue_offset + 1 if page else part.max_offset
    return found


def wait_until_all_are_asked(server: Named, topic: str, rounds: int = 2) -> None:
    """Return when a half that was sent last has been asked about in several rounds, at each broker: all before it
    were, too.

    Brokers ask in the order of the half queue.
    """
    name = f"Sentinel{topic}"
    asked: Counter[str | None] = Counter()

    def check(message: Message) -> Decision:
        asked[message.unique_key] += 1
        return Decision.UNKNOWN

    with Admin(server.namesrv) as admin:
        admin.create_topic(name, queues=1)
        brokers = {each.name for each in admin.brokers()}
        assert wait_until(lambda: {each.broker for each in admin.route(name).writable()} == brokers)
    with TransactionProducer(f"sentinel-{topic}", server.namesrv, check=check) as sentinel:
        halves = [sentinel.send_half(name, prepare("last", broker=each)) for each in sorted(brokers)]
        for half in halves:
            is_asked = wait_until(lambda key=half.transaction_id: asked[key] >= rounds, DECIDED_S)
            assert is_asked, f"{half.broker} does not ask about the sentinel"
            sentinel.rollback(half)


def agree(project: Project, topic: str) -> bool:
    """Each order in the database has its message, once, and no other message is there."""
    return bodies(project.server, topic) == project.orders()


def kill_at_statements(project: Project, topic: str, outcome: str, stride: int = 1) -> int:
    """Make orders and kill their process at one statement of `stride`; returns how many statements there are."""
    checkback = project.checkback()
    steps = project.start("tests.interop.transactional_steps", topic, outcome, str(stride))
    line = steps.wait_for(says("steps "), STEPS_S, "all steps")
    wait_until_all_are_asked(project.server, topic)
    assert wait_until(lambda: agree(project, topic), 60), (bodies(project.server, topic), project.orders())
    assert checkback.stop() == 0
    return int(line.split()[1])


def die_before_anybody_answers(project: Project, topic: str) -> None:
    """Web processes die, nobody answers for some rounds, and then checkback is started."""
    for name in ("dies-open", "dies-committed"):
        dying = project.start("tests.interop.transactional_order", topic, name, "0", name)
        assert dying.process.wait(START_S) == -signal.SIGKILL
    wait_until_all_are_asked(project.server, topic)
    assert project.orders() == Counter({"dies-committed": 1})
    assert wait_until(lambda: bodies(project.server, topic) == Counter())
    project.checkback()
    wait_until_all_are_asked(project.server, topic)
    assert wait_until(lambda: agree(project, topic), 60)


def outlast_many_checks(project: Project, topic: str) -> None:
    """Commit after the broker has asked several times; the message is shown once."""
    project.checkback()
    slow = project.start("tests.interop.transactional_order", topic, "slow", "9", "commit")
    slow.wait_for(says("committed"), START_S, "the slow transaction")
    wait_until_all_are_asked(project.server, topic, rounds=4)
    assert bodies(project.server, topic) == Counter({"slow": 1})
    assert project.rows() == Counter({"done": 1})
