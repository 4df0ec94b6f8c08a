"""The doctor of a house: each check of settings, servers and what is left undone is made to fail."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from broker.client import Admin
from broker.doctor import Finding, Verdict
from broker.mirror.follower import Mirror
from broker.outbox.models import OutboxHalf, OutboxMessage
from broker.testing import BrokerThread
from console.doctor import services, settings_checks
from console.management.commands.doctor import all_checks
from console.operations.audit_stream import Position, position_file
from tests.ports import free_port

pytestmark = pytest.mark.django_db(transaction=True)

House = Any


@pytest.fixture
def house(settings: Any, tmp_path: Path, valkey: str, monkeypatch: pytest.MonkeyPatch) -> House:
    """The settings of a house in which nothing runs but its servers."""
    settings.VAR = tmp_path
    settings.REDIS_URL = valkey
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port()}"
    tmp_path.chmod(0o700)
    for name in ("ESCAPEMENT_NAMESRV", "ESCAPEMENT_LOG_FORMAT", "ESCAPEMENT_LOG_LEVELS"):
        monkeypatch.delenv(name, raising=False)
    return settings


@contextmanager
def mirrored(house: House) -> Iterator[None]:
    """A broker that runs, and its rows of now."""
    with BrokerThread() as running, Admin(running.namesrv) as admin:
        house.ESCAPEMENT_NAMESRV = running.namesrv
        mirror = Mirror(admin)
        mirror.run_once()
        try:
            yield
        finally:
            # it has the lock of all mirrors of this name
            mirror.close()


def waits(**fields: Any) -> OutboxMessage:
    return OutboxMessage.objects.create(topic="orders", body=b"", properties=b"", message_id="1", **fields)


def asynchronous(house: House) -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SHOW fsync")
        if cursor.fetchone()[0] == "off":  # the tests' own server may have it so
            return services.database()
        try:
            return services.database()
        finally:
            cursor.execute("RESET synchronous_commit")


def not_migrated(house: House) -> Finding:
    assert services.migrations().verdict is Verdict.OK
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'console' RETURNING app, name, applied")
        rows = cursor.fetchall()
    try:
        return services.migrations()
    finally:
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)", rows)


def evicts(house: House) -> Finding:
    assert services.redis_server().verdict is Verdict.OK
    with redis.Redis.from_url(house.REDIS_URL) as server:
        server.config_set("maxmemory", "100mb")
        server.config_set("maxmemory-policy", "allkeys-lru")
        try:
            return services.redis_server()
        finally:
            server.config_set("maxmemory", "0")
            server.config_set("maxmemory-policy", "noeviction")


def old_rows(house: House) -> Finding:
    assert "has read no broker yet" in services.mirror().text
    with mirrored(house):
        assert services.mirror().verdict is Verdict.OK
        return services.mirror(lambda: time.time() + 60)


def stuck(house: House) -> Finding:
    assert services.outbox().verdict is Verdict.OK
    waits(stuck_at=timezone.now(), last_error="the topic is not there")
    return services.outbox()


def other_clock(house: House) -> Finding:
    with mirrored(house):
        assert services.broker_clock().verdict is Verdict.OK
        return services.broker_clock(lambda: time.time() - 3)


def refused_stream(house: House) -> Finding:
    house.AUDIT_STREAM = "https://siem.example/"
    assert services.audit_stream().verdict is Verdict.OK
    Position("https://siem.example", 7, "it answered 500").keep(position_file())
    return services.audit_stream()


def open_files(house: House) -> Finding:
    assert settings_checks.private().verdict is Verdict.OK
    (house.VAR / "secret-key").write_text("x")
    (house.VAR / "secret-key").chmod(0o644)
    return settings_checks.private()


def open_key(house: House) -> Finding:
    key = house.VAR / "privkey.pem"
    key.write_text("")
    key.chmod(0o644)
    os.environ["ESCAPEMENT_TLS_KEY"] = str(key)
    try:
        return settings_checks.secrets_in_files()
    finally:
        del os.environ["ESCAPEMENT_TLS_KEY"]


def old_java(house: House) -> Finding:
    java = house.VAR / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(house.VAR)
    try:
        return settings_checks.java()
    finally:
        del os.environ["JAVA_HOME"]
        if before is not None:
            os.environ["JAVA_HOME"] = before


def levels(house: House) -> Finding:
    os.environ["ESCAPEMENT_LOG_LEVELS"] = "broker=LOUD"
    try:
        return settings_checks.logging()
    finally:
        del os.environ["ESCAPEMENT_LOG_LEVELS"]


def with_settings(check: Callable[[], Finding], **changed: Any) -> Callable[[House], Finding]:
    def fails(house: House) -> Finding:
        assert check().verdict is Verdict.OK
        for name, value in changed.items():
            setattr(house, name, value)
        return check()

    return fails


#: how each check is made to fail, and a part of what it says then
FAILS: dict[str, tuple[Callable[[House], Finding], str]] = {
    "database": (asynchronous, " is off: "),
    "database.migrations": (not_migrated, "migrations are missing, first console.0001"),
    # how long the question takes stands in it
    "clock.database": (lambda house: services.database_clock(lambda: time.time() + 3500), "-3,"),
    "redis": (evicts, "evicts keys"),
    "broker.reachable": (lambda house: services.brokers(), "no broker answers behind"),
    "clock.broker": (other_clock, "the clock of broker-a is +"),
    "mirror": (old_rows, "s old"),
    "outbox": (stuck, "1 messages are stuck, of orders because: the topic is not there"),
    "audit.stream": (refused_stream, "does not take the audit: it answered 500"),
    "settings.exposure": (
        with_settings(settings_checks.exposure, WEB_HOST="192.0.2.1"), "would listen on 192.0.2.1 in plain HTTP"
    ),
    "settings.plaintext": (with_settings(settings_checks.plaintext, PLAINTEXT=True, WEB_HOST="192.0.2.1"), "be read"),
    "settings.debug": (with_settings(settings_checks.debug, DEBUG=True), "ESCAPEMENT_DEBUG=1"),
    "settings.hosts": (with_settings(settings_checks.hosts, ALLOWED_HOSTS=["*"]), "ESCAPEMENT_HOSTS=*"),
    "settings.secret-key": (lambda house: with_settings(settings_checks.metrics, SECRET_KEY="x" * 60)(house)
                            and settings_checks.secret_key(), "could be forged"),
    "settings.logging": (levels, "'broker=LOUD' is no level"),
    "settings.metrics": (with_settings(settings_checks.metrics, TRUSTED_PROXIES=("127.0.0.1",)), "behind a proxy"),
    "permissions.var": (open_files, "others may use"),
    "permissions.keys": (open_key, "others may read"),
    "version.java": (old_java, "is Java 11, Spark needs 17"),
}  # fmt: skip


def test_each_check_has_a_way_to_fail() -> None:
    assert set(FAILS) == set(services.checks()) | set(settings_checks.checks())


@pytest.mark.parametrize("name", FAILS)
def test_a_check_that_fails_says_what_to_change(name: str, house: House) -> None:
    fails, part = FAILS[name]
    found = fails(house)
    assert found.verdict is Verdict.CHANGE, found
    assert part in found.text
    assert found.remedy


@pytest.mark.parametrize(
    ("engine", "master", "verdict"),
    [
        ("auto", "", Verdict.OK),
        ("duckdb", "", Verdict.OK),
        ("auto", "local[2]", Verdict.OK),
        ("auto", "spark://host:7077", Verdict.CHANGE),
        ("spark", "", Verdict.CHANGE),
    ],
)
def test_java_is_needed_where_spark_computes(
    engine: str, master: str, verdict: Verdict, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings_checks.settings, "DASHBOARDS_ENGINE", engine)
    if master:
        monkeypatch.setenv("SPARK_MASTER", master)
    else:
        monkeypatch.delenv("SPARK_MASTER", raising=False)
    found = settings_checks.java()
    assert found.verdict is verdict and "Java" in found.text


def test_other_things_that_are_left_undone(house: House) -> None:
    with redis.Redis.from_url(house.REDIS_URL) as server:
        before = server.llen("jobs")
        server.rpush("jobs", *["x"] * (services.QUEUED_JOBS + 1))
        try:
            assert "no worker takes them" in services.redis_server().text
        finally:
            server.ltrim("jobs", 0, int(before) - 1) if before else server.delete("jobs")
    long_ago = timezone.now() - timedelta(hours=1)
    row = waits()
    OutboxMessage.objects.filter(pk=row.pk).update(written_at=long_ago)
    assert "1 messages wait since" in services.outbox().text
    row.delete()
    OutboxHalf.objects.create(transaction_id="1", producer_group="g", topic="t")
    assert services.outbox().verdict is Verdict.OK
    OutboxHalf.objects.update(written_at=long_ago)
    assert "1 commits are not confirmed" in services.outbox().text
    with mirrored(house):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE broker_mirrorstate SET error = 'refused'")
        assert services.mirror().text == "broker-a cannot be read: refused"
    house.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    assert "Redis does not respond" in services.redis_server().text


def test_the_command_prints_all_and_its_exit_code_says_whether_something_is_to_be_changed(house: House) -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=out)
    assert ended.value.code == 1
    named = [line.split()[1] for line in out.getvalue().splitlines() if line.startswith(("ok ", "change "))]
    assert {"settings.debug", "broker.reachable", "port.web", "disk.sync"} <= set(named)
    out = StringIO()
    call_command("doctor", "settings.debug", "settings.hosts", json=True, stdout=out)
    rows = json.loads(out.getvalue())["checks"]
    assert [row["check"] for row in rows] == ["settings.debug", "settings.hosts"]
    with pytest.raises(CommandError, match="no check 'nonsense'"):
        call_command("doctor", "nonsense")


def test_the_store_is_looked_at_where_the_broker_is_one_of_this_house(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.OTHER_STORES = {"broker-b": house.VAR / "store-broker-b"}
    assert {"store", "disk.sync@broker-b", "broker.ready"} <= set(all_checks())
    monkeypatch.setenv("ESCAPEMENT_NAMESRV", "elsewhere:9876")
    assert not {"store", "port.broker"} & set(all_checks())


def test_a_house_that_is_well(house: House) -> None:
    with mirrored(house):
        for check in (services.brokers, services.mirror, services.database_clock, services.outbox):
            assert check().verdict is Verdict.OK
