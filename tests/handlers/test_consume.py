"""`manage.py consume` in a project of its own, with PostgreSQL and a broker: handled, tried again, drained."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest

from broker.client import Admin, Producer
from broker.testing import BrokerThread, small_store
from tests.interop.jars import REPOSITORY
from tests.interop.process import Child
from tests.interop.servers import says
from tests.interop.waiting import wait_until

START_S = 60
DATABASE = "handling_project"
SETTINGS = """
    import os
    SECRET_KEY = "of a test"
    INSTALLED_APPS = ["broker.handlers", "bills"]
    ESCAPEMENT_NAMESRV = os.environ["NAMESRV"]
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
"""
#: A message that is held waits for the lock which the test has.
HANDLERS = """
    from django.db import connection
    from broker.handlers import consumer

    @consumer("orders", group="billing", from_where="first")
    def bill(message):
        with connection.cursor() as cursor:
            if message.body == b"held":
                cursor.execute("INSERT INTO bill VALUES ('begun', 0)")
                cursor.execute("SELECT pg_advisory_lock(1)")
            if message.body == b"fails once" and message.reconsume_times == 0:
                raise RuntimeError("try again")
            cursor.execute("INSERT INTO bill VALUES (%s, %s)", [message.body.decode(), message.reconsume_times])

    @consumer("steps", group="stepping", from_where="first", orderly=True, suspend_ms=50, trace=True)
    def step(message):
        if message.body == b"second" and message.reconsume_times < 2:
            raise RuntimeError("not yet")
        print("step", message.body.decode(), flush=True)

    @consumer("notes", group="writing", from_where="first")
    async def note(message):
        print("noted", message.body.decode(), flush=True)
"""


class Project:
    """The project, its database and its broker."""

    def __init__(self, work: Path, env: dict[str, str], namesrv: str, database: psycopg.Connection) -> None:
        self.namesrv, self.database = namesrv, database
        self._work, self._env = work, env

    def consume(self, *arguments: str) -> Child:
        command = [sys.executable, "-m", "django", "consume", *arguments]
        child = Child(command, log=self._work / "consume.log", env=self._env)
        child.wait_for(says("consuming"), START_S, "consume")
        return child

    def log(self) -> str:
        return (self._work / "consume.log").read_text()

    def bills(self) -> Counter[tuple[str, int]]:
        return Counter((body, times) for body, times in self.database.execute("SELECT * FROM bill"))


@pytest.fixture
def project(tmp_path: Path, postgres: str) -> Iterator[Project]:
    for name, text in {"settings.py": SETTINGS, "bills/__init__.py": "", "bills/handlers.py": HANDLERS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {DATABASE}")
        given = server.info.get_parameters()
        with (
            psycopg.connect(postgres, dbname=DATABASE, autocommit=True) as database,
            # all levels of retries within a second
            BrokerThread(small_store(tmp_path, delay_levels="1s 1s 1s")) as broker,
            Admin(broker.namesrv) as admin,
        ):
            database.execute("CREATE TABLE bill (body text, times int)")
            for topic in ("orders", "notes", "steps"):
                admin.create_topic(topic, queues=2)
            env = {
                "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "PGDATABASE": DATABASE,
                "PGUSER": given["user"], "PGHOST": given["host"], "PGPORT": given.get("port", ""),
                "PGPASSWORD": "known-to-tests", "NAMESRV": broker.namesrv,
            }  # fmt: skip
            yield Project(tmp_path, env, broker.namesrv, database)
        server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def test_handlers_of_an_app_get_their_messages_and_finish_what_they_began(project: Project) -> None:
    child = project.consume()
    with Producer("shop", project.namesrv) as producer:
        for body in (b"one", b"fails once"):
            producer.send("orders", body)
        producer.send("notes", b"two")
        child.wait_for(says("noted two"), START_S, "the coroutine's word")
        assert wait_until(lambda: project.bills() == Counter([("one", 0), ("fails once", 1)]), START_S)
        stepped = [producer.send("steps", body, queue_id=1) for body in (b"first", b"second", b"third")]
        child.wait_for(says("step third"), START_S, "the last step")
        project.database.execute("SELECT pg_advisory_lock(1)")
        producer.send("orders", b"held")
    assert wait_until(lambda: ("begun", 0) in project.bills(), START_S)
    child.process.terminate()
    project.database.execute("SELECT pg_advisory_unlock(1)")
    assert child.process.wait(START_S) == 0
    assert child.stop() == 0
    assert [line for line in child.lines if line.startswith("step ")] == ["step first", "step second", "step third"]
    with Admin(project.namesrv) as admin:
        told = [(each.kind, each.retries) for each in admin.traces(stepped[1].message_id) if each.kind == "delivered"]
    assert told == [("delivered", 0), ("delivered", 1), ("delivered", 2)]
    handled = Counter([("one", 0), ("fails once", 1), ("begun", 0), ("held", 0)])
    assert project.bills() == handled

    again = project.consume("--group", "billing")
    with Producer("shop", project.namesrv) as producer:
        producer.send("orders", b"last")
        producer.send("notes", b"nobody's")
    assert wait_until(lambda: ("last", 0) in project.bills(), START_S)
    assert again.stop() == 0
    assert project.bills() == handled + Counter([("last", 0)])
    assert "noted nobody's" not in again.lines


def test_a_handler_that_does_not_end_in_time_is_left_behind(project: Project) -> None:
    child = project.consume("--group", "billing", "--drain-timeout", "0.1")
    project.database.execute("SELECT pg_advisory_lock(1)")
    with Producer("shop", project.namesrv) as producer:
        producer.send("orders", b"held")
    assert wait_until(lambda: ("begun", 0) in project.bills(), START_S)
    child.process.terminate()
    assert child.process.wait(START_S) == 1
    child.stop()
    assert "1 handlers did not end within the drain timeout" in project.log()
    project.database.execute("SELECT pg_advisory_unlock(1)")
    again = project.consume("--group", "billing")
    assert wait_until(lambda: ("held", 0) in project.bills(), START_S)
    assert again.stop() == 0
