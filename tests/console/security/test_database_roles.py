"""What PostgreSQL itself lets the application, Spark and readers do: every table of the project has its row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import ProgrammingError, connection, transaction

from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.operations.models import AuditEntry
from console.run.database_roles import APPLICATION, READER, SPARK, TABLES, Role, RolesFailed, give, roles, steps
from spark.sink import Coverage, Sink
from tests.console.people import person

ROLES = [Role(APPLICATION, "app_of_test", "a'b"), Role(SPARK, "spark_of_test"), Role(READER, "reader_of_test")]


@pytest.fixture
def given(db: None) -> None:
    """The roles with their rights, as long as the test's transaction lasts."""
    give(ROLES, "default")


@contextmanager
def acting_as(name: str) -> Iterator[Any]:
    """A cursor that is not the owner's."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {name}")
        yield cursor
        cursor.execute("RESET ROLE")


def refused(name: str, *statements: str) -> None:
    """PostgreSQL says to each that this role may not."""
    for statement in statements:
        with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), acting_as(name) as cursor:
            cursor.execute(statement)


def test_every_table_has_its_row_and_every_row_a_table(db: None) -> None:
    made = {model._meta.db_table for model in apps.get_models(include_auto_created=True)} | {"django_migrations"}
    assert set(TABLES) == made
    assert made <= set(connection.introspection.table_names())


def test_a_second_time_there_is_nothing_to_do(given: None) -> None:
    assert steps(ROLES, "default") == []


def test_what_was_granted_beside_is_taken_back_and_what_is_new_is_granted(given: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("GRANT TRUNCATE, DELETE ON console_auditentry TO app_of_test")
        cursor.execute("GRANT UPDATE (digest) ON console_auditentry TO app_of_test")
        cursor.execute("REVOKE SELECT ON console_dashboardrun FROM spark_of_test")
        cursor.execute("CREATE TABLE a_strangers_own (n int)")
        cursor.execute("GRANT SELECT ON a_strangers_own TO reader_of_test")
        cursor.execute("GRANT CREATE ON SCHEMA public TO app_of_test")
    assert [step.shown for step in give(ROLES, "default")] == [
        'REVOKE CREATE ON SCHEMA "public" FROM "app_of_test", PUBLIC',
        'REVOKE DELETE, TRUNCATE, UPDATE (digest) ON "console_auditentry" FROM "app_of_test"',
        'GRANT SELECT ON "console_dashboardrun" TO "spark_of_test"',
        'REVOKE SELECT ON "a_strangers_own" FROM "reader_of_test"',
    ]
    assert steps(ROLES, "default") == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE console_auditentry SET reason = 'another'",
        "DELETE FROM console_auditentry",
        "TRUNCATE console_auditentry",
        "ALTER TABLE console_auditentry DISABLE TRIGGER audit_keep",
        "DROP TABLE console_auditentry",
        "UPDATE console_auditend SET digest = ''",
        "INSERT INTO console_auditend VALUES (2, 0, '')",
        "CREATE OR REPLACE FUNCTION console_audit_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "UPDATE django_migrations SET name = ''",
        "CREATE TABLE another (n int)",
        "COPY console_topicpermission TO PROGRAM 'true'",
    ],
)
def test_the_application_cannot_change_what_was_written_down(given: None, statement: str) -> None:
    AuditEntry.objects.create(actor="somebody", what="done", kind="x")
    refused("app_of_test", statement)


def test_the_application_adds_to_the_audit_and_a_deleted_account_is_forgotten_in_it(given: None) -> None:
    user = person("anna")
    with acting_as("app_of_test"):
        AuditEntry.objects.create(actor="anna", what="done", kind="x", user=user)
        entry = AuditEntry.objects.get(user=user)
        user.delete()
    entry.refresh_from_db()
    assert (entry.user_id, entry.actor, entry.number > 0) == (None, "anna", True)


def test_spark_writes_dashboards_and_sees_nobody(given: None) -> None:
    others = set(TABLES) - {"console_dashboardrun", "console_dashboardpoint", "broker_consumeroffset"}
    refused("spark_of_test", *(f"TABLE {table}" for table in sorted(others)))
    refused("spark_of_test", "DELETE FROM broker_consumeroffset", "INSERT INTO console_dashboardrun DEFAULT VALUES")
    with acting_as("spark_of_test") as cursor:
        cursor.execute("SELECT * FROM broker_consumeroffset")
        cursor.execute("CREATE TEMP TABLE more (LIKE console_dashboardpoint) ON COMMIT DROP")
        cursor.execute("DELETE FROM console_dashboardpoint")
        cursor.execute("DELETE FROM console_dashboardrun")


@pytest.fixture
def spark_url(transactional_db: None, database_url: str) -> Iterator[str]:
    """The address of a role that signs in."""
    give([Role(SPARK, "signed_in_of_test", "secret")], "default")
    yield re.sub("//.*@", "//signed_in_of_test:secret@", database_url)
    with connection.cursor() as cursor:
        cursor.execute("DROP OWNED BY signed_in_of_test")
        cursor.execute("DROP ROLE signed_in_of_test")


def test_what_spark_writes_it_may_write(spark_url: str) -> None:
    row = DashboardRun.objects.create(batch=uuid4(), broker="b", dashboard="flow", window="all", source="x")
    sink = Sink(spark_url, {"flow": str(row.pk)})
    try:
        assert sink.offsets("b") == []
        assert sink.beat(0.5) is False
        assert sink.finish("flow", Coverage(0, 10, 1, 0, 1), [("bytes", "orders", "", "", 1, 1.0, None)], 5) == 1
        DashboardRun.objects.update(state="queued")
        more = [("bytes", topic, "", "", 1, 1.0, None) for topic in ("orders", "bills")]
        assert sink.add("flow", Coverage(10, 20, 2, 0, 1), more) is True
        sink.give_up("cancelled", "enough")
    finally:
        sink.close()
    row.refresh_from_db()
    assert (row.state, row.end_position) == ("cancelled", 20)
    assert dict(DashboardPoint.objects.values_list("topic", "value")) == {"orders": 2.0, "bills": 1.0}


@pytest.mark.parametrize(
    "table",
    ["auth_user", "console_apitoken", "django_session", "axes_accesslog", "console_identity", "console_checkaddress",
     "escapement_outbox_message", "broker_halfmessage", "console_operation", "django_admin_log"],
)  # fmt: skip
def test_readers_see_no_secret_and_no_content(given: None, table: str) -> None:
    refused("reader_of_test", f"TABLE {table}")


def test_readers_change_nothing(given: None) -> None:
    assert {right for rights in TABLES.values() for right in rights.reader} == {"SELECT"}
    refused("reader_of_test", *(f"TRUNCATE {table}" for table in TABLES))
    with acting_as("reader_of_test") as cursor:
        cursor.execute("SELECT number FROM console_auditentry")


def test_a_role_that_no_rights_bind_is_refused(given: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE great_of_test SUPERUSER")
        cursor.execute("CREATE TABLE its_own (n int)")
        cursor.execute("GRANT ALL ON SCHEMA public TO app_of_test")
        cursor.execute("ALTER TABLE its_own OWNER TO app_of_test")
    with pytest.raises(RolesFailed, match="may do everything"):
        steps([Role(APPLICATION, "great_of_test")], "default")
    with pytest.raises(RolesFailed, match="owns tables"):
        steps(ROLES, "default")


def test_an_owner_who_may_make_no_roles_says_what_to_do(given: None) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE app_of_test")
        with pytest.raises(RolesFailed, match="createuser --pwprompt missing_of_test"):
            steps([Role(SPARK, "missing_of_test")], "default")


def test_a_password_is_in_no_statement(db: None) -> None:
    (made,) = [step for step in steps(ROLES[:1], "default") if "PASSWORD" in step.shown]
    assert made.shown == "CREATE ROLE \"app_of_test\" LOGIN PASSWORD '...'"
    assert "a'b" not in made.statement.as_string()
    assert "SCRAM-SHA-256$" in made.statement.as_string()


def settings_of(owner: str, application: str, spark: str, reader: str = "") -> SimpleNamespace:
    found = {"USER": application, "PASSWORD": ""}
    return SimpleNamespace(
        DATABASES={"default": found, "owner": {"USER": owner, "PASSWORD": ""}},
        SPARK_DATABASE={"USER": spark, "PASSWORD": ""},
        DATABASE_READER=reader,
    )


def test_each_part_is_another_role() -> None:
    assert [each.name for each in roles(settings_of("o", "a", "s", "r"))] == ["a", "s", "r"]
    for named in (("o", "o", "s", ""), ("o", "a", "o", ""), ("o", "a", "a", ""), ("o", "a", "s", "a")):
        with pytest.raises(RolesFailed, match="named twice"):
            roles(settings_of(*named))
