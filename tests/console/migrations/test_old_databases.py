"""Databases that were made by migrations which are squashed now: brought to the state of a new one, or refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Set
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import DjangoDbBlocker

from console.apps import SQUASHED
from console.features.alerts.models import Alert
from console.features.groups.kept import GroupsKept
from console.past import Snapshot, unpack
from console.run.addresses import database_settings
from tests.house.sources import ROOT

#: what they did, as `sqlmigrate` told it
STATEMENTS = Path(__file__).with_name("old_migrations.sql")
REPLACED = [key for module in SQUASHED.values() for key in import_module(module).Migration.replaces]
#: everything that a schema is, as PostgreSQL has it; the order of columns is nobody's business
SCHEMA = """
    SELECT 'column', table_name, column_name, concat_ws(' ', data_type, udt_name, character_maximum_length,
           is_nullable, column_default, is_identity)
      FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
      FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT 'type', app_label, model, '' FROM django_content_type
    UNION ALL SELECT 'permission', app_label, codename, name
      FROM auth_permission JOIN django_content_type AS kind ON kind.id = content_type_id
"""
MakeDatabase = Callable[[str], Any]


@pytest.fixture
def make_database(postgres: str, django_db_blocker: DjangoDbBlocker) -> Iterator[MakeDatabase]:
    """Makes an empty database of that name, with a connection of the same alias."""
    made = []

    def make(name: str) -> Any:
        maintain(f'CREATE DATABASE "{name}"')
        connections.databases[name] = {
            **connections.databases["default"],
            **database_settings(postgres),
            "NAME": name,
        }
        made.append(name)
        return connections[name]

    with django_db_blocker.unblock():
        connections.databases["maintenance"] = {**connections.databases["default"], **database_settings(postgres)}
        yield make
        for name in made:
            connections[name].close()
            del connections[name], connections.databases[name]
            maintain(f'DROP DATABASE "{name}"')
        connections["maintenance"].close()
        del connections["maintenance"], connections.databases["maintenance"]


def maintain(statement: str) -> None:
    with connections["maintenance"].cursor() as cursor:
        cursor.execute(statement)


def migrate(name: str, *app: str) -> None:
    call_command("migrate", *app, database=name, verbosity=0, interactive=False, skip_checks=False)


def make_old(connection: Any, last: str = "console.0021_alert_rule_name") -> None:
    """Do what the replaced migrations did, up to that one."""
    migrate(connection.alias, "auth")
    recorder = MigrationRecorder(connection)
    _, *parts = re.split(r"^-- migration (\S+)$", STATEMENTS.read_text(), flags=re.MULTILINE)
    with connection.cursor() as cursor:
        for name, statements in zip(parts[::2], parts[1::2], strict=True):
            if statements.strip():
                cursor.execute(statements)
            recorder.record_applied(*name.split("."))
            if name == last:
                return


def schema_of(connection: Any) -> Set[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        return set(cursor.fetchall())


def test_the_statements_are_of_the_replaced_migrations() -> None:
    names = re.findall(r"^-- migration (\w+)\.(\S+)$", STATEMENTS.read_text(), flags=re.MULTILINE)
    assert sorted(names) == sorted(REPLACED)


def test_an_old_database_comes_to_the_state_of_a_new_one(make_database: MakeDatabase) -> None:
    old, new = make_database("made-before"), make_database("made-now")
    make_old(old)
    with old.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO console_alertrule (id, name, what, subject, "limit", for_s, emails, webhook, salt, is_on)
                 VALUES (1, '', 'backlog', '*', 5, 0, '', '', '', true);
            INSERT INTO console_alert (id, rule_id, subject, state, value, highest, since, was_silenced, told)
                 VALUES (1, 1, 'mail', 'ended', 9, 9, now(), false, 'mail to 1; webhook told');
            INSERT INTO console_delivery (id, alert_id, body, tries, created_at, told_at)
                 VALUES (gen_random_uuid(), 1, '{}', 1, now(), now());
            INSERT INTO console_auditentry (id, at, actor, what, kind, operation, reason, result)
                 VALUES (7, now(), 'anna', 'confirmed', 'x', NULL, 'first', '{"a": 1}'),
                        (9, now(), 'ben', 'denied', 'y', gen_random_uuid(), 'second', '{}');
            INSERT INTO console_apitoken (id, name, prefix, digest, scopes, access_user, created_at, revoked_at)
                 VALUES (1, 'shop', 'aaa', '', '[]', '', now(), NULL), (2, 'shop', 'bbb', '', '[]', '', now(), NULL),
                        (3, 'shop', 'ccc', '', '[]', '', now(), now());
            """
        )
        cursor.execute(
            "INSERT INTO console_snapshot (broker, slot_ms, at_ms, why, groups) VALUES ('a', 0, 7, '{}', %s)",
            [zlib.compress(b'{"rows":[],"topics":[],"left_out":3}')],
        )
    for connection in (old, new):
        migrate(connection.alias)
    assert schema_of(old) == schema_of(new)
    assert len(schema_of(new)) > 500
    with old.cursor() as cursor:
        cursor.execute(
            "SELECT reason, number, previous, digest = console_audit_digest(entry), digest"
            " FROM console_auditentry AS entry ORDER BY number"
        )
        first, second = cursor.fetchall()
        assert (first[:4], second[:4]) == (("first", 1, "", True), ("second", 2, first[4], True))
        cursor.execute("SELECT number, digest FROM console_auditend")
        assert cursor.fetchall() == [(2, second[4])]
        cursor.execute("SELECT name FROM console_apitoken ORDER BY id")
        assert [name for (name,) in cursor.fetchall()] == ["shop", "shop (bbb)", "shop"]
    assert Alert.objects.using("made-before").get().told == "mail to 1; webhook told"
    (snapshot,) = Snapshot.objects.using("made-before").all()
    assert unpack(GroupsKept, bytes(snapshot.groups)) == GroupsKept((), (), 3)
    applied = MigrationRecorder(old).applied_migrations().keys()
    assert applied >= {("console", "0001_initial"), ("broker", "0001_initial"), *REPLACED}
    migrate("made-before")


@pytest.mark.parametrize(
    ("last", "missing"),
    [
        ("broker.0001_first_light", "broker.0002_transactions"),
        ("console.0012_change_settings", "console.0013_access_user"),
    ],
)
def test_one_that_stopped_between_them_is_refused_and_left_as_it_is(
    make_database: MakeDatabase, last: str, missing: str
) -> None:
    old = make_database("stopped")
    make_old(old, last)
    before = schema_of(old), MigrationRecorder(old).applied_migrations().keys()
    with pytest.raises(SystemCheckError, match=f"stopped before {missing}"):
        migrate("stopped")
    assert (schema_of(old), MigrationRecorder(old).applied_migrations().keys()) == before


#: where the migrations of a version end, as docs/OPERATE.md has it for who goes back to it
ENDS = {
    "0.1": {"console": "0024_operation_of_broker", "broker": "0002_several_brokers", "escapement_tasks": "zero",
            "escapement_outbox": "0003_named_broker", "escapement_handlers": "zero"},
}  # fmt: skip


@pytest.mark.parametrize("version", ENDS)
def test_a_database_goes_back_to_a_version_and_comes_forward_again(make_database: MakeDatabase, version: str) -> None:
    connection = make_database("back")
    migrate("back")
    newest = schema_of(connection)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO console_auditentry (id, at, actor, what, kind, reason, result)"
            " VALUES (7, now(), 'anna', 'confirmed', 'x', 'first', '{}'), (8, now(), 'ben', 'denied', 'y', '', '{}')"
        )
    for app, last in ENDS[version].items():
        migrate("back", app, last)
    older = schema_of(connection)
    assert older != newest
    with connection.cursor() as cursor:
        cursor.execute("SELECT actor FROM console_auditentry ORDER BY id")
        assert cursor.fetchall() == [("anna",), ("ben",)]
    migrate("back")
    assert schema_of(connection) == newest
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT number, digest = console_audit_digest(entry) FROM console_auditentry AS entry ORDER BY id"
        )
        assert cursor.fetchall() == [(1, True), (2, True)]


def test_the_page_says_where_the_migrations_of_a_version_end() -> None:
    page = (ROOT / "docs" / "OPERATE.md").read_text()
    for ends in ENDS.values():
        for app, last in ends.items():
            assert f"manage.py migrate {app} {last}" in page


def test_a_database_of_a_newer_release_is_refused_and_left_as_it_is(make_database: MakeDatabase) -> None:
    newer = make_database("newer")
    migrate("newer")
    MigrationRecorder(newer).record_applied("console", "9999_from_tomorrow")
    before = schema_of(newer)
    with pytest.raises(SystemCheckError, match="newer release: 9999_from_tomorrow of console") as refusal:
        migrate("newer")
    last = max(path.stem for path in (ROOT / "console" / "migrations").glob("[0-9]*.py"))
    assert f"`manage.py migrate console {last}`" in str(refusal.value)
    assert schema_of(newer) == before


def test_a_run_is_told_so_in_a_sentence(make_database: MakeDatabase, postgres: str) -> None:
    make_old(make_database("stopped"), "broker.0002_transactions")
    url = urlunsplit(urlsplit(postgres)._replace(path="/stopped"))
    command = [sys.executable, str(ROOT / "manage.py"), "prepare"]
    ended = subprocess.run(
        command, env=os.environ | {"DATABASE_URL": url}, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 1
    assert "stopped before broker.0003_flaws" in ended.stderr
    assert "run `manage.py migrate` there once" in ended.stderr
    assert "Traceback" not in ended.stderr
