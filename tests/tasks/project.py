"""A Django project of its own with tasks that count in a table how often they ran."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import psycopg

from tests.interop.jars import REPOSITORY
from tests.interop.process import Child
from tests.interop.servers import says

START_S = 60
SETTINGS = """
    import os
    import django
    SECRET_KEY = "of a test"
    INSTALLED_APPS = ["broker.outbox", "broker.tasks", "shop"]
    if django.VERSION < (6,):
        INSTALLED_APPS += ["django_tasks"]
    ESCAPEMENT_NAMESRV = os.environ["NAMESRV"]
    ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
    DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
    TASKS = {"default": {"BACKEND": "broker.tasks.EscapementBackend"}}
    USE_TZ = True
"""
TASKS = """
    from datetime import timedelta
    from django.db import connection
    from broker.tasks import retry
    try:
        from django.tasks import task
    except ModuleNotFoundError:
        from django_tasks import task

    @task
    def run(number):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO ran VALUES (%s)", [number])
        return number

    @task(takes_context=True)
    @retry(times=3, pause=timedelta(milliseconds=100))
    def run_at_second(context, number):
        if context.attempt == 1:
            raise ConnectionError("try again")
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO ran VALUES (%s)", [number])

    @task
    def hold(number):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO ran VALUES (%s)", [number])
            cursor.execute("SELECT pg_advisory_lock(1)")
            cursor.execute("SELECT pg_advisory_unlock(1)")
"""
#: Enqueues tasks 0 to n - 1: every fourth after a while, every third in a transaction beside one that is rolled back.
FILL = """
    from datetime import timedelta
    from django.core.management.base import BaseCommand
    from django.db import transaction
    from django.utils import timezone
    from shop.tasks import hold, run, run_at_second

    class Command(BaseCommand):
        def add_arguments(self, parser):
            parser.add_argument("count", type=int)
            parser.add_argument("--hold", action="store_true")

        def handle(self, count, **options):
            for number in range(count):
                chosen = hold if options["hold"] else run_at_second if number % 5 == 0 else run
                if number % 4 == 0 and not options["hold"]:
                    chosen = chosen.using(run_after=timezone.now() + timedelta(milliseconds=number * 20))
                if number % 3:
                    chosen.enqueue(number)
                    continue
                with transaction.atomic():
                    chosen.enqueue(number)
                try:
                    with transaction.atomic():
                        chosen.enqueue(-1)
                        raise LookupError
                except LookupError:
                    pass
            self.stdout.write("filled")
"""
FILES = {
    "settings.py": SETTINGS, "shop/__init__.py": "", "shop/tasks.py": TASKS, "shop/management/__init__.py": "",
    "shop/management/commands/__init__.py": "", "shop/management/commands/fill.py": FILL,
}  # fmt: skip


class Project:
    """The project with its database; commands are run with one interpreter."""

    def __init__(self, work: Path, python: str, env: dict[str, str], database: psycopg.Connection) -> None:
        self.database = database
        self._work, self._python, self._env = work, python, env

    def manage(self, *arguments: str) -> str:
        """Run a command to its end and return what it says."""
        done = subprocess.run(
            [self._python, "-m", "django", *arguments], cwd=self._work, env={**os.environ, **self._env},
            capture_output=True, text=True, check=False, timeout=START_S * 2,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def worker(self, *arguments: str) -> Child:
        """Start a worker."""
        command = [self._python, "-m", "django", "tasks_worker", *arguments]
        child = Child(command, log=self._work / "worker.log", env=self._env, cwd=self._work)
        child.wait_for(says("runs tasks of"), START_S, "a worker")
        return child

    def log(self) -> str:
        """What the workers complained of."""
        return (self._work / "worker.log").read_text()

    def states(self) -> Counter[str]:
        """How many tasks are in each state."""
        return Counter(status for (status,) in self.database.execute("SELECT status FROM escapement_task"))

    def ran(self) -> Counter[int]:
        """How often each task did what it does."""
        return Counter(number for (number,) in self.database.execute("SELECT number FROM ran"))


@contextmanager
def project(work: Path, postgres: str, namesrv: str, python: str, name: str) -> Iterator[Project]:
    """Make the project and its database `name`."""
    for file, text in FILES.items():
        (work / file).parent.mkdir(exist_ok=True, parents=True)
        (work / file).write_text(dedent(text))
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        given = server.info.get_parameters()
        with psycopg.connect(postgres, dbname=name, autocommit=True) as database:
            database.execute("CREATE TABLE ran (number int)")
            env = {
                "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{work}:{REPOSITORY}", "PGDATABASE": name,
                "PGUSER": given["user"], "PGHOST": given["host"], "PGPORT": given.get("port", ""),
                "PGPASSWORD": "known-to-tests", "NAMESRV": namesrv,
            }  # fmt: skip
            made = Project(work, python, env, database)
            made.manage("migrate")
            yield made
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
