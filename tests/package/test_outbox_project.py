"""The outbox from the wheel, in a Django project that knows nothing of this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest

from broker.client import Decision
from tests.client.halfbroker import HalfBroker
from tests.interop.process import Child
from tests.interop.servers import says
from tests.package.conftest import Install, run

START_S = 60
DATABASE = "wheel_project"

SETTINGS = """
import os
SECRET_KEY = "tests"
INSTALLED_APPS = ["shop", "escapement_mq.outbox"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ESCAPEMENT_NAMESRV = os.environ["NAMESRV"]
ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
"""
MODELS = """
from django.db import models
class Order(models.Model):
    item = models.CharField(max_length=20)
"""
COMMAND = """
from django.core.management.base import BaseCommand
from escapement_mq.outbox import producer, transactional
from shop.models import Order
class Command(BaseCommand):
    def handle(self, *args, **options):
        with transactional():
            order = Order.objects.create(item="book")
            producer.send("orders", order.item, keys=[str(order.pk)])
        try:
            with transactional():
                Order.objects.create(item="never")
                producer.send("orders", "never")
                raise ValueError
        except ValueError:
            self.stdout.write(",".join(Order.objects.values_list("item", flat=True)))
"""


@pytest.fixture
def python(install: Install) -> Path:
    """The interpreter of an environment with Django and a driver."""
    return install("django", "psycopg[binary]")


@pytest.fixture
def project(tmp_path: Path, postgres: str) -> Iterator[tuple[Path, dict[str, str], HalfBroker]]:
    """A project with one app and the outbox, on a database of its own."""
    for name, text in {
        "settings.py": SETTINGS, "shop/models.py": MODELS, "shop/__init__.py": "", "shop/migrations/__init__.py": "",
        "shop/management/commands/order.py": COMMAND,
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
        parameters = connection.info.get_parameters()
    with HalfBroker() as broker:
        env = {
            "PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path),
            "PGDATABASE": DATABASE, "PGUSER": parameters["user"], "PGHOST": parameters["host"],
            "PGPASSWORD": "known-to-tests",
            "PGPORT": parameters.get("port", ""), "NAMESRV": broker.namesrv,
        }  # fmt: skip
        yield tmp_path, env, broker
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def test_another_project_installs_the_wheel_and_sends_by_its_transactions(
    python: Path, project: tuple[Path, dict[str, str], HalfBroker], tmp_path: Path
) -> None:
    directory, env, broker = project
    run(python, "-m", "django", "makemigrations", "shop", "-v", "0", env=env, cwd=directory)
    run(python, "-m", "django", "migrate", "-v", "0", env=env, cwd=directory)
    assert run(python, "-m", "django", "makemigrations", "--check", "--dry-run", env=env, cwd=directory)
    assert run(python, "-m", "django", "order", env=env, cwd=directory).strip() == "book"
    codes = {half.body: half.codes for half in broker.halves.values()}
    assert codes == {b"book": [Decision.COMMIT], b"never": [Decision.ROLLBACK]}
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    ask = f"import psycopg; print(sorted(r[0] for r in psycopg.connect().execute({tables!r})))"
    assert run(python, "-c", ask, env=env, cwd=directory).strip() == str(
        ["django_migrations", "escapement_outbox", "escapement_outbox_message", "shop_order"]
    )
    checkback = Child([str(python), "-m", "django", "checkback"], log=tmp_path / "checkback.log", env=env)
    checkback.wait_for(says("answering checks of shop"), START_S, "checkback")
    broker.wait_for_producer("shop")
    (half,) = [half for half in broker.halves.values() if half.body == b"never"]
    broker.check(half.properties["UNIQ_KEY"])
    broker.wait(lambda: len(half.decisions) == 2)
    assert (half.codes, checkback.stop()) == ([Decision.ROLLBACK, Decision.ROLLBACK], 0)
